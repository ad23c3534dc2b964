"""The ready file: there exactly while a program serves, and whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocketpy.errors import StartError
from rocketpy.ready_file import ReadyFile


def test_the_file_is_there_from_writing_to_the_end_of_the_block(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    path.write_text("left by a process that was killed")
    ready = ReadyFile(str(path))
    with ready.removed_around():
        assert not path.exists()
        ready.write({"role": "broker"})
        assert json.loads(path.read_text()) == {"pid": os.getpid(), "role": "broker"}
        assert os.listdir(tmp_path) == ["ready"]
    assert not path.exists()


@pytest.mark.parametrize("is_ready", [True, False])
def test_at_its_end_a_program_leaves_the_file_of_the_next_one(tmp_path: Path, *, is_ready: bool) -> None:
    """The next one may serve as soon as the store is free, which is before the first has come to its end."""
    path = tmp_path / "ready"
    ready = ReadyFile(str(path))
    with ready.removed_around():
        if is_ready:
            ready.write({"role": "broker"})
        another = "import sys; from rocketpy.ready_file import ReadyFile; ReadyFile(sys.argv[1]).write({'role': 'x'})"
        subprocess.run([sys.executable, "-c", another, str(path)], check=True)
        line = path.read_text()
    assert path.read_text() == line
    assert json.loads(line)["pid"] != os.getpid()


def test_it_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ready"
    seen: list[str] = []
    replace = os.replace

    def noted(source: str, target: str) -> None:
        assert not path.exists()
        seen.append(Path(source).read_text())
        replace(source, target)

    monkeypatch.setattr(os, "replace", noted)
    ReadyFile(str(path)).write({"role": "x"})
    assert seen == [path.read_text()]


def test_without_a_path_nothing_happens() -> None:
    ready = ReadyFile(None)
    with ready.removed_around():
        ready.write({})


def test_a_dash_is_one_line_on_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ready = ReadyFile("-")
    with ready.removed_around():
        print("to people", file=ready.output_for_people)
        ready.write({"role": "broker"})
        stdout, stderr = capsys.readouterr()
        assert (json.loads(stdout), stdout.count("\n")) == ({"pid": os.getpid(), "role": "broker"}, 1)
        assert stderr == "to people\n"
    assert capsys.readouterr() == ("", "")
    assert os.listdir(tmp_path) == []


def test_people_read_standard_output_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (None, str(tmp_path / "ready")):
        print("to people", file=ReadyFile(path).output_for_people)
        assert capsys.readouterr() == ("to people\n", "")


def test_a_place_where_no_file_can_be_is_a_start_error(tmp_path: Path) -> None:
    ready = ReadyFile(str(tmp_path / "missing" / "ready"))
    with pytest.raises(StartError, match="expected a directory that can be written"), ready.removed_around():
        pass
    (tmp_path / "directory").mkdir()
    with pytest.raises(StartError, match="cannot be removed"), ReadyFile(str(tmp_path / "directory")).removed_around():
        pass


def test_a_forked_process_leaves_the_file_to_its_parent(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from rocketpy.ready_file import ReadyFile\n"
        "ready = ReadyFile('ready')\n"
        "with ready.removed_around():\n"
        "    ready.write({})\n"
        "    if not os.fork():\n"
        "        sys.exit()\n"
        "    os.wait()\n"
        "    print(os.listdir())\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stdout == "['ready']\n"
    assert os.listdir(tmp_path) == []


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """Its names can be guessed, and the directory may be one that everybody may write to."""
    (tmp_path / "mine").write_text("kept")
    path = tmp_path / "ready"
    path.symlink_to(tmp_path / "mine")
    (tmp_path / f"ready.{os.getpid()}.new").symlink_to(tmp_path / "mine")
    with ReadyFile(str(path)).removed_around() as _:
        file = ReadyFile(str(path))
        file.write({"port": 1})
        assert not path.is_symlink()
        assert json.loads(path.read_text())["port"] == 1
    assert (tmp_path / "mine").read_text() == "kept"
