"""Under SYNC_FLUSH a producer is answered after the flush, or does not wait, and every message is flushed.

Without it answers come at once, as in ``test_processor``; what slaves change is in ``test_sync_master``.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.store.config import FlushDiskType
from rocketpy.store.results import PutMessageStatus
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import MessageBroker, open_message_broker, send
from tests.broker.send.sending import EXTRA
from tests.broker.send.test_batch import item, send_batch
from tests.broker.send.test_long_batch import LONG

SYNC = {"flush_disk_type": FlushDiskType.SYNC_FLUSH, "max_message_size": 1 << 18}


RequestOf = Callable[..., RemotingCommand]

REQUESTS: dict[str, RequestOf] = {
    "fast path": send,
    "general path": lambda **fields: send(code=RequestCode.SEND_MESSAGE, **fields),
    "batch": lambda **fields: send_batch(item(b"1", b""), **fields),
    "long batch": lambda **fields: send_batch(LONG, **fields),
}
"""Requests that store, by the way that they take."""

each_request = pytest.mark.parametrize("request_of", REQUESTS.values(), ids=REQUESTS)


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


@each_request
@pytest.mark.parametrize(
    ("status", "response_code"), [(PutMessageStatus.PUT_OK, 0), (PutMessageStatus.FLUSH_DISK_TIMEOUT, 10)]
)
async def test_sync_flush_answers_after_the_flush(
    request_of: RequestOf, status: PutMessageStatus, response_code: int
) -> None:
    async with open_message_broker(store=SYNC) as broker:
        waiting = Waiting(broker)
        connection = broker.connect()
        assert await broker.ask_all(request_of(queue_id=1, opaque=33), connection) == []
        assert connection.deferred_count == 1
        assert [end for end, _ in waiting.waiting] == [broker.store.wrote_offset]
        waiting.flushed(status)
        (answer,) = received(connection)
        assert connection.deferred_count == 0
        assert (answer.code, answer.opaque, answer.remark) == (response_code, 33, None)
        fields = answer.ext_fields or {}
        assert fields.items() >= (EXTRA | {"queueId": "1", "queueOffset": "0"}).items()
        assert fields["msgId"].startswith("7F00000100002A9F" + "0" * 16)


@each_request
@pytest.mark.parametrize("oneway", [False, True])
async def test_without_waiting_the_answer_is_immediate_and_the_message_is_flushed(
    request_of: RequestOf, oneway: bool
) -> None:
    async with open_message_broker(store=SYNC) as broker:
        waiting = Waiting(broker)
        connection = broker.connect()
        request = request_of(oneway=oneway, properties="WAIT\x01true" if oneway else "WAIT\x01false")
        answers = [await broker.ask_all(request, connection) for _ in range(3)]
        assert [[answer.code for answer in each] for each in answers] == [[] if oneway else [0]] * 3
        assert connection.deferred_count == 0
        assert waiting.waiting == []
        await broker.settle()
        assert broker.store.durable_offset == broker.store.wrote_offset


@each_request
async def test_a_connection_that_ends_is_not_answered(request_of: RequestOf) -> None:
    async with open_message_broker(store=SYNC) as broker:
        waiting = Waiting(broker)
        connection = broker.connect()
        assert await broker.ask_all(request_of(), connection) == []
        connection.close()
        waiting.flushed()
        assert connection.dropped_replies == 1
        assert connection.take_outgoing() == b""


@pytest.mark.parametrize("request_of", [each for name, each in REQUESTS.items() if name != "long batch"])
async def test_too_many_that_wait_are_refused_before_they_are_stored(request_of: RequestOf) -> None:
    async with open_message_broker(store=SYNC) as broker:
        waiting = Waiting(broker)
        connection = broker.connect(limits=ConnectionLimits(deferred_replies_max=2))
        answers = [await broker.ask_all(request_of(), connection) for _ in range(4)]
        assert [[answer.code for answer in each] for each in answers] == [[], [], [2], [2]]
        count = len(await broker.messages()) // 2
        assert await broker.ask_all(request_of(oneway=True), connection) == []
        assert len(await broker.messages()) == 3 * count > 0
        waiting.flushed()
        received(connection)
        assert await broker.ask_all(request_of(), connection) == []
        assert len(await broker.messages()) == 4 * count
