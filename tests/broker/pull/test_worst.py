"""The worst pulls: how long the one thread of a broker is held by a request of 300 bytes over a long queue."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from rocketpy.protocol.batch import encode_batch_body
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.message import Message
from rocketpy.store.disk.os_disk import OsDisk
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker, pull, send
from tests.broker.pull.pulling import SUSPEND, offsets, subscribe
from tests.worst_requests import SLICE_SECONDS_MAX, at_full_speed, processor_seconds, without_collector

COUNT = 8_000
"""Ten times what one pull may look at."""
AS_MANY_AS_CAN_BE_SAID = 2**31 - 1
SLOW_SQL = " OR ".join(["a > b"] * 1000)
LONG_PROPERTIES = {"a": "1" * 10_000, "b": "2" * 10_000, **{f"p{number}": "v" for number in range(1500)}}

STORE = {"mapped_file_size_commit_log": 1 << 26, "mapped_file_size_consume_queue": 20 * 30_000}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[MessageBroker]:
    """A broker over real files: a simulated disk would be what is measured."""
    async with open_message_broker(
        disk=OsDisk(), root=str(tmp_path), store=STORE, enable_property_filter=True
    ) as broker:
        yield broker


async def send_many(broker: MessageBroker, count: int, message: Message) -> None:
    for _ in range(0, count, 1000):
        body = encode_batch_body([message] * 1000)
        connection = broker.connect()
        broker.serve(encode_frame(send(body, code=RequestCode.SEND_BATCH_MESSAGE, batch=True)), connection)
        await broker.run_tasks()  # a batch waits while the index lags too far
        (answer,) = received(connection)
        assert answer.code == ResponseCode.SUCCESS, answer.remark


async def ask(broker: MessageBroker, request: RemotingCommand) -> tuple[RemotingCommand, float]:
    """Return the answer to a pull and the processor time that it takes."""
    frame, answers = encode_frame(request), []

    def ask_once() -> None:
        connection = broker.connect()
        broker.serve(frame, connection)
        answers.extend(received(connection))

    while True:
        seconds = processor_seconds(ask_once)
        if answers:
            return answers[-1], seconds
        await broker.run_tasks()  # other programs have pushed the pages out: they are read, and it is asked again


async def test_a_pull_that_nothing_matches_does_not_hold_up_others(broker: MessageBroker) -> None:
    await send_many(broker, COUNT, Message(TOPIC, b"x", properties={"TAGS": "other", "a": "0"}))
    for filter_fields in ({"subscription": "never"}, {"subscription": "a > 1", "expression_type": "SQL92"}):
        begin = 0
        for _ in range(8):
            fields = {"max_msg_nums": AS_MANY_AS_CAN_BE_SAID, "queue_offset": begin, **filter_fields}
            answer, seconds = await ask(broker, pull(**fields))  # type: ignore[arg-type]
            assert seconds < SLICE_SECONDS_MAX, fields
            assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
            assert begin < offsets(answer)[0] <= begin + 800, "it goes on, and comes to an end"
            begin = offsets(answer)[0]


async def test_nor_does_one_whose_filter_and_messages_are_the_worst_there_are(broker: MessageBroker) -> None:
    for _ in range(20):
        await broker.ask(send(b"x", properties="\x02".join(f"{k}\x01{v}" for k, v in LONG_PROPERTIES.items())))
    begin = 0
    while begin < 20:
        answer, seconds = await ask(broker, pull(subscription=SLOW_SQL, expression_type="SQL92", queue_offset=begin))
        assert seconds < SLICE_SECONDS_MAX
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        begin = offsets(answer)[0]


@pytest.mark.parametrize("is_fast", [True, False])
async def test_pulls_that_come_together_are_served_in_turns(broker: MessageBroker, is_fast: bool) -> None:
    """A burst may bring sixty: after each of this kind the driver looks at its clock."""
    if not is_fast:
        broker.use_general_path()
    await send_many(broker, 2000, Message(TOPIC, b"x", properties={"a": "0"}))
    connection = broker.connect()
    connection.receive(encode_frame(pull(subscription="a > 1.5", expression_type="SQL92")) * 60)
    turns = 1
    with broker.dispatcher.burst:
        while connection.serve(64, lambda: True):  # its time is over whenever it looks
            turns += 1
    assert len(received(connection)) == 60
    assert turns > 20


async def test_held_pulls_that_judge_what_has_arrived_are_served_in_slices(broker: MessageBroker) -> None:
    """Sixty of them in one queue, and eight hundred messages for each to judge."""
    subscribe(broker, SubscriptionData(TOPIC, "a > 1.5", 1, expression_type="SQL92"))
    connections = [broker.connect() for _ in range(60)]
    request = pull(sys_flag=SUSPEND, sub_version=1)
    for connection in connections:
        assert await broker.ask_all(request, connection) == []
    body = encode_batch_body([Message(TOPIC, b"x", properties={"a": "0"})] * 800)
    many = encode_frame(send(body, code=RequestCode.SEND_BATCH_MESSAGE, batch=True))
    broker.serve(many, broker.connect())
    slices = []
    with without_collector():
        while broker.hold.statistics().woken_count < 60:
            began = time.thread_time()
            broker.hold.serve_woken()
            slices.append(time.thread_time() - began)
            await trio.lowlevel.checkpoint()
    assert at_full_speed(max(slices)) < SLICE_SECONDS_MAX
    assert len(slices) > 5
