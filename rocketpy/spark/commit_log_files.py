"""Reader of CommitLog files without a broker: of a rocketpy or Java broker, running or not.

Rule: nothing is written, locked or waited for, and every record is checked before it is returned: its size fits the
file, its physical offset is its position, its CRC is right. A record that fails the check is the end of the log if no
later file holds a record (preallocated space, or a torn write at the tail); otherwise the file is damaged, which is a
:class:`StoreError` with the position.

A file is a chain of records, closed by a BLANK record when the next one did not fit::

    +--------+--------+-----+-----------------------+-----------------------+
    | record | record | ... | BLANK: i32 rest, magic | anything              |   a full file
    +--------+--------+-----+-----------------------+-----------------------+
    | record | record | ... | zeros                                         |   the last file
    +--------+--------+-----+-----------------------------------------------+
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator

import attrs

from rocketpy.errors import LocalProtocolError, RemoteProtocolError, SettingsError, StoreError
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import (
    BLANK_MAGIC_CODE,
    BLANK_SIZE_MIN,
    MESSAGE_MAGIC_CODE,
    RECORD_SIZE_MAX,
    RECORD_SIZE_MIN,
    CheckedMessage,
    RecordStatus,
    check_message,
    decode_message,
)

FILE_NAME_DIGITS = 20
COMMIT_LOG_DIRECTORY = "commitlog"
CHUNK_SIZE = 4 * 2**20

_SIZE_AND_MAGIC = struct.Struct(">ii")

Wants = Callable[[str, int], bool]
"""Whether a message of this topic and store timestamp belongs to the result."""


@attrs.frozen
class CommitLogFile:
    """One file as it was when the read was planned. ``is_last``: no later file holds a record."""

    path: str
    base_offset: int
    size: int
    is_last: bool


@attrs.frozen
class CommitLogRange:
    """Part of one file: the records that begin at ``start`` or later, and before ``end`` (positions in the file)."""

    file: CommitLogFile
    start: int
    end: int


def list_commit_log_files(path: str) -> list[CommitLogFile]:
    """Return the files that hold records, oldest first, of a store directory or of its commitlog directory.

    Preallocated files without a record are left out; a store that never got a message has none.
    ``SettingsError`` when there is no CommitLog at the path.
    """
    directory, names = _find_commit_log(path)
    paths = [os.path.join(directory, name) for name in names]
    while paths and not _holds_a_record(paths[-1]):
        paths.pop()
    return [
        CommitLogFile(each, int(os.path.basename(each)), os.path.getsize(each), each == paths[-1]) for each in paths
    ]


def split_files(files: list[CommitLogFile], partitions_min: int) -> list[CommitLogRange]:
    """Return ranges that cover the files, at least so many if there are that many records, cut between two records.

    A cut is found by walking from record to record, because a body may contain anything, also something that looks
    like a record; so files are walked only when there are fewer of them than ranges wanted.
    """
    whole = [CommitLogRange(file, 0, file.size) for file in files]
    if not files or len(files) >= partitions_min:
        return whole
    parts = -(-partitions_min // len(files))
    return [part for each in whole for part in _split(each, parts)]


def read_messages(part: CommitLogRange, wants: Wants, *, decompress: bool = True) -> Iterator[MessageExt]:
    """Yield the wanted messages of a range in order.

    ``StoreError`` where a file that is not the last is damaged, is gone, or a body does not decompress.
    """
    for position, record in _walk(part.file, part.start, part.end):
        checked = _check(part.file, position, record)
        if checked is None:
            return
        if wants(checked.topic, checked.store_timestamp):
            try:
                yield decode_message(record, decompress=decompress)
            except (RemoteProtocolError, LocalProtocolError) as error:
                raise StoreError(
                    f"{error}; the option decompress=false reads bodies as they are stored",
                    path=part.file.path,
                    position=position,
                ) from error


def _find_commit_log(path: str) -> tuple[str, list[str]]:
    """Return the directory and the names of its files, sorted."""
    for directory in (os.path.join(path, COMMIT_LOG_DIRECTORY), path):
        if not os.path.isdir(directory):
            continue
        names = sorted(name for name in os.listdir(directory) if len(name) == FILE_NAME_DIGITS and name.isdigit())
        if names or os.path.basename(os.path.abspath(directory)) == COMMIT_LOG_DIRECTORY:
            return directory, names
    raise SettingsError(
        f"option path: expected a store directory or its commitlog directory (files named by 20 digits) at {path}, "
        "found neither"
    )


def _split(whole: CommitLogRange, parts: int) -> list[CommitLogRange]:
    """Cut after every ``1/parts`` of what the file holds. In the last file every record is checked on the way, so that
    no range begins past the end of the log."""
    file = whole.file
    starts = array("q")
    end = 0
    for position, record in _walk(file, whole.start, whole.end):
        if file.is_last and _check(file, position, record) is None:
            break
        starts.append(position)
        end = position + len(record)
    wanted = [end * number // parts for number in range(parts)]
    cuts = sorted({starts[at] for at in (bisect_left(starts, each) for each in wanted) if at < len(starts)})
    return [CommitLogRange(file, start, stop) for start, stop in zip(cuts, [*cuts[1:], whole.end], strict=True)]


def _walk(file: CommitLogFile, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield position and bytes of every record that begins in ``start`` to ``end``, up to BLANK or the end of the log.

    Of a record only size and magic have been looked at.
    """
    position = start
    try:
        descriptor = os.open(file.path, os.O_RDONLY)
    except FileNotFoundError as error:
        raise StoreError("the file was deleted after the read was planned", path=file.path) from error
    try:
        chunk, chunk_start = b"", position
        while position < end and position + BLANK_SIZE_MIN <= file.size:
            if position + BLANK_SIZE_MIN > chunk_start + len(chunk):
                chunk, chunk_start = _read(descriptor, file, position, CHUNK_SIZE), position
            size, magic = _SIZE_AND_MAGIC.unpack_from(chunk, position - chunk_start)
            if magic == BLANK_MAGIC_CODE:
                return
            is_possible = RECORD_SIZE_MIN <= size <= min(file.size - position, RECORD_SIZE_MAX)
            if magic != MESSAGE_MAGIC_CODE or not is_possible:
                _end_of_log(file, position, f"expected a record, found size {size} and magic {magic}")
                return
            if position + size > chunk_start + len(chunk):
                chunk, chunk_start = _read(descriptor, file, position, max(size, CHUNK_SIZE)), position
            at = position - chunk_start
            yield position, chunk[at : at + size]
            position += size
    finally:
        os.close(descriptor)


