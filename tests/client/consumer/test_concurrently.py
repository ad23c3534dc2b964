"""Concurrent handlers: what is acknowledged, what comes again, and where, in virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.statuses import ConsumeConcurrentlyStatus
from rocketpy.protocol.bodies.heartbeat import MessageModel
from tests.client.consumer.consumption import Concurrent

LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER


@pytest.fixture
def world(nursery: trio.Nursery, autojump_clock: MockClock) -> Concurrent:
    """A queue whose messages come in batches of three."""
    return Concurrent(nursery, consume_message_batch_max_size=3)


async def test_what_a_handler_has_finished_is_acknowledged(world: Concurrent, autojump_clock: MockClock) -> None:
    async def handler(batch: MessageBatch) -> None:
        await world.note(batch)
        assert all("CONSUME_START_TIME" in each.properties for each in batch)

    world.deliver(0, 1, 2, 3)
    await world.run(handler)
    assert world.seen == [[0, 1, 2], [3]]
    assert world.committed == 4
    assert world.process_queue.message_count == 0


async def test_the_offset_does_not_pass_a_message_that_is_still_handled(
    world: Concurrent, autojump_clock: MockClock
) -> None:
    async def handler(batch: MessageBatch) -> None:
        if batch.messages[0].queue_offset == 0:
            await trio.sleep(5)

    world.deliver(0)
    world.deliver(1, 2, 3)
    await world.run(handler, seconds=4, tasks=2)
    assert world.committed == 0
    assert world.process_queue.message_count == 1


@pytest.mark.parametrize("level", [0, 4])
async def test_a_batch_that_fails_goes_back(world: Concurrent, level: int, autojump_clock: MockClock) -> None:
    async def handler(batch: MessageBatch) -> ConsumeConcurrentlyStatus:
        batch.delay_level = level
        return LATER

    world.deliver(0, 1)
    await world.run(handler)
    assert world.send_back.sent == [(0, level), (1, level)]
    assert world.committed == 2


async def test_a_handler_that_raises_has_failed_and_others_go_on(
    world: Concurrent, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async def handler(batch: MessageBatch) -> None:
        await world.note(batch)
        assert batch.messages[0].queue_offset != 0, "no"

    world.deliver(0)
    world.deliver(1)
    await world.run(handler)
    assert world.seen == [[0], [1]]
    assert world.send_back.sent == [(0, 0)]
    assert world.committed == 2
    (record,) = caplog.records
    assert "its 1 messages are redelivered" in record.getMessage()
    assert record.exc_info is not None


@pytest.mark.parametrize(
    ("ack_index", "sent_back"), [(0, [1, 2]), (-1, [0, 1, 2]), (-2, [0, 1, 2]), (-100, [0, 1, 2]), (2, []), (99, [])]
)
async def test_only_messages_after_the_ack_index_go_back(
    world: Concurrent, ack_index: int, sent_back: list[int], autojump_clock: MockClock
) -> None:
    async def handler(batch: MessageBatch) -> ConsumeConcurrentlyStatus:
        batch.ack_index = ack_index
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    world.deliver(0, 1, 2)
    await world.run(handler)
    assert world.send_back.sent == [(each, 0) for each in sent_back]
    assert world.committed == 3


async def test_a_result_of_another_kind_is_a_failure(world: Concurrent, autojump_clock: MockClock) -> None:
    async def handler(batch: MessageBatch) -> ConsumeConcurrentlyStatus:
        return True  # type: ignore[return-value]

    world.deliver(0)
    await world.run(handler)
    assert world.send_back.sent == [(0, 0)]


async def test_messages_that_nobody_takes_back_are_tried_again_here_after_five_seconds(
    world: Concurrent, autojump_clock: MockClock
) -> None:
    times: list[float] = []

    async def handler(batch: MessageBatch) -> ConsumeConcurrentlyStatus | None:
        times.append(trio.current_time())
        assert batch.messages[0].reconsume_times == len(times) - 1
        return LATER if len(times) == 1 else None

    world.send_back.is_refusing = True
    world.deliver(0)
    await world.run(handler, seconds=10)
    assert times[1] - times[0] == pytest.approx(5, abs=0.2)
    assert world.committed == 1


async def test_a_handler_that_never_ends_is_cancelled_and_its_messages_go_back(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    world = Concurrent(nursery, consume_timeout=2)

    async def handler(batch: MessageBatch) -> None:
        await world.note(batch)
        if len(world.seen) == 1:
            await trio.sleep_forever()

    world.deliver(0, 1)
    await world.run(handler, seconds=119)
    assert world.seen == [[0]]
    world.seen.clear()
    await world.run(handler, seconds=121)
    assert world.seen == [[1], [0]], "a handler that is cancelled returns its batch"
    await world.run(handler, seconds=1)
    assert world.send_back.sent == [(1, 3)]
    assert world.committed == 2


async def test_a_handler_that_is_cancelled_returns_its_batch(world: Concurrent, autojump_clock: MockClock) -> None:
    async def never(batch: MessageBatch) -> None:
        await trio.sleep_forever()

    world.deliver(0, 1)
    await world.run(never)
    assert world.committed is None
    await world.run(world.note)
    assert world.seen == [[0, 1]]
    assert world.committed == 2


async def test_results_of_a_queue_that_is_given_up_do_not_count(world: Concurrent, autojump_clock: MockClock) -> None:
    async def handler(batch: MessageBatch) -> ConsumeConcurrentlyStatus:
        world.process_queue.is_dropped = True
        world.process_queue.clear()
        return LATER

    world.deliver(0)
    world.deliver(1)
    await world.run(handler)
    assert (world.committed, world.send_back.sent) == (None, [])


async def test_a_broadcasting_consumer_loses_what_fails(
    nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world = Concurrent(nursery, message_model=MessageModel.BROADCASTING)

    async def handler(batch: MessageBatch) -> ConsumeConcurrentlyStatus:
        return LATER

    world.deliver(0)
    await world.run(handler)
    assert (world.committed, world.send_back.sent) == (1, [])
    assert "is lost" in caplog.text


async def test_a_batch_in_hand_is_settled_once(world: Concurrent, autojump_clock: MockClock) -> None:
    world.deliver(0, 1, 2)
    batch = await world.consumption.next_in_hand()
    await batch.retry_later(messages=batch.messages[:1])
    assert (world.send_back.sent, world.committed, batch.is_settled) == ([(0, 0)], 1, False)
    await batch.done()
    assert (world.committed, batch.is_settled) == (3, True)
    await batch.dead_letter()
    assert world.send_back.sent == [(0, 0)]


async def test_a_batch_that_stays_in_hand_too_long_goes_back(world: Concurrent, autojump_clock: MockClock) -> None:
    world.deliver(0, 1)
    batch = await world.consumption.next_in_hand()
    with trio.move_on_after(17 * 60):
        await world.consumption.send_expired_back()
    assert world.send_back.sent == [(0, 3), (1, 3)]
    await batch.done()
    assert world.committed == 2


async def test_all_that_fails_and_cannot_go_back_ends_the_batch_but_not_its_messages(
    world: Concurrent, autojump_clock: MockClock
) -> None:
    world.send_back.is_refusing = True
    world.deliver(0)
    batch = await world.consumption.next_in_hand()
    await batch.retry_later()
    assert batch.is_settled
    assert world.committed is None
    again = await world.consumption.next_in_hand()
    assert again.messages[0].reconsume_times == 1


async def test_handlers_end_when_the_consumer_has_left(world: Concurrent, autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.consumption.run, world.note, 3)
        await trio.sleep(1)
        world.consumption.close()
    world.deliver(0)
    assert world.seen == []


@pytest.mark.parametrize("ends", ["retry_later", "ack"])
async def test_a_cancelled_handler_returns_only_what_it_has_not_settled(
    world: Concurrent, ends: str, autojump_clock: MockClock
) -> None:
    """What it has given back comes by the broker, and what it has acknowledged not at all."""

    async def give_part_back(batch: MessageBatch) -> None:
        if ends == "ack":
            await batch.done()
        else:
            await batch.retry_later(messages=batch.messages[:2])
        await trio.sleep_forever()

    world.deliver(0, 1, 2)
    await world.run(give_part_back)
    await world.run(world.note)
    assert world.seen == ([] if ends == "ack" else [[2]])
    assert world.send_back.sent == ([] if ends == "ack" else [(0, 0), (1, 0)])
    assert world.committed == 3


async def test_a_send_back_that_is_cancelled_leaves_only_the_rest(world: Concurrent, autojump_clock: MockClock) -> None:
    async def handler(batch: MessageBatch) -> ConsumeConcurrentlyStatus:
        return LATER

    world.send_back.hangs_at = 1
    world.deliver(0, 1, 2)
    await world.run(handler)
    world.send_back.hangs_at = None
    await world.run(world.note)
    assert world.seen == [[1, 2]]
    assert world.send_back.sent == [(0, 0)]


async def test_a_drain_finishes_what_is_in_hand_and_begins_nothing(
    world: Concurrent, autojump_clock: MockClock
) -> None:
    async def handler(batch: MessageBatch) -> None:
        await trio.sleep(5)
        await world.note(batch)

    world.deliver(0, 1, 2, 3, 4, 5, 6)
    in_hand = await world.consumption.next_in_hand()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.consumption.run, handler, 1)
        await trio.sleep(1)
        nursery.start_soon(world.consumption.drain)
        async with trio.open_nursery() as second:  # another one waits as well
            second.start_soon(world.consumption.drain)
            await trio.sleep(6)
            assert world.seen == [[3, 4, 5]], "pulled and not begun"
            await in_hand.done()
        with pytest.raises(trio.EndOfChannel):
            await world.consumption.next_batch()
        world.deliver(7)
    assert world.committed == 6


async def test_what_a_drain_does_not_wait_for_is_cancelled_and_not_acknowledged(
    world: Concurrent, autojump_clock: MockClock
) -> None:
    async def never(batch: MessageBatch) -> None:
        await trio.sleep_forever()

    world.deliver(0, 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.consumption.run, never, 2)
        await trio.sleep(1)
        with trio.move_on_after(1) as limit:
            await world.consumption.drain()
        assert limit.cancelled_caught
        world.consumption.cancel_handlers()
    assert world.committed is None
