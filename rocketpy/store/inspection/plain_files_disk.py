"""Disks for untrusted stores: they open regular files only, and follow no link out of the store.

A user who can write to a store's directory can put a link there to a file of the user who repairs the store, often
root, or a pipe on which a read blocks forever. Commands that read refuse everything but regular files. A repair, which
truncates and overwrites, also refuses symbolic links, and paths whose real directory is outside the store.

An operator may still link whole directories: those of the CommitLog are named by ``--commitlog``, and the store's own
directory may be a link. RocketMQ has no such tools.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import ClassVar

from rocketpy.errors import StartError, StoreError
from rocketpy.store.disk.interface import DiskFile, DiskLock
from rocketpy.store.disk.os_disk import OsDisk


class PlainFilesDisk(OsDisk):
    """An OsDisk that opens only regular files."""

    _open_flags: ClassVar[int] = os.O_NONBLOCK

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile:
        """Open a regular file; StoreError if it is anything else. Does not block on a pipe."""
        _refuse_special_file(path)
        return super().open(path, create=create, read_only=read_only)


class DirectoryBoundDisk(PlainFilesDisk):
    """Opens, renames and removes only below the given directories, without following symbolic links."""

    # With O_NOFOLLOW the kernel refuses a link as the last component, even one created after our own check.
    _open_flags: ClassVar[int] = os.O_NONBLOCK | os.O_NOFOLLOW

    def __init__(self, directories: Sequence[str]) -> None:
        super().__init__()
        self._directories = tuple(os.path.realpath(each) for each in directories)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile:
        """Open a regular file of the store; StoreError if its name is a link, or its directory is elsewhere."""
        self._refuse_foreign(path)
        return super().open(path, create=create, read_only=read_only)

    def create_private(self, path: str) -> DiskFile:
        """Create a private file in the store. The kernel refuses a name that exists, even a link."""
        self._refuse_foreign_directory(path)
        return super().create_private(path)

    def rename(self, path: str, new_path: str) -> None:
        """Rename within the store. A link that is moved away stays a link to what it named."""
        self._refuse_foreign_directory(path)
        self._refuse_foreign(new_path)
        super().rename(path, new_path)

    def unlink(self, path: str) -> None:
        """Remove a name of the store; of a link the link itself."""
        self._refuse_foreign_directory(path)
        super().unlink(path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory of the store."""
        self._refuse_foreign_directory(path)
        super().remove_directory(path)

    def make_directories(self, path: str) -> None:
        """Make directories within the store."""
        self._refuse_foreign(path)
        super().make_directories(path)

    def copy_mode(self, path: str, new_path: str) -> None:
        """Copy a mode within the store."""
        self._refuse_foreign(new_path)
        super().copy_mode(path, new_path)

    def lock(self, path: str) -> DiskLock:
        """Lock a file of the store, whose content RocketMQ overwrites; StartError if its name is a link."""
        try:
            self._refuse_foreign(path)
        except StoreError as failure:
            raise StartError(str(failure)) from failure
        return super().lock(path)

    def _refuse_foreign(self, path: str) -> None:
        if os.path.islink(path):
            raise StoreError(f"expected a regular file, found a symbolic link to {os.readlink(path)}", path=path)
        self._refuse_foreign_directory(path)

    def _refuse_foreign_directory(self, path: str) -> None:
        directory = os.path.realpath(os.path.dirname(path))
        if not any(directory == each or directory.startswith(f"{each}/") for each in self._directories):
            raise StoreError(f"expected a path below {' or '.join(self._directories)}, found {directory}", path=path)


def _refuse_special_file(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # missing: the caller's open says so
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise StoreError("expected a regular file, found a pipe, socket or device", path=path)
