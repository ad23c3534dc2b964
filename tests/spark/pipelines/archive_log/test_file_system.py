"""Local files of an archive, and the contract that Hadoop's must keep too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocketpy.spark.pipelines.archive_log.file_system import FileSystem, LocalFileSystem


def check_contract(files: FileSystem, root: str) -> None:
    """Fail unless files under an empty directory behave as :class:`FileSystem` says."""
    assert files.walk(f"{root}/none") == files.list_names(f"{root}/none") == []
    files.create(f"{root}/runs/2.json", b"two\x00\xff")
    files.create(f"{root}/runs/1.json", b"")
    assert files.list_names(f"{root}/runs") == ["1.json", "2.json"]
    assert (files.read(f"{root}/runs/1.json"), files.read(f"{root}/runs/2.json")) == (b"", b"two\x00\xff")
    with pytest.raises(FileExistsError):
        files.create(f"{root}/runs/2.json", b"other")
    assert files.read(f"{root}/runs/2.json") == b"two\x00\xff"
    assert files.list_names(f"{root}/runs") == ["1.json", "2.json"]  # nothing unfinished is left
    files.create(f"{root}/staging/x/topic=%25RETRY%25g/a", b"a")
    assert files.walk(f"{root}/staging") == ["x/topic=%25RETRY%25g/a"]
    files.sync([f"{root}/staging/x/topic=%25RETRY%25g/a"])
    for _ in range(2):
        files.move(f"{root}/staging/x/topic=%25RETRY%25g/a", f"{root}/new/deep/a")
    assert files.read(f"{root}/new/deep/a") == b"a"
    with pytest.raises(FileNotFoundError):
        files.move(f"{root}/none", f"{root}/never")
    for path in ("staging", "new/deep/a", "none"):
        files.remove(f"{root}/{path}")
    assert files.walk(root) == ["runs/1.json", "runs/2.json"]


def test_local_files_keep_the_contract(tmp_path: Path) -> None:
    check_contract(LocalFileSystem(), str(tmp_path))


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    """Killed or not: the next run needs no clean-up by hand."""
    files, path = LocalFileSystem(), str(tmp_path / "a" / "lock")
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        try:
            with files.locked(path):
                os.write(told, b"x")
                os.kill(os.getpid(), 9)
        finally:
            os._exit(1)
    assert os.read(ready, 1) == b"x"
    os.waitpid(child, 0)
    os.close(ready)
    os.close(told)
    with files.locked(path):
        pass
    assert files.is_abandoned(str(tmp_path / "staging"))
