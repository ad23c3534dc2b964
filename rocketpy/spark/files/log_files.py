"""CommitLog files of a store directory: which there are, and whether they belong together.

Nothing is written, locked or waited for: the broker may be running, dead, or of another make. A store's files have one
size and their names are the offsets of their first bytes, so each name is the end of the file before it::

    +--------+--------+-----+-----------------------+-----------------------+
    | record | record | ... | BLANK: i32 rest, magic | anything              |   a full file
    +--------+--------+-----+-----------------------+-----------------------+
    | record | record | ... | zeros                                         |   the last file
    +--------+--------+-----+-----------------------------------------------+
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from itertools import pairwise

import attrs

from rocketpy.errors import SettingsError, StoreError
from rocketpy.protocol.stored_message import (
    BLANK_MAGIC_CODE,
    BLANK_SIZE_MIN,
    MESSAGE_MAGIC_CODE,
    store_timestamp_position,
)
from rocketpy.spark.files.problems import Problem, Report
from rocketpy.store.layout import COMMIT_LOG_DIRECTORY

FILE_NAME_DIGITS = 20

_FIRST_HEAD = struct.Struct(">ii20xqi")  # size, magic, physical offset, sysFlag
_HEAD_MAX = 112


def _is_not_known(file: CommitLogFile) -> bool:
    """Know of no record: there is no ConsumeQueue to ask."""
    return False


class FileGoneError(StoreError):
    """A file that was there when the read was planned is not there, or shorter: the broker cleaned it away."""


@attrs.frozen
class CommitLogFile:
    """One file as it was when the read was planned. ``is_last``: no later file holds a record."""

    path: str
    base_offset: int
    size: int
    is_last: bool

    @property
    def end_offset(self) -> int:
        """The physical offset after the file."""
        return self.base_offset + self.size


def list_log_files(
    path: str, report: Report, is_known: Callable[[CommitLogFile], bool] = _is_not_known
) -> list[CommitLogFile]:
    """Return the files that hold records, oldest first, of a store directory or of its commitlog directory.

    Preallocated files without a record are left out; a store that never got a message has none. ``is_known`` says
    whether a file that begins with zeros has a record all the same. Reports bytes that are missing between two files.
    ``SettingsError`` when there is no CommitLog at the path; ``StoreError`` for a file that may not be read or is none
    of a CommitLog.
    """
    directory, names = _find_commit_log(path)
    paths = [os.path.join(directory, name) for name in names]
    heads = [_read_head(each) for each in paths]
    files = [CommitLogFile(each, int(os.path.basename(each)), os.path.getsize(each), False) for each in paths]
    while files and not any(heads[len(files) - 1][:BLANK_SIZE_MIN]) and not is_known(files[-1]):
        files.pop()
    files[-1:] = [attrs.evolve(each, is_last=True) for each in files[-1:]]
    if len(files) == 1 and any(heads[0][:BLANK_SIZE_MIN]):
        _check_only(files[0], heads[0])
    for before, after in pairwise(files):
        _check_neighbours(before, after, report)
    return files


def store_directory(path: str) -> str:
    """Return the store directory of a path that :func:`list_log_files` takes: where queues and index lie beside it."""
    if os.path.isdir(os.path.join(path, COMMIT_LOG_DIRECTORY)):
        return path
    return os.path.dirname(os.path.abspath(path))


def open_to_read(path: str) -> int:
    """Return a descriptor. :class:`FileGoneError` for a file that is gone, ``StoreError`` for one not to be read."""
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError as error:
        raise FileGoneError("the file was deleted after the read was planned", path=path) from error
    except PermissionError as error:
        raise StoreError(
            f"no permission to read, expected a file that user {os.geteuid()} may read", path=path
        ) from error


class OpenLogFiles:
    """Descriptors of files of a log, each opened when it is first asked for and closed with the block."""

    def __init__(self) -> None:
        self._descriptors: dict[str, int] = {}

    def __enter__(self) -> OpenLogFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)

    def descriptor(self, file: CommitLogFile) -> int:
        """Return the descriptor of a file; errors as :func:`open_to_read`."""
        if file.path not in self._descriptors:
            self._descriptors[file.path] = open_to_read(file.path)
        return self._descriptors[file.path]


def read_exactly(descriptor: int, file: CommitLogFile, position: int, size: int) -> bytes:
    """Return bytes of a file; :class:`FileGoneError` if it ends before them."""
    content = os.pread(descriptor, size, position)
    if len(content) < size:
        raise FileGoneError(
            f"expected {size} bytes, found {len(content)}: the file became shorter after the read was planned",
            path=file.path,
            position=position,
        )
    return content


def read_timestamp_ms(file: CommitLogFile, position: int) -> int | None:
    """Return the store timestamp of the record at a position; None if there is none."""
    descriptor = open_to_read(file.path)
    try:
        head = os.pread(descriptor, _HEAD_MAX, position)
    finally:
        os.close(descriptor)
    if len(head) < _HEAD_MAX:
        return None
    _, magic, physical_offset, sys_flag = _FIRST_HEAD.unpack_from(head)
    if magic != MESSAGE_MAGIC_CODE or physical_offset != file.base_offset + position:
        return None
    at = store_timestamp_position(sys_flag)
    return int.from_bytes(head[at : at + 8], "big", signed=True)


def _find_commit_log(path: str) -> tuple[str, list[str]]:
    """Return the directory and the names of its files, sorted."""
    for directory in (os.path.join(path, COMMIT_LOG_DIRECTORY), path):
        if not os.path.isdir(directory):
            continue
        try:
            entries = os.listdir(directory)
        except PermissionError as error:
            raise StoreError(
                f"no permission to list, expected a directory that user {os.geteuid()} may read", path=directory
            ) from error
        names = sorted(name for name in entries if len(name) == FILE_NAME_DIGITS and name.isdigit())
        if names or os.path.basename(os.path.abspath(directory)) == COMMIT_LOG_DIRECTORY:
            return directory, names
    hint = "; patterns are not expanded, a read is of one store directory" if set("*?[{") & set(path) else ""
    raise SettingsError(
        f"option path: expected a store directory or its commitlog directory (files named by {FILE_NAME_DIGITS} "
        f"digits) at {path}, found neither{hint}"
    )


def _read_head(path: str) -> bytes:
    descriptor = open_to_read(path)
    try:
        return os.pread(descriptor, _HEAD_MAX, 0)
    finally:
        os.close(descriptor)


def _check_only(file: CommitLogFile, head: bytes) -> None:
    """Refuse a file that is none of a CommitLog, or has another one's name. Among others it would be a damaged one."""
    if len(head) < _FIRST_HEAD.size:
        raise StoreError(f"no CommitLog file: expected a record, found {len(head)} bytes", path=file.path)
    size, magic, physical_offset, _ = _FIRST_HEAD.unpack_from(head)
    if magic == BLANK_MAGIC_CODE:
        return
    if magic != MESSAGE_MAGIC_CODE:
        raise StoreError(
            f"no CommitLog file, or damaged at its begin: expected the magic number of a record, found {magic}",
            path=file.path,
            position=0,
        )
    if physical_offset != file.base_offset:
        raise StoreError(
            f"the file has another one's name: its first record, of {size} bytes, says physical offset "
            f"{physical_offset}, expected {file.base_offset}",
            path=file.path,
            position=0,
        )


def _check_neighbours(before: CommitLogFile, after: CommitLogFile, report: Report) -> None:
    end = before.base_offset + before.size
    if end > after.base_offset:
        raise StoreError(
            f"expected at most {after.base_offset - before.base_offset} bytes before the next file "
            f"{os.path.basename(after.path)}, found {before.size}: not of one CommitLog",
            path=before.path,
        )
    if end < after.base_offset:
        missing = after.base_offset - end
        report(Problem(before.path, before.size, missing, f"{missing} bytes are missing before the next file"))
