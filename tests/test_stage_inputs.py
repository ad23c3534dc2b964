"""A stage is skipped only if nothing that decides about it has changed since a run that passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import stage_inputs
from tests.stage_inputs import RECORDED, digest, record, unchanged
from tests.stages import STAGES


@pytest.fixture
def record_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "passed_inputs.txt"
    monkeypatch.setattr(stage_inputs, "RECORD", path)
    return path


def test_only_stages_that_have_passed_are_skipped(record_file: Path) -> None:
    assert unchanged() == set()
    record({"wheel", "unit"})
    assert unchanged() == {"wheel"}
    record_file.write_text(record_file.read_text().replace("wheel ", "wheel 0"))
    assert unchanged() == set()


def test_a_digest_depends_on_names_and_contents_and_on_nothing_that_a_run_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_inputs, "RECORDED", {"some": ("a", "b.txt")})
    (tmp_path / "a/deep").mkdir(parents=True)
    (tmp_path / "b.txt").write_text("b")
    (tmp_path / "a/deep/x.py").write_text("x")
    before = digest("some", tmp_path)
    for left in ("x.cpython-311.pyc", "x.so", "compiled.txt", "passed_inputs.txt"):
        (tmp_path / "a/deep" / left).write_text("left")
    assert digest("some", tmp_path) == before
    (tmp_path / "a/deep/x.py").rename(tmp_path / "a/deep/y.py")
    renamed = digest("some", tmp_path)
    (tmp_path / "a/deep/y.py").write_text("y")
    assert len({before, renamed, digest("some", tmp_path)}) == 3
    (tmp_path / "b.txt").unlink()
    with pytest.raises(AssertionError, match=r"no file named b\.txt"):
        digest("some", tmp_path)


def test_each_recorded_stage_is_one_and_all_of_its_inputs_exist() -> None:
    assert set(RECORDED) <= {stage.name for stage in STAGES}
    assert len({digest(stage) for stage in RECORDED}) == len(RECORDED)
