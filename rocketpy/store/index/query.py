"""Messages by key: what the index has for a hash, read from the log and compared with the topic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rocketpy.protocol.frame import FRAME_LENGTH_MAX
from rocketpy.protocol.stored_message import RecordStatus, check_message
from rocketpy.store.index.file import QUERY_STEPS_MAX, ChainSteps
from rocketpy.store.index.service import QueryOffsetResult
from rocketpy.store.results import QueryMessageResult

QUERY_BYTES_MAX = FRAME_LENGTH_MAX - 4096
"""Limit of the records that one query reads and returns, because they go into one frame."""

_ROUNDS_MAX = 3

STEPS_USED_UP = f"the query ended after {QUERY_STEPS_MAX} entries of the index, older messages may be missing"
"""Why an answer may lack something when its chains are too long."""


class MessageQuery:
    """Queries of one store.

    ``query_offset`` is :meth:`IndexService.query_offset`; ``record_at`` returns the record at a physical offset that is
    trusted, and ``timestamp_at`` its storeTimestamp.
    """

    def __init__(
        self,
        *,
        query_offset: Callable[[str, str, int, int, int, ChainSteps], Awaitable[QueryOffsetResult]],
        record_at: Callable[[int], Awaitable[bytes | None]],
        timestamp_at: Callable[[int], Awaitable[int]],
    ) -> None:
        self._query_offset = query_offset
        self._record_at = record_at
        self._timestamp_at = timestamp_at

    async def query(
        self, topic: str, key: str, max_num: int, begin_timestamp_ms: int, end_timestamp_ms: int
    ) -> QueryMessageResult:
        """Return the records of a topic that the index has for a key, in log order, up to QUERY_BYTES_MAX.

        When nothing is found there are up to two more rounds, further back in time. All together look at
        QUERY_STEPS_MAX entries of the index at most; the result says so if that was not enough.
        """
        steps = ChainSteps(QUERY_STEPS_MAX)
        last_timestamp_ms = end_timestamp_ms
        records: list[bytes] = []
        for _ in range(_ROUNDS_MAX):
            found = await self._query_offset(topic, key, max_num, begin_timestamp_ms, last_timestamp_ms, steps)
            records = await self._records_of(topic, found.physical_offsets)
            if not found.physical_offsets or records:
                break
            last_timestamp_ms = await self._timestamp_at(min(found.physical_offsets))
            if last_timestamp_ms < begin_timestamp_ms:
                break
        return QueryMessageResult(
            b"".join(records),
            found.index_last_update_timestamp_ms,
            found.index_last_update_physical_offset,
            STEPS_USED_UP if steps.is_short else "",
        )

    async def _records_of(self, topic: str, physical_offsets: list[int]) -> list[bytes]:
        """Return the records of a topic among those at offsets, each once, as far as they fit into one frame."""
        records: list[bytes] = []
        size_bytes = 0
        for physical_offset in sorted(set(physical_offsets)):
            record = await self._record_at(physical_offset)
            if record is None or not _is_of_topic(record, topic):
                continue
            size_bytes += len(record)
            if size_bytes > QUERY_BYTES_MAX:
                break
            records.append(record)
        return records


def _is_of_topic(record: bytes, topic: str) -> bool:
    found = check_message(record, 0, len(record), check_crc=False, read_body=False)
    return found.status is RecordStatus.MESSAGE and found.topic == topic
