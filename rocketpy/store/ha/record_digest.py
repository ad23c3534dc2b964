"""Whether the log has, at an offset, the bytes that a slave has there: compared by their SHA-256, sent by the slave.

A slave asks before it requests anything (:mod:`rocketpy.store.ha.divergence`). Returning the record instead would need
a unit of its own queue, because a body may hold the bytes of a record; but a record whose topic was deleted, or whose
queue has expired, is still a part of the log, and a BLANK never has a unit.

Rules: what is compared begins as a record of exactly that size and offset, or is the head of a BLANK. So a caller
learns only that a record which it knows as a whole is there; no shorter range can be guessed byte by byte. The head is
read first, so that a wrong size costs one small read, and the rest is read in pieces.
"""

from __future__ import annotations

import hashlib
from struct import Struct

from rocketpy.protocol.stored_message import (
    BLANK_MAGIC_CODE,
    BLANK_SIZE_MIN,
    MESSAGE_MAGIC_CODE,
    RECORD_SIZE_MAX,
    RECORD_SIZE_MIN,
)
from rocketpy.runner import RunBlocking
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.log.record_reader import log_bytes
from rocketpy.store.read.steps import Steps, read_anywhere, read_blocking

_PIECE_SIZE = 256 << 10
_TOTAL_AND_MAGIC = Struct(">ii")
_PHYSICAL_OFFSET_AT = 28
_HEAD_SIZE = _PHYSICAL_OFFSET_AT + 8


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of what is compared, in hexadecimal digits.

    >>> digest_of(b"")[:16]
    'e3b0c44298fc1c14'
    """
    return hashlib.sha256(content).hexdigest()


class RecordDigests:
    """Comparisons with one log. Offsets and sizes in bytes."""

    def __init__(self, commit_log: CommitLog, *, run_blocking: RunBlocking) -> None:
        self._commit_log = commit_log
        self._run_blocking = run_blocking

    async def has(self, offset: int, size: int, digest: str) -> bool:
        """Whether the record, or the head of the BLANK, at an offset has this size and digest.

        All numbers may come from a peer. Bytes that are not in files yet, or no longer, are not there.
        """
        if offset < 0 or not (size == BLANK_SIZE_MIN or RECORD_SIZE_MIN <= size <= RECORD_SIZE_MAX):
            return False
        if size <= _PIECE_SIZE:
            found = await read_anywhere(lambda: self._digest(offset, size), self._run_blocking)
        else:
            found = await read_blocking(self._digest(offset, size), self._run_blocking)
        return bool(found) and found == digest.lower()

    def _digest(self, offset: int, size: int) -> Steps[str]:
        """Return the digest of what begins there, an empty text when nothing of that size does."""
        head = yield from log_bytes(self._commit_log, offset, min(size, _HEAD_SIZE))
        if not _begins(head, offset, size) or self._commit_log.locate(offset, size) is None:
            return ""
        digest = hashlib.sha256()
        for begin in range(offset, offset + size, _PIECE_SIZE):
            digest.update((yield from log_bytes(self._commit_log, begin, min(_PIECE_SIZE, offset + size - begin))))
        return digest.hexdigest()


def _begins(head: bytes, offset: int, size: int) -> bool:
    """Whether a record of a size and offset begins with these bytes, or a BLANK whose head is asked for."""
    if len(head) < min(size, _HEAD_SIZE):
        return False
    total, magic = _TOTAL_AND_MAGIC.unpack_from(head)
    if size == BLANK_SIZE_MIN:
        return bool(magic == BLANK_MAGIC_CODE)
    found_offset = int.from_bytes(head[_PHYSICAL_OFFSET_AT:_HEAD_SIZE], "big")
    return bool((total, magic, found_offset) == (size, MESSAGE_MAGIC_CODE, offset))
