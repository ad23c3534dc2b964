"""Sends and the disk: a store that refuses a message, SYNC_FLUSH, a restart."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.store.config import FlushDiskType
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import (
    MessageBroker,
    open_message_broker,
    pull,
    send,
)

EXTRA = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
V1, V2 = RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2


async def refused(broker: MessageBroker, request: RemotingCommand) -> RemotingCommand:
    """Ask, and see that nothing was stored and that the answer is one a Java client can read."""
    before = broker.stored_bytes
    answer = await broker.ask(request)
    assert answer.code != ResponseCode.SUCCESS
    assert broker.stored_bytes == before
    assert answer.ext_fields == EXTRA
    assert answer.remark
    return answer


# ---- the store does not take it -------------------------------------------------------------------------------------


async def test_a_full_disk_refuses_sends_and_serves_reads_until_there_is_space() -> None:
    disk = SimDisk(capacity_bytes=700_000)
    async with open_message_broker(disk=disk) as broker:
        sent, answer = 0, await broker.ask(send(b"x" * 50_000))
        while answer.code == ResponseCode.SUCCESS:
            sent += 1
            answer = await broker.ask(send(b"x" * 50_000))
            assert sent < 100
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert (answer.remark or "").startswith("service not available now: ")
        assert "/store/commitlog" in (answer.remark or "")
        assert "free" in (answer.remark or "")
        for request in (send(), send(code=V1), send(b"", code=RequestCode.SEND_BATCH_MESSAGE)):
            assert (await refused(broker, request)).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert len(await broker.messages()) == sent
        assert (await broker.ask(pull(max_msg_nums=1))).code == ResponseCode.SUCCESS
        disk.capacity_bytes *= 2
        broker.tables.clock.advance_ms(2000)
        assert (await broker.ask(send(b"x" * 50_000))).code == ResponseCode.SUCCESS
        assert len(await broker.messages()) == sent + 1


@pytest.mark.parametrize("code", [V1, V2])
@pytest.mark.parametrize(
    ("status", "response_code"),
    [
        (PutMessageStatus.SERVICE_NOT_AVAILABLE, 14),
        (PutMessageStatus.CREATE_MAPEDFILE_FAILED, 1),
        (PutMessageStatus.MESSAGE_ILLEGAL, 13),
        (PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, 13),
        (PutMessageStatus.OS_PAGECACHE_BUSY, 1),
        (PutMessageStatus.UNKNOWN_ERROR, 1),
        (PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED, 1),
    ],
)
async def test_each_refusal_of_the_store_has_its_code(code: int, status: PutMessageStatus, response_code: int) -> None:
    async with open_message_broker(put_status=status) as broker:
        assert (await refused(broker, send(code=code))).code == response_code
        assert await broker.ask_all(send(code=code, oneway=True)) == []


# ---- SYNC_FLUSH -----------------------------------------------------------------------------------------------------


@attrs.define
class Waiting:
    """Holds back ``wait_stored``."""

    broker: MessageBroker
    waiting: list[tuple[int, object]] = attrs.Factory(list)

    def __attrs_post_init__(self) -> None:
        store = self.broker.store
        store.wait_stored = lambda end, callback: self.waiting.append((end, callback))  # type: ignore[method-assign]

    def flushed(self, status: PutMessageStatus = PutMessageStatus.PUT_OK) -> None:
        waiting, self.waiting = self.waiting, []
        for _, callback in waiting:
            assert callable(callback)
            callback(status)


SYNC = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}


@pytest.mark.parametrize("code", [V1, V2])
@pytest.mark.parametrize(
    ("status", "response_code"), [(PutMessageStatus.PUT_OK, 0), (PutMessageStatus.FLUSH_DISK_TIMEOUT, 10)]
)
async def test_sync_flush_answers_after_the_flush(code: int, status: PutMessageStatus, response_code: int) -> None:
    async with open_message_broker(store=SYNC) as broker:
        waiting = Waiting(broker)
        connection = broker.connect()
        broker.serve(encode_frame(send(code=code, queue_id=1, opaque=33)), connection)
        assert received(connection) == []
        assert connection.deferred_count == 1
        assert [end for end, _ in waiting.waiting] == [broker.store.wrote_offset]
        waiting.flushed(status)
        (answer,) = received(connection)
        assert connection.deferred_count == 0
        assert (answer.code, answer.opaque, answer.remark) == (response_code, 33, None)
        assert answer.ext_fields == EXTRA | {
            "msgId": "7F00000100002A9F" + "0" * 16,
            "queueId": "1",
            "queueOffset": "0",
        }


@pytest.mark.parametrize("code", [V1, V2])
async def test_sync_flush_with_the_stores_own_services(code: int) -> None:
    async with open_message_broker(store=SYNC) as broker:
        connection = broker.connect()
        broker.serve(encode_frame(send(code=code)), connection)
        await broker.settle()
        assert [answer.code for answer in received(connection)] == [ResponseCode.SUCCESS]
        assert connection.deferred_count == 0


@pytest.mark.parametrize("code", [V1, V2])
@pytest.mark.parametrize("oneway", [False, True])
async def test_without_waiting_the_answer_is_immediate_and_the_message_is_flushed(code: int, oneway: bool) -> None:
    async with open_message_broker(store=SYNC) as broker:
        waiting = Waiting(broker)
        connection = broker.connect()
        request = send(code=code, oneway=oneway, properties="WAIT\x01true" if oneway else "WAIT\x01false")
        for _ in range(3):
            broker.serve(encode_frame(request), connection)
        assert len(received(connection)) == (0 if oneway else 3)
        assert connection.deferred_count == 0
        assert waiting.waiting == []
        await broker.settle()
        assert broker.store.durable_offset == broker.store.wrote_offset


@pytest.mark.parametrize("code", [V1, V2])
async def test_an_unwaited_message_is_durable_soon(code: int) -> None:
    async with open_message_broker(store=SYNC) as broker:
        assert await broker.ask_all(send(code=code, oneway=True)) == []
        await broker.settle()
        statistics = broker.store.statistics()
        assert statistics.commit_log_flushed_offset == statistics.commit_log_max_offset == broker.stored_bytes


@pytest.mark.parametrize("code", [V1, V2])
async def test_a_connection_that_ends_is_not_answered(code: int) -> None:
    async with open_message_broker(store=SYNC) as broker:
        waiting = Waiting(broker)
        connection = broker.connect()
        broker.serve(encode_frame(send(code=code)), connection)
        connection.close()
        waiting.flushed()
        assert connection.dropped_replies == 1
        assert connection.take_outgoing() == b""


@pytest.mark.parametrize("code", [V1, V2])
async def test_too_many_that_wait_are_refused_before_they_are_stored(code: int) -> None:
    async with open_message_broker(store=SYNC) as broker:
        waiting = Waiting(broker)
        connection = broker.connect(limits=ConnectionLimits(deferred_replies_max=2))
        answers = [await broker.ask_all(send(code=code), connection) for _ in range(4)]
        assert [[answer.code for answer in each] for each in answers] == [[], [], [2], [2]]
        assert len(await broker.messages()) == 2
        assert await broker.ask_all(send(code=code, oneway=True), connection) == []
        assert len(await broker.messages()) == 3
        waiting.flushed()
        received(connection)
        assert await broker.ask_all(send(code=code), connection) == []
        assert len(await broker.messages()) == 4


# ---- a real disk ----------------------------------------------------------------------------------------------------


async def test_on_a_real_disk_what_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    for opened in range(2):
        async with open_message_broker(disk=OsDisk(), root=str(tmp_path), store=SYNC) as broker:
            assert len(await broker.messages()) == opened * 2
            for code in (V1, V2):
                connection = broker.connect()
                broker.serve(encode_frame(send(code=code)), connection)
                await broker.settle()
                assert [answer.code for answer in received(connection)] == [ResponseCode.SUCCESS]
