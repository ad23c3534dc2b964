"""Handlers of queues in order: commits, suspensions, locks, in virtual time."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.statuses import ConsumeOrderlyStatus
from tests.client.consumer.consumption import QUEUE, Orderly
from tests.forgotten import sizes_within

SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT


async def test_messages_come_in_order_before_and_after_the_handler_began(autojump_clock: MockClock) -> None:
    world = Orderly()
    world.deliver(0, 1)
    await world.run(1, lambda: world.deliver(2))
    assert world.handled == [[0], [1], [2]]
    assert world.committed == 3


async def test_a_queue_that_is_suspended_goes_on_with_the_same_message(autojump_clock: MockClock) -> None:
    world = Orderly(None, SUSPEND, ValueError("why"), consume_message_batch_max_size=2)
    world.deliver(0, 1, 2, 3, 4)
    await world.run(4.8)
    assert world.handled == [[0, 1], [2, 3], [2, 3], [2, 3], [4]]
    times = [at for at, _ in world.seen]
    assert [round(after - before) for before, after in pairwise(times)] == [0, 1, 1, 0]
    assert world.committed == 5


@pytest.mark.parametrize(("suspend_ms", "pause"), [(-1, 1.0), (1, 0.01), (500, 0.5), (90_000, 30.0)])
async def test_a_suspension_is_bounded(suspend_ms: int, pause: float, autojump_clock: MockClock) -> None:
    world = Orderly(SUSPEND)
    world.suspend_ms = suspend_ms
    for each in world.process_queues:
        each.locked_at += 1000
    world.deliver(0)
    await world.run(100)
    assert world.seen[1][0] - world.seen[0][0] == pytest.approx(pause, abs=0.2)


async def test_a_message_without_retries_left_makes_way_for_the_next(autojump_clock: MockClock) -> None:
    world = Orderly(SUSPEND, SUSPEND, SUSPEND, max_reconsume_times=2)
    world.deliver(0, 1)
    await world.run(10)
    assert world.handled == [[0], [0], [0], [1]]
    assert world.send_back.copied == [(0, 2)]
    assert world.committed == 2


async def test_a_message_that_nobody_takes_keeps_its_queue(autojump_clock: MockClock) -> None:
    world = Orderly(*[SUSPEND] * 4, max_reconsume_times=0)
    world.send_back.is_refusing = True
    world.deliver(0, 1)
    await world.run(3.5)
    assert world.handled == [[0], [0], [0], [0]]
    assert world.committed is None


async def test_a_result_of_another_kind_is_a_failure(autojump_clock: MockClock) -> None:
    world = Orderly("SUCCESS")  # type: ignore[arg-type]
    world.deliver(0, 1)
    await world.run(5)
    assert world.handled == [[0], [0], [1]]


async def test_without_auto_commit_the_handler_says_when(autojump_clock: MockClock) -> None:
    status = ConsumeOrderlyStatus
    world = Orderly(status.SUCCESS, status.SUCCESS, status.COMMIT, status.SUCCESS, status.ROLLBACK, auto_commit=False)
    world.deliver(0, 1, 2, 3, 4)
    await world.run(0.5)
    assert world.handled == [[0], [1], [2], [3], [4]]
    assert world.committed == 3
    await world.run(3)
    assert world.handled[5:] == [[3], [4]], "what was rolled back comes again"
    assert world.committed == 3


async def test_with_auto_commit_the_other_two_are_successes(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    world = Orderly(ConsumeOrderlyStatus.ROLLBACK, ConsumeOrderlyStatus.COMMIT)
    world.deliver(0, 1)
    await world.run(1)
    assert (world.handled, world.committed) == ([[0], [1]], 2)
    assert "ROLLBACK of" in caplog.text


async def test_no_handler_is_called_while_the_lock_is_not_trusted(autojump_clock: MockClock) -> None:
    world = Orderly()
    world.queue.is_locked = False
    world.deliver(0)
    world.deliver(7, queue=1)
    await world.run(10)
    assert world.handled == [[7]]
    await world.run(10, lambda: world.locks.note_locked(world.queue))
    assert world.handled == [[7], [0]]


async def test_a_lock_that_ends_meanwhile_keeps_a_queue_that_has_waited_for_a_handler(
    autojump_clock: MockClock,
) -> None:
    """It was trusted when its queue began to wait."""
    world = Orderly()
    trusted: list[bool] = []

    async def slow(batch: MessageBatch) -> None:
        trusted.append(world.locks.is_trusted(batch.process_queue))
        await trio.sleep(4)

    world.handle = slow  # type: ignore[assignment]
    world.deliver(0)
    world.deliver(7, queue=1)

    def lose_those_that_wait() -> None:
        for each in world.process_queues:
            each.is_locked = each.is_consuming

    await world.run(6, lose_those_that_wait, tasks=1)
    assert trusted == [True]


async def test_a_handler_that_is_cancelled_returns_its_messages(autojump_clock: MockClock) -> None:
    world = Orderly()
    original = world.handle

    async def never(batch: MessageBatch) -> None:
        await trio.sleep_forever()

    world.handle = never  # type: ignore[assignment]
    world.deliver(0, 1)
    await world.run(1)
    assert not world.queue.is_consuming
    world.handle = original  # type: ignore[method-assign]
    await world.run(1)
    assert (world.handled, world.committed) == ([[0], [1]], 2)


async def test_a_queue_that_is_given_up_ends_with_the_handler_whose_result_counts(autojump_clock: MockClock) -> None:
    world = Orderly()
    idle_at: list[float] = []

    async def slow(batch: MessageBatch) -> None:
        world.seen.append((trio.current_time(), [each.queue_offset for each in batch]))
        await trio.sleep(3)

    async def give_up() -> None:
        await trio.sleep(1)
        world.queue.is_leaving = True
        await world.consumption.wait_idle(world.queue)
        idle_at.append(trio.current_time())

    world.handle = slow  # type: ignore[assignment]
    world.deliver(0, 1)
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_up)
        await world.run(10)
    assert idle_at == [pytest.approx(begun + 3, abs=0.2)]
    assert (world.handled, world.committed, world.left) == ([[0]], 1, 1)


async def test_the_result_of_a_dropped_queue_does_not_count_and_the_next_assignment_waits_for_it(
    autojump_clock: MockClock,
) -> None:
    world = Orderly()
    running: list[int] = []

    async def slow(batch: MessageBatch) -> None:
        assert not running, "two handlers of one queue"
        running.append(batch.messages[0].queue_offset)
        world.seen.append((trio.current_time(), list(running)))
        await trio.sleep(3)
        running.clear()

    def move() -> None:
        world.queue.is_dropped = True
        world.queue.clear()
        world.process_queues[0] = ProcessQueue(QUEUE)
        world.locks.note_locked(world.queue)
        world.deliver(40)

    world.handle = slow  # type: ignore[assignment]
    world.deliver(0, 1)
    await world.run(4, move)
    assert (world.handled, world.committed) == ([[0], [40]], None)


async def test_no_more_handlers_than_tasks_run_at_once(autojump_clock: MockClock) -> None:
    world = Orderly()
    running = 0

    async def slow(batch: MessageBatch) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await trio.sleep(1)
        running -= 1
        world.seen.append((0, [each.queue_offset for each in batch]))

    world.handle = slow  # type: ignore[assignment]
    world.deliver(0)
    world.deliver(7, queue=1)
    await world.run(10, tasks=1)
    assert sorted(world.handled) == [[0], [7]]


async def test_it_ends_when_the_consumer_has_left(autojump_clock: MockClock) -> None:
    world = Orderly()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.consumption.run, world.handle, 1, lambda: world.process_queues)
        await trio.sleep(1)
        world.consumption.close()
    world.deliver(0)
    assert world.seen == []


async def test_a_queue_that_was_left_leaves_no_lock(autojump_clock: MockClock) -> None:
    world = Orderly()
    world.deliver(0)
    await world.run(1)
    assert world.handled == [[0]]
    assert sizes_within(world.consumption)["OrderlyConsumption._serial"] == 0


async def test_copies_that_are_cancelled_leave_only_the_rest(autojump_clock: MockClock) -> None:
    """What has gone to the retry topic comes from there, and is not handled here once more."""
    world = Orderly(SUSPEND, max_reconsume_times=0, consume_message_batch_max_size=3)
    world.send_back.hangs_at = 1
    world.deliver(0, 1, 2)
    await world.run(1)
    world.send_back.hangs_at = None
    await world.run(1)
    assert world.handled == [[0, 1, 2], [1, 2]]
    assert world.send_back.copied == [(0, 0)]
    assert world.committed == 3


@pytest.mark.parametrize("is_in_time", [True, False])
async def test_a_drain_finishes_the_batches_in_hand_and_begins_none(
    is_in_time: bool, autojump_clock: MockClock
) -> None:
    world = Orderly()

    async def handler(batch: MessageBatch) -> None:
        await trio.sleep(5 if is_in_time else 5000)
        await world.handle(batch)

    world.deliver(0, 1)
    world.deliver(0, queue=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.consumption.run, handler, 1, lambda: world.process_queues)
        await trio.sleep(1)
        with trio.move_on_after(100) as limit:
            await world.consumption.drain()
        assert limit.cancelled_caught is not is_in_time
        world.consumption.cancel_handlers()
    assert world.handled == ([[0]] if is_in_time else [])
    committed = {world.offsets.get(each.queue) for each in world.process_queues}
    assert committed == ({1, None} if is_in_time else {None})
