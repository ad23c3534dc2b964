"""Messages by key: those of the topic, each once, in log order, and not more than a frame holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_messages, encode_message
from rocketpy.store.index import query as message_query
from rocketpy.store.index.file import QUERY_STEPS_MAX, ChainSteps
from rocketpy.store.index.query import MessageQuery
from rocketpy.store.index.service import QueryOffsetResult
from rocketpy.store.results import QueryMessageResult

EVER = (0, 1 << 62)


def record(number: int, *, topic: str = "T", size: int = 10) -> bytes:
    return encode_message(
        MessageExt(
            topic=topic,
            body=b"%d" % number * size,
            store_timestamp=1_000 * number,
            physical_offset=100 * number,
            born_host="10.0.0.1:1",
            store_host="10.0.0.1:1",
        )
    )


class Log:
    """Records at physical offsets, and an index that answers each query with the next of its findings."""

    def __init__(self, records: Mapping[int, bytes], *findings: Sequence[int]) -> None:
        self._records = records
        self._findings = list(findings)
        self.asked: list[tuple[str, str, int, int, int]] = []
        self.looked_at: list[int] = []
        self.steps: list[ChainSteps] = []
        self.steps_of_each = 10
        self.query = MessageQuery(
            query_offset=self._query_offset, record_at=self._record_at, timestamp_at=self._timestamp_at
        ).query

    async def _query_offset(
        self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int, steps: ChainSteps
    ) -> QueryOffsetResult:
        self.asked.append((topic, key, count_max, begin_ms, end_ms))
        self.steps.append(steps)
        for _ in range(self.steps_of_each):
            steps.take()
        return QueryOffsetResult(list(self._findings.pop(0)), 77, 88)

    async def _record_at(self, physical_offset: int) -> bytes | None:
        self.looked_at.append(physical_offset)
        return self._records.get(physical_offset)

    async def _timestamp_at(self, physical_offset: int) -> int:
        return physical_offset * 10


def offsets(result: QueryMessageResult) -> list[int]:
    return [each.physical_offset for each in decode_messages(result.body)]


async def test_records_are_in_log_order_and_each_is_there_once() -> None:
    log = Log({100 * number: record(number) for number in range(1, 4)}, [300, 100, 300, 200])
    result = await log.query("T", "k", 9, *EVER)
    assert offsets(result) == [100, 200, 300]
    assert (result.index_last_update_timestamp, result.index_last_update_phyoffset) == (77, 88)
    assert log.asked == [("T", "k", 9, *EVER)]


async def test_records_of_other_topics_and_those_that_are_gone_are_left_out() -> None:
    """Their hash is the same, and the caller may not be allowed to read them."""
    log = Log({100: record(1, topic="Other"), 200: record(2), 300: b"no record"}, [100, 200, 300, 400])
    assert offsets(await log.query("T", "k", 9, *EVER)) == [200]


async def test_a_query_reads_no_more_than_it_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_query, "QUERY_BYTES_MAX", 3500)
    log = Log({100 * number: record(number, size=1000) for number in range(1, 10)}, range(100, 1000, 100))
    assert offsets(await log.query("T", "k", 64, *EVER)) == [100, 200, 300]
    assert log.looked_at == [100, 200, 300, 400]


async def test_when_nothing_is_of_the_topic_it_looks_further_back_twice() -> None:
    others = {100 * number: record(number, topic="Other") for number in range(1, 10)}
    log = Log(others, [900, 800], [700], [600], [500])
    assert (await log.query("T", "k", 9, 0, 50_000)).body == b""
    assert [asked[4] for asked in log.asked] == [50_000, 8_000, 7_000]


async def test_it_looks_no_further_back_than_it_was_asked_to() -> None:
    others = {100 * number: record(number, topic="Other") for number in range(1, 10)}
    log = Log(others, [900, 800], [700])
    assert (await log.query("T", "k", 9, 8_001, 50_000)).body == b""
    assert len(log.asked) == 1


async def test_it_does_not_look_again_where_the_index_has_nothing() -> None:
    log = Log({}, [])
    assert await log.query("T", "k", 9, *EVER) == QueryMessageResult(b"", 77, 88)


async def test_the_rounds_of_a_query_share_its_steps() -> None:
    log = Log({}, [300], [200], [100])
    result = await log.query("T", "k", 9, *EVER)
    assert len(log.steps) == 3
    assert all(each is log.steps[0] for each in log.steps)
    assert log.steps[0].left == QUERY_STEPS_MAX - 30
    assert result.why_incomplete == ""


async def test_a_query_whose_steps_are_used_up_says_so() -> None:
    log = Log({100: record(1)}, [100])
    log.steps_of_each = QUERY_STEPS_MAX + 1
    result = await log.query("T", "k", 9, *EVER)
    assert offsets(result) == [100]
    ended = f"the query ended after {QUERY_STEPS_MAX} entries of the index"
    assert result.why_incomplete == f"{ended}, older messages may be missing"
