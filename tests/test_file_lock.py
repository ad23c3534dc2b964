"""Locks of files: one holder at a time, over threads and processes, and a bound of the wait."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from rocketpy import file_lock
from rocketpy.file_lock import wait_file_lock
from tests.patience import PATIENCE_SECONDS


def test_the_next_one_gets_it_when_the_block_ends_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "t.lock"
    order: list[str] = []

    def second() -> None:
        with wait_file_lock(str(path)):
            order.append("second")

    with wait_file_lock(str(path)):
        thread = Thread(target=second)
        thread.start()
        order.append("first")
    thread.join(PATIENCE_SECONDS)
    assert order == ["first", "second"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_release_may_be_repeated_and_closes_no_file_of_others(tmp_path: Path) -> None:
    lock = wait_file_lock(str(tmp_path / "t.lock"))
    lock.release()
    other = os.open(tmp_path / "t.lock", os.O_RDONLY)  # it has the same number
    lock.release()
    os.fstat(other)
    os.close(other)


def test_a_holder_that_does_not_let_go_is_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_lock, "LOCK_SECONDS", 0.0)
    path = str(tmp_path / "t.lock")
    before = len(os.listdir("/proc/self/fd"))
    lock = wait_file_lock(path)
    with pytest.raises(BlockingIOError, match=r"another process has it locked for 0 s: .*t\.lock"):
        wait_file_lock(path)
    lock.release()
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lock")
    script = (
        "from rocketpy.file_lock import wait_file_lock\n"
        f"lock = wait_file_lock({path!r})\n"
        "print('locked', flush=True)\n"
        "input()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        process.kill()
        process.wait(PATIENCE_SECONDS)
    wait_file_lock(path).release()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "t.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        wait_file_lock(str(tmp_path / "t.lock"))
    assert not (tmp_path / "elsewhere").exists()
