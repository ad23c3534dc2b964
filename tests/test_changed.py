"""What ``make test-changed`` runs for a change."""

from __future__ import annotations

import pytest

from tests import changed
from tests.changed import changed_files, main, mirrors_of


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("rocketpy/store/index/hash.py", ["tests/store/index/test_hash.py"]),
        ("rocketpy/store/index/gone.py", []),
        ("tests/test_clock.py", ["tests/test_clock.py"]),
        ("property_tests/test_route_info.py", ["property_tests/test_route_info.py"]),
        ("tests/case_names.py", ["tests/test_case_names.py"]),
        ("docs/promises.md", ["tests/test_promises_page.py"]),
        ("docs/file-formats.md", ["tests/test_file_formats_page.py"]),
        ("hatch_build.py", ["tests/test_hatch_build.py"]),
        ("conf/broker.conf", []),
    ],
)
def test_a_file_has_the_tests_that_mirror_it(path: str, expected: list[str]) -> None:
    assert mirrors_of([path]) == expected


def test_a_helper_of_tests_has_the_files_that_import_it_and_a_conftest_its_folder() -> None:
    assert "property_tests/test_delay_machine.py" in mirrors_of(["property_tests/hunts.py"])
    assert "tests/store/disk/test_os_disk.py" in mirrors_of(["tests/store/disk/conftest.py"])


def test_without_a_change_it_says_how_to_name_another_commit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(changed, "changed_files", lambda base: [])
    assert main([]) == 0
    assert (
        capsys.readouterr().out
        == "nothing has changed since HEAD; BASE=COMMIT names another commit, make test runs all\n"
    )


def test_a_commit_that_there_is_not_is_named() -> None:
    with pytest.raises(SystemExit, match="git diff no-such-commit: "):
        changed_files("no-such-commit")
