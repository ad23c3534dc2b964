"""Detects implausible storeTimestamps: not a time at all, or a single one far from those before and after it.

A record's checksum does not cover its timestamps. A wrong one matters: a start continues from the latest storeTimestamp
of the log, so a single flipped bit would move all later messages, and searches by time, into the far future.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rocketpy.protocol.stored_message import CheckedMessage, store_timestamp_position
from rocketpy.store.recovery.checkpoint import TIME_MAX_MS

FAR_MS = 24 * 3600 * 1000
"""A single record this far from its neighbours has a damaged timestamp; several follow an idle time or a clock change.
"""

_ODD_MAX = 1000


@attrs.frozen
class OddTime:
    """A record's timestamp, and the one of the previous record (of the next one, at the beginning of the log)."""

    physical_offset: int
    offset: int
    """The physical offset of the timestamp field."""
    found_ms: int
    likely_ms: int


def is_time(timestamp_ms: int) -> bool:
    """Whether a number can be a storeTimestamp."""
    return 0 < timestamp_ms < TIME_MAX_MS


class TimeInspection:
    """One pass."""

    def __init__(self) -> None:
        self._last_ms = 0
        self._alone: CheckedMessage | None = None  # far from the one before; what follows decides
        self.odd: list[OddTime] = []

    def see(self, records: Sequence[CheckedMessage]) -> None:
        """Look at the times of valid records, in log order."""
        last_ms, alone = self._last_ms, self._alone
        for record in records:
            timestamp_ms = record.store_timestamp
            if not is_time(timestamp_ms):
                self._note(record, last_ms or record.born_timestamp)
            elif not last_ms or -FAR_MS <= timestamp_ms - last_ms <= FAR_MS:
                if alone is not None:
                    self._note(alone, last_ms)
                    alone = None
                last_ms = timestamp_ms
            elif alone is None:
                alone = record
            else:
                last_ms, alone = timestamp_ms, None
        self._last_ms, self._alone = last_ms, alone

    def _note(self, record: CheckedMessage, likely_ms: int) -> None:
        if len(self.odd) < _ODD_MAX and is_time(likely_ms):
            offset = record.physical_offset + store_timestamp_position(record.sys_flag)
            self.odd.append(OddTime(record.physical_offset, offset, record.store_timestamp, likely_ms))
