"""Pulls over damage: intact messages are served, a pull of a damaged one is refused with the location."""

from __future__ import annotations

import logging

import pytest

from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.frame import encode_frame
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker, pull, send
from tests.broker.pull.pulling import LOG_FILE, SUBSCRIPTION, SUSPEND, bodies, offsets, send_tags

QUEUE_FILE = f"/store/consumequeue/{TOPIC}/0/00000000000000000000"
UNIT_SIZE = 20


async def damaged(broker: MessageBroker, disk: SimDisk) -> None:
    """Three messages; the unit of the second leads out of the log."""
    await send_tags(broker, "a", "b", "c")
    disk.flip_bit(QUEUE_FILE, UNIT_SIZE + 1, 6)


@pytest.mark.parametrize("is_fast", [True, False])
async def test_a_pull_ends_before_the_damage_and_the_next_one_names_it(
    is_fast: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimDisk()
    async with open_message_broker(disk=disk, has_fast_paths=is_fast) as broker:
        await damaged(broker, disk)
        first = await broker.ask(pull())
        assert (bodies(first), offsets(first)) == (["a"], (1, 0, 3))
        with caplog.at_level(logging.ERROR):
            second = await broker.ask(pull(queue_offset=1))
        assert second.code == ResponseCode.SYSTEM_ERROR
        assert f"{QUEUE_FILE} at {UNIT_SIZE}" in (second.remark or "")
        assert QUEUE_FILE in caplog.text
        assert bodies(await broker.ask(pull(queue_offset=2))) == ["c"]


async def test_a_cold_read_that_meets_damage_is_refused() -> None:
    disk = SimDisk()
    async with open_message_broker(disk=disk) as broker:
        await damaged(broker, disk)
        disk.evict(QUEUE_FILE)
        connection = broker.connect()
        (answer,) = await broker.ask_all(pull(queue_offset=1), connection)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert connection.deferred_count == 0


async def test_a_held_pull_that_meets_damage_is_refused() -> None:
    disk = SimDisk()
    async with open_message_broker(disk=disk) as broker:
        connection = broker.connect()
        held = pull(sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=20_000)
        assert await broker.ask_all(held, connection) == []
        producer = broker.connect()
        producer.receive(encode_frame(send(b"a")))
        producer.serve(1)
        broker.store.end_burst()
        disk.flip_bit(LOG_FILE, 5)
        broker.hold.serve_woken()
        (answer,) = received(connection)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "no record" in (answer.remark or "")
