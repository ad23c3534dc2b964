"""What the answers of a master say about its log, and which of them say nothing."""

from __future__ import annotations

import re

import pytest

from rocketpy.broker.replication.remote_log import Found, LogBounds, RemoteLog
from rocketpy.errors import (
    RemotingConnectError,
    RemotingSendRequestError,
    RemotingTimeoutError,
    RemotingTooMuchRequestError,
)
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.store.ha.divergence import RecordRange
from tests.broker.replication.masters import ADDRESS, BEGIN_MS, FILE, JavaMaster, Master, OurMaster, history, rolled

CONTENT = history(rolled(history(b"", [10, 200, 30])), [40, 50])
RECORD = RecordRange(0, int.from_bytes(CONTENT[:4], "big"))
BLANK = RecordRange(len(history(b"", [10, 200, 30])), FILE - len(history(b"", [10, 200, 30])), is_blank=True)
BOTH = pytest.mark.parametrize("kind", [JavaMaster, OurMaster])


def content_of(record: RecordRange) -> bytes:
    return CONTENT[record.offset : record.offset + record.compared_size]


@BOTH
async def test_a_master_has_a_record_another_one_or_nothing(kind: type[Master]) -> None:
    master = RemoteLog(kind(content=CONTENT), ADDRESS)
    for record in (RECORD, BLANK):
        own = content_of(record)
        assert await master.find(record, own) is Found.EQUAL
        assert await master.find(record, own[:-1] + bytes([own[-1] ^ 1])) is Found.DIFFERENT
    longer = RecordRange(0, RECORD.size + 1)
    assert await master.find(longer, CONTENT[: longer.size]) is Found.DIFFERENT
    beyond = RecordRange(len(CONTENT), RECORD.size)
    assert await master.find(beyond, content_of(RECORD)) in (Found.NOTHING, Found.DIFFERENT)
    assert await master.bounds() == LogBounds(0, len(CONTENT))


async def test_of_a_blank_rocketmq_answers_what_lies_behind_it_too() -> None:
    """Those bytes have no meaning, and two logs may differ in them."""
    other = CONTENT[: BLANK.offset + 8] + bytes(BLANK.size - 8) + CONTENT[BLANK.end_offset :]
    assert await RemoteLog(JavaMaster(content=other), ADDRESS).find(BLANK, content_of(BLANK)) is Found.EQUAL


async def test_rocketmq_answers_any_offset_by_the_number_that_lies_there() -> None:
    for first_bytes, expected in (
        (b"\xff\xff\xff\xfe", Found.UNKNOWN),
        (b"\x00\x00\x00\x14", Found.DIFFERENT),
        (b"\x00\x00\x00\x00", Found.DIFFERENT),
        (b"abcd", Found.NOTHING),
    ):
        other = CONTENT[:20] + first_bytes + CONTENT[24:]
        master = RemoteLog(JavaMaster(content=other), ADDRESS)
        assert await master.find(RecordRange(20, 100), bytes(100)) is expected


async def test_more_bytes_than_a_frame_may_have_are_no_record_either() -> None:
    """The connection ends with that answer, and the master answers other questions."""

    def fails(request: RemotingCommand) -> None:
        if request.code == 33:
            raise RemotingSendRequestError(f"the connection to {ADDRESS} ended before it answered")

    master = RemoteLog(JavaMaster(content=CONTENT, fails=fails), ADDRESS)
    assert await master.find(RECORD, content_of(RECORD)) is Found.UNKNOWN


@pytest.mark.parametrize(
    "error", [RemotingConnectError, RemotingTimeoutError, RemotingSendRequestError, RemotingTooMuchRequestError]
)
@BOTH
async def test_a_master_that_does_not_answer_says_nothing(kind: type[Master], error: type[Exception]) -> None:
    def fails(request: RemotingCommand) -> None:
        raise error("no answer")

    master = RemoteLog(kind(content=CONTENT, fails=fails), ADDRESS)
    with pytest.raises(OSError, match="the master cannot be asked about its log: no answer"):
        await master.find(RECORD, content_of(RECORD))
    with pytest.raises(OSError, match="no answer"):
        await master.bounds()
    assert await master.store_timestamp_ms(0) == 0


@pytest.mark.parametrize(
    ("code", "remark"),
    [(1, "org.apache.rocketmq.acl.common.AclException: No accessKey"), (2, "[TIMEOUT_CLEAN_QUEUE]"), (16, None)],
)
async def test_a_refusal_says_nothing(code: int, remark: str | None) -> None:
    """Taken for a missing record it would be an alarm, or cut a log that is equal."""
    master = RemoteLog(JavaMaster(content=CONTENT, fails=lambda request: make_response(request, code, remark)), ADDRESS)
    with pytest.raises(OSError, match=f"the master {ADDRESS} does not answer questions about its log: code {code}"):
        await master.find(RECORD, content_of(RECORD))
    with pytest.raises(OSError, match=re.escape(f"code {code}, {remark}")):
        await master.bounds()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"table":{"commitLogMinOffset":"0"}}',
        b'{"table":{"commitLogMinOffset":"x","commitLogMaxOffset":"1"}}',
    ],
)
async def test_figures_without_the_ends_of_the_log_say_nothing(body: bytes) -> None:
    master = RemoteLog(JavaMaster(content=CONTENT, fails=lambda request: make_response(request, body=body)), ADDRESS)
    with pytest.raises(OSError, match="expected commitLogMinOffset and commitLogMaxOffset among its runtime figures"):
        await master.bounds()


async def test_an_empty_log_begins_at_0_though_rocketmq_reports_minus_1() -> None:
    body = b'{"table":{"commitLogMinOffset":"-1","commitLogMaxOffset":"0"}}'
    master = RemoteLog(JavaMaster(content=b"", fails=lambda request: make_response(request, body=body)), ADDRESS)
    assert await master.bounds() == LogBounds(0, 0)


async def test_the_time_of_a_record_as_far_as_a_master_says_it() -> None:
    for kind, expected in ((JavaMaster, BEGIN_MS), (OurMaster, 0)):
        master = RemoteLog(kind(content=CONTENT), ADDRESS)
        assert await master.store_timestamp_ms(0) == expected
        assert await master.store_timestamp_ms(len(CONTENT)) == 0