def _check(file: CommitLogFile, position: int, record: bytes) -> CheckedMessage | None:
    """Return the checked record, or ``None`` where the log ends before it."""
    checked = check_message(record, 0, len(record))
    physical_offset = file.base_offset + position
    if checked.status != RecordStatus.MESSAGE:
        _end_of_log(file, position, checked.why)
    elif checked.physical_offset != physical_offset:
        _end_of_log(file, position, f"expected physical offset {physical_offset}, found {checked.physical_offset}")
    elif "\0" in checked.topic or b"\0" in checked.properties_text:  # not covered by the CRC, torn writes leave zeros
        _end_of_log(file, position, "NUL in topic or properties")
    else:
        return checked
    return None


def _end_of_log(file: CommitLogFile, position: int, why: str) -> None:
    if not file.is_last:
        raise StoreError(f"damaged: {why}, and later files hold records", path=file.path, position=position)


def _read(descriptor: int, file: CommitLogFile, position: int, size: int) -> bytes:
    wanted = min(size, file.size - position)
    chunk = os.pread(descriptor, wanted, position)
    if len(chunk) < wanted:
        raise StoreError(
            f"expected {wanted} bytes, found {len(chunk)}: the file became shorter", path=file.path, position=position
        )
    return chunk


def _holds_a_record(path: str) -> bool:
    with open(path, "rb") as file:
        return any(file.read(BLANK_SIZE_MIN))
