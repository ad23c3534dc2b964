"""A test file is left out of the second build only if nothing that it runs is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

import hatch_build
from tests.compiled_reach import ROOT, pytest_ignore_collect, reaches_compiled

SAME = "from rocketpy.protocol.fastjson.codec import loads\n"


def mirror(source: str) -> Path:
    """Return the test file of a module."""
    path = Path(source)
    return ROOT.joinpath("tests", *path.parts[1:-1], f"test_{path.name}")


@pytest.mark.parametrize("source", [each for each in hatch_build.ALL if mirror(each).is_file()])
def test_the_tests_of_a_compiled_module_run_on_both_builds(source: str) -> None:
    assert pytest_ignore_collect(mirror(source)) is None


def test_so_do_those_that_hold_a_kernel_against_the_general_path() -> None:
    for name in ("broker/send/test_fast_and_general_path.py", "protocol/selector/test_sql92_kernel.py"):
        assert reaches_compiled(ROOT / "tests" / name)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (SAME, False),
        ("import os\n\ndef test_it(tmp_path): pass\n", False),
        ("from rocketpy.protocol.kernels.batch import read\n", True),
        ("def test_it():\n    import rocketpy.protocol.kernels.batch\n", True),
        ("from rocketpy.store.log import scanner\n", True),
        ("from tests.broker.broker_on_bytes import BrokerOnBytes\n", True),
        (f"{SAME}import subprocess\n", True),
        (f"{SAME}def test_it(compiled_thing): pass\n", True),
        (f"{SAME}@pytest.mark.usefixtures('compiled_thing')\ndef test_it(): pass\n", True),
        (f"{SAME}def test_it(rocketmq): pass\n", True),
        (f"{SAME}def test_it(other_thing): pass\n", False),
    ],
)
def test_imports_fixtures_and_programs_count(tmp_path: Path, source: str, expected: bool) -> None:
    fixture = "import rocketpy.protocol.kernels.batch\n\n@pytest.fixture\ndef compiled_thing(): pass\n"
    (tmp_path / "conftest.py").write_text(fixture)
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder/test_it.py"
    path.write_text(source)
    assert reaches_compiled(path) is expected
    assert pytest_ignore_collect(path) is (None if expected else True)


def test_other_files_are_left_to_pytest(tmp_path: Path) -> None:
    """Helpers and conftests are not tests, and a folder is entered whatever its name."""
    (tmp_path / "test_folder").mkdir()
    assert pytest_ignore_collect(tmp_path / "test_folder") is None
    assert pytest_ignore_collect(ROOT / "tests/protocol/conftest.py") is None
