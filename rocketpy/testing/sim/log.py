"""The CommitLog on a simulated disk as its page cache has it, read from outside: for comparing the logs of brokers.

It may be read while the broker runs, is paused or is gone, and reading it changes nothing. Records are taken by their
sizes and magic codes alone; whether they are valid is for recovery to say.
"""

from __future__ import annotations

import attrs

from rocketpy.protocol.stored_message import BLANK_MAGIC_CODE, MESSAGE_MAGIC_CODE, TOTAL_AND_MAGIC
from rocketpy.store.config import MessageStoreConfig
from rocketpy.testing.sim.disk import SimDisk


@attrs.frozen
class SimLog:
    """Bytes of a log, from the beginning of its first file to the end of its last record."""

    begin_offset: int = 0
    content: bytes = b""

    @property
    def end_offset(self) -> int:
        """The physical offset after the last record."""
        return self.begin_offset + len(self.content)

    def at(self, physical_offset: int, size: int) -> bytes:
        """Return bytes from a physical offset on; fewer where the log has fewer, none before its beginning."""
        position = physical_offset - self.begin_offset
        return self.content[position : position + size] if position >= 0 else b""

    def parts_from(self, other: SimLog) -> int | None:
        """Return the first physical offset at which both have a byte and not the same; None if there is none."""
        begin, end = max(self.begin_offset, other.begin_offset), min(self.end_offset, other.end_offset)
        if begin >= end:
            return None
        ours, theirs = self.at(begin, end - begin), other.at(begin, end - begin)
        if ours == theirs:
            return None
        return begin + next(index for index, (our, their) in enumerate(zip(ours, theirs, strict=True)) if our != their)


def read_log(disk: SimDisk, config: MessageStoreConfig) -> SimLog:
    """Return the log of a store, an empty one if there is none."""
    contents = {
        int(name): content
        for path in (*config.commit_log_paths, *config.read_only_commit_log_paths)
        for name, content in disk.peek(path).items()
        if name.isdigit()
    }
    if not contents:
        return SimLog()
    begin = min(contents)
    parts, expected = [], begin
    for offset in sorted(contents):
        if offset != expected:
            break
        end, is_full = _end_of_records(contents[offset])
        parts.append(contents[offset][:end])
        if not is_full:
            break
        expected += len(contents[offset])
    return SimLog(begin, b"".join(parts))


def _end_of_records(content: bytes) -> tuple[int, bool]:
    """Return where the records of a file end, and whether they go on in the next one."""
    position = 0
    while position + TOTAL_AND_MAGIC.size <= len(content):
        size, magic = TOTAL_AND_MAGIC.unpack_from(content, position)
        if magic == BLANK_MAGIC_CODE and position + size == len(content):
            return len(content), True
        if magic != MESSAGE_MAGIC_CODE or size <= 0 or position + size > len(content):
            return position, False
        position += size
    return position, position == len(content)
