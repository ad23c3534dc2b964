"""Pulls that are not answered at once: held until a message arrives or time is up, or waiting for the disk."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
import trio.testing

from rocketpy.protocol.codes import ResponseCode, SerializeType
from rocketpy.protocol.frame import FRAME_LENGTH_MAX, encode_frame
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.store.read.plain_read import PlainRead
from rocketpy.store.results import GetMessageResult
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import MessageBroker, open_message_broker, pull, send
from tests.broker.pull.pulling import LOG_FILE, SUBSCRIPTION, SUSPEND, bodies, hold, offsets, send_tags

# ---- holding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serialize_type", list(SerializeType))
async def test_an_arrival_wakes_a_held_pull(broker: MessageBroker, serialize_type: SerializeType) -> None:
    connection = await hold(broker, serialize_type=serialize_type, opaque=77)
    await broker.ask(send(queue_id=1))  # another queue
    assert received(connection) == []
    await send_tags(broker, "a", "b")
    (answer,) = received(connection)
    assert (answer.code, answer.opaque, answer.serialize_type) == (ResponseCode.SUCCESS, 77, serialize_type)
    assert (bodies(answer), offsets(answer)) == (["a", "b"], (2, 0, 2))
    assert connection.deferred_count == 0
    assert broker.hold.statistics().held == 0


async def test_an_arrival_that_does_not_match_wakes_no_pull(broker: MessageBroker) -> None:
    connection = await hold(broker, subscription="x")
    await send_tags(broker, "a", "b")
    assert received(connection) == []
    await send_tags(broker, "c", "x", "d")
    (answer,) = received(connection)
    assert (answer.code, bodies(answer), offsets(answer)) == (ResponseCode.SUCCESS, ["x"], (5, 0, 5))


async def test_a_match_past_one_read_is_not_waited_for(broker: MessageBroker) -> None:
    """A read examines the rest of a queue file, or 800 units; the consumer pulls again at once for more."""
    connection = await hold(broker, subscription="x")
    await send_tags(broker, *["a"] * 350, "x")  # a queue file has 300 units
    (answer,) = received(connection)
    assert (answer.code, offsets(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, (300, 0, 351))
    answer = await broker.ask(pull(subscription="x", queue_offset=300))
    assert (bodies(answer), offsets(answer)) == (["x"], (351, 0, 351))


async def test_a_pull_at_the_end_of_the_queue_is_held(broker: MessageBroker) -> None:
    await send_tags(broker, "a")
    connection = await hold(broker, queue_offset=1)
    await send_tags(broker, "b")
    assert [bodies(answer) for answer in received(connection)] == [["b"]]


@pytest.mark.parametrize("fields", [{"sys_flag": SUBSCRIPTION}, {"suspend_timeout_millis": 0}])
async def test_a_pull_that_may_not_wait_is_answered(broker: MessageBroker, fields: dict[str, object]) -> None:
    request = pull(**{"sys_flag": SUBSCRIPTION | SUSPEND, **fields})  # type: ignore[arg-type]
    answer = await broker.ask(request)
    assert (answer.code, answer.remark) == (ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")


async def test_above_the_limit_of_a_connection_no_pull_is_held(broker: MessageBroker) -> None:
    connection = broker.connect(limits=ConnectionLimits(deferred_replies_max=2))
    request = pull(sys_flag=SUBSCRIPTION | SUSPEND)
    answers = [await broker.ask_all(request, connection) for _ in range(3)]
    assert [[answer.code for answer in each] for each in answers] == [[], [], [ResponseCode.PULL_NOT_FOUND]]


@pytest.mark.parametrize("setting", ["held_pull_bytes_max", "connection_held_pull_bytes_max"])
async def test_what_held_pulls_keep_is_bounded(setting: str) -> None:
    """In total and per connection; a refused consumer retries after its pause, and others continue."""
    tags = "||".join(f"t{number}" for number in range(100))
    async with open_message_broker(**{setting: 64_000}) as broker:
        first, other = broker.connect(), broker.connect()
        request = pull(sys_flag=SUBSCRIPTION | SUSPEND, subscription=tags)
        assert [await broker.ask_all(request, first) for _ in range(4)] == [[]] * 4
        (answer,) = await broker.ask_all(request, first)
        assert answer.code == ResponseCode.SYSTEM_BUSY
        key = "heldPullBytesMax" if setting == "held_pull_bytes_max" else "connectionHeldPullBytesMax"
        assert f"{key} is 64000" in (answer.remark or "")
        assert first.deferred_count == 4
        expected = [ResponseCode.SYSTEM_BUSY] if setting == "held_pull_bytes_max" else []
        assert [each.code for each in await broker.ask_all(request, other)] == expected
        first.close()
        assert await broker.ask_all(request, other) == [], "there is room again"


async def test_a_pull_is_held_for_five_minutes_at_most(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Whatever it asks for: a pull held forever would never be released."""
    async with open_message_broker() as broker:
        await nursery.start(broker.hold.run)
        connection = await hold(broker, suspend_timeout_millis=2**63 - 1)
        await trio.sleep(299)
        assert received(connection) == []
        await trio.sleep(2)
        assert [answer.code for answer in received(connection)] == [ResponseCode.PULL_NOT_FOUND]
        nursery.cancel_scope.cancel()


def give_long_bodies(broker: MessageBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the store find more messages than a frame holds."""
    plain, nowait, cold = broker.store.get_plain_nowait, broker.store.get_message_nowait, broker.store.get_message

    def lengthened(result: GetMessageResult) -> GetMessageResult:
        count = FRAME_LENGTH_MAX // len(result.body) if result.body else 0
        return attrs.evolve(result, body=result.body * count)

    def get_message_nowait(*arguments: Any) -> GetMessageResult | None:
        result = nowait(*arguments)
        return None if result is None else lengthened(result)

    def get_plain_nowait(*arguments: Any) -> PlainRead | None:
        *where, head_of = arguments
        return plain(*where, lambda *offsets_and_size: head_of(*offsets_and_size[:3], FRAME_LENGTH_MAX))

    async def get_message(*arguments: Any) -> GetMessageResult:
        return lengthened(await cold(*arguments))

    monkeypatch.setattr(broker.store, "get_plain_nowait", get_plain_nowait)
    monkeypatch.setattr(broker.store, "get_message_nowait", get_message_nowait)
    monkeypatch.setattr(broker.store, "get_message", get_message)


@pytest.mark.parametrize("serialize_type", list(SerializeType))
@pytest.mark.parametrize("way", ["at once", "held", "cold"])
async def test_an_answer_that_no_frame_holds_is_refused_with_a_reason(
    way: str, serialize_type: SerializeType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message may be nearly as long as a frame; the header of its answer may be longer than that of its send."""
    disk = SimDisk()
    async with open_message_broker(disk=disk) as broker:
        give_long_bodies(broker, monkeypatch)
        connection = broker.connect()
        if way != "held":
            await send_tags(broker, "a")
        if way == "cold":
            disk.evict(LOG_FILE)
        request = pull(sys_flag=SUBSCRIPTION | SUSPEND, serialize_type=serialize_type, opaque=77)
        answers = await broker.ask_all(request, connection)
        if way == "held":
            await send_tags(broker, "a")
        (answer,) = answers or received(connection)
        assert (answer.code, answer.opaque) == (ResponseCode.SYSTEM_ERROR, 77)
        assert (answer.remark or "").startswith("the answer cannot be sent: frame: expected at most 16777216 bytes")
        assert connection.deferred_count == 0


@pytest.mark.parametrize("long_polling", [True, False])
async def test_a_held_pull_ends_when_its_time_is_up(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery, long_polling: bool
) -> None:
    """Without long polling it waits for a time that is a setting, a second, whatever it asked for."""
    async with open_message_broker(long_polling_enable=long_polling) as broker:
        await nursery.start(broker.hold.run)
        connection = await hold(broker, suspend_timeout_millis=15_000)
        waits_s = 15.0 if long_polling else 1.0
        await trio.sleep(waits_s - 0.1)
        assert received(connection) == []
        await trio.sleep(0.7)
        (answer,) = received(connection)
        assert (answer.code, answer.remark) == (ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")
        assert offsets(answer) == (0, 0, 0)
        assert connection.deferred_count == 0
        assert (broker.hold.statistics().timed_out_count, broker.hold.statistics().held) == (1, 0)
        nursery.cancel_scope.cancel()


async def test_an_expired_pull_returns_the_offset_up_to_which_nothing_matched(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    async with open_message_broker() as broker:
        await nursery.start(broker.hold.run)
        connection = await hold(broker, subscription="x")
        await send_tags(broker, "a", "b")
        await trio.sleep(16)
        (answer,) = received(connection)
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert offsets(answer) == (2, 0, 2)
        nursery.cancel_scope.cancel()


# ---- the disk -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_fast", [True, False])
@pytest.mark.parametrize("subscription", ["*", "b"])
async def test_what_is_cold_is_read_by_a_task(is_fast: bool, subscription: str) -> None:
    disk = SimDisk()
    async with open_message_broker(disk=disk, has_fast_paths=is_fast) as broker:
        await send_tags(broker, "a", "b")
        disk.evict(LOG_FILE)
        connection = broker.connect()
        broker.serve(encode_frame(pull(subscription=subscription)), connection)
        assert received(connection) == []
        assert connection.deferred_count == 1
        await broker.run_tasks()
        (answer,) = received(connection)
        assert bodies(answer) == (["a", "b"] if subscription == "*" else ["b"])
        assert connection.deferred_count == 0
        assert broker.store.statistics().get_cold_count == 1


@pytest.mark.parametrize("is_fast", [True, False])
async def test_too_many_cold_reads_are_refused(is_fast: bool) -> None:
    disk = SimDisk()
    async with open_message_broker(disk=disk, has_fast_paths=is_fast) as broker:
        await send_tags(broker, "a")
        disk.evict(LOG_FILE)
        broker.transport.start_task = lambda *arguments: False  # type: ignore[method-assign]
        connection = broker.connect()
        (answer,) = await broker.ask_all(pull(), connection)
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert (answer.remark or "").startswith("[OVERLOAD]")
        assert connection.deferred_count == 0


async def test_a_oneway_pull_of_cold_messages_is_not_answered() -> None:
    disk = SimDisk()
    async with open_message_broker(disk=disk) as broker:
        await send_tags(broker, "a")
        disk.evict(LOG_FILE)
        connection = broker.connect()
        assert await broker.ask_all(pull(oneway=True), connection) == []
        assert connection.deferred_count == 0


@pytest.mark.parametrize("is_busy", [False, True])
@pytest.mark.parametrize("oneway", [False, True])
async def test_a_held_pull_that_meets_cold_messages(is_busy: bool, oneway: bool) -> None:
    """It cannot happen in one burst; it can when a woken pull waits for its slice."""
    disk = SimDisk()
    async with open_message_broker(disk=disk) as broker:
        connection = await hold(broker, oneway=oneway)
        connection_of_producer = broker.connect()
        connection_of_producer.receive(encode_frame(send(b"a")))
        connection_of_producer.serve(1)
        broker.store.end_burst()
        disk.evict(LOG_FILE)
        if is_busy:
            broker.transport.start_task = lambda *arguments: False  # type: ignore[method-assign]
        broker.hold.serve_woken()
        await broker.run_tasks()
        codes = [answer.code for answer in received(connection)]
        assert codes == ([] if oneway else [ResponseCode.SYSTEM_BUSY if is_busy else ResponseCode.SUCCESS])
        assert connection.deferred_count == 0


async def test_a_slow_reader_is_sent_to_a_slave_if_slaves_may_serve() -> None:
    memory = {"access_message_in_memory_max_ratio": 0}
    for slave_read_enable, broker_id in ((False, "0"), (True, "1")):
        async with open_message_broker(store=memory, slave_read_enable=slave_read_enable) as broker:
            await send_tags(broker, "a", "b", "c")
            answer = await broker.ask(pull(max_msg_nums=1))
            assert (answer.ext_fields or {})["suggestWhichBrokerId"] == broker_id
