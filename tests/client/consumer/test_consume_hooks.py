"""Consume hooks: each batch has one beginning and one end, with the result of its handler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.client import Client, open_client
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.statuses import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from rocketpy.client.hooks import ConsumeMessageContext, ConsumeReturnType
from rocketpy.errors import StoreError
from tests.client.conftest import FIRST, TOPIC
from tests.client.consumer.consumption import QUEUE, Concurrent, Orderly, hooks_of, messages_at
from tests.client.fake_cluster import FakeCluster
from tests.patience import until

LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER
SUCCESS = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

End = tuple[str, str, bool]


class Recorder:
    """Notes what it is shown, and may fail."""

    hook_name = "recorder"

    def __init__(self, *, fails: bool = False) -> None:
        self.before: list[ConsumeMessageContext] = []
        self.after: list[ConsumeMessageContext] = []
        self._fails = fails

    def consume_message_before(self, context: ConsumeMessageContext) -> None:
        self.before.append(context)
        if self._fails:
            raise AssertionError("before")

    def consume_message_after(self, context: ConsumeMessageContext) -> None:
        assert context in self.before
        self.after.append(context)
        if self._fails:
            raise StoreError("after", path="theirs")

    @property
    def ends(self) -> list[End]:
        return [(each.return_type.name, each.status, each.is_success) for each in self.after]


async def consume_concurrently(
    nursery: trio.Nursery,
    hook: Recorder,
    handler: Callable[[MessageBatch], Awaitable[ConsumeConcurrentlyStatus | None]],
    seconds: float,
) -> None:
    """Handle a batch of two messages."""
    world = Concurrent(nursery, hook, consume_message_batch_max_size=2, consume_timeout=0.5)
    world.deliver(0, 1)
    await world.run(handler, seconds=seconds)


async def succeed(batch: MessageBatch) -> None:
    pass


async def fail(batch: MessageBatch) -> None:
    raise ValueError("no")


async def never_end(batch: MessageBatch) -> None:
    await trio.sleep_forever()


async def return_later(batch: MessageBatch) -> ConsumeConcurrentlyStatus:
    return LATER


async def settle_itself(batch: MessageBatch) -> None:
    await batch.done()
    raise ValueError("too late to count")


async def give_back_itself(batch: MessageBatch) -> None:
    await batch.retry_later()


async def give_back_in_part(batch: MessageBatch) -> None:
    await batch.retry_later(messages=batch.messages[1:])


async def ignore_the_limit(batch: MessageBatch) -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep(31)


@pytest.mark.parametrize(
    ("handler", "seconds", "end"),
    [
        (succeed, 1, ("SUCCESS", "CONSUME_SUCCESS", True)),
        (fail, 1, ("EXCEPTION", "RECONSUME_LATER", False)),
        (return_later, 1, ("FAILED", "RECONSUME_LATER", False)),
        (never_end, 31, ("TIME_OUT", "RECONSUME_LATER", False)),
        (never_end, 1, ("RETURNNULL", "RECONSUME_LATER", False)),
        (settle_itself, 1, ("SUCCESS", "CONSUME_SUCCESS", True)),
        (give_back_itself, 1, ("FAILED", "RECONSUME_LATER", False)),
        (give_back_in_part, 1, ("SUCCESS", "CONSUME_SUCCESS", True)),
        (ignore_the_limit, 32, ("TIME_OUT", "CONSUME_SUCCESS", True)),
    ],
)
async def test_the_end_of_a_concurrent_handler(
    handler: Callable[[MessageBatch], Awaitable[None]],
    seconds: float,
    end: End,
    nursery: trio.Nursery,
    autojump_clock: MockClock,
) -> None:
    hook = Recorder()
    await consume_concurrently(nursery, hook, handler, seconds)
    assert hook.ends == [end]
    (context,) = hook.before
    assert (context.consumer_group, context.message_queue, len(context.messages)) == ("g", QUEUE, 2)


async def return_rollback(batch: MessageBatch) -> ConsumeOrderlyStatus:
    await trio.sleep(0.9)
    return ConsumeOrderlyStatus.ROLLBACK


async def return_commit(batch: MessageBatch) -> ConsumeOrderlyStatus:
    return ConsumeOrderlyStatus.COMMIT


async def return_suspend(batch: MessageBatch) -> ConsumeOrderlyStatus:
    return SUSPEND


async def be_slow(batch: MessageBatch) -> None:
    await trio.sleep(31)


@pytest.mark.parametrize(
    ("handler", "seconds", "end"),
    [
        (succeed, 0.5, ("SUCCESS", "SUCCESS", True)),
        (return_commit, 0.5, ("SUCCESS", "COMMIT", True)),
        (return_rollback, 1, ("SUCCESS", "ROLLBACK", False)),
        (return_suspend, 0.5, ("FAILED", "SUSPEND_CURRENT_QUEUE_A_MOMENT", False)),
        (fail, 0.5, ("EXCEPTION", "SUSPEND_CURRENT_QUEUE_A_MOMENT", False)),
        (be_slow, 32, ("TIME_OUT", "SUCCESS", True)),
        (never_end, 0.5, ("RETURNNULL", "SUSPEND_CURRENT_QUEUE_A_MOMENT", False)),
    ],
)
async def test_the_end_of_an_orderly_handler(
    handler: Callable[[MessageBatch], Awaitable[ConsumeOrderlyStatus | None]],
    seconds: float,
    end: End,
    autojump_clock: MockClock,
) -> None:
    hook = Recorder()
    world = Orderly(hooks=[hook], consume_message_batch_max_size=2, consume_timeout=0.5, auto_commit=False)
    world.handle = handler  # type: ignore[method-assign]
    world.deliver(0, 1)
    await world.run(seconds, tasks=1)
    assert hook.ends == [end]
    assert len(hook.before) == 1


async def test_a_hook_that_fails_is_logged_and_changes_nothing(
    nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    handled: list[int] = []

    async def handler(batch: MessageBatch) -> None:
        handled.append(len(batch))

    hook = Recorder(fails=True)
    await consume_concurrently(nursery, hook, handler, 1)
    assert (handled, hook.ends) == ([2], [("SUCCESS", "CONSUME_SUCCESS", True)])
    assert [each.getMessage().partition(" failed")[0] for each in caplog.records] == [
        "consumeMessageHook recorder, before a batch,",
        "consumeMessageHook recorder, after a batch,",
    ]


async def test_a_batch_in_the_hand_of_a_program_ends_with_the_consumer(autojump_clock: MockClock) -> None:
    hook = Recorder()
    hooks = hooks_of(hook)
    hooks.before(MessageBatch(messages_at([0]), ProcessQueue(QUEUE)))
    hooks.end_all(LATER)
    assert hook.ends == [("RETURNNULL", "RECONSUME_LATER", False)]
    assert hook.after[0].return_type is ConsumeReturnType.RETURNNULL


# ---- a whole consumer -----------------------------------------------------------------------------------------------


@pytest.fixture
async def client(cluster: FakeCluster) -> AsyncIterator[Client]:
    cluster.add_topic("%RETRY%g", 1)
    async with open_client(cluster.address) as client:
        yield client


def put(cluster: FakeCluster, bodies: Sequence[bytes]) -> None:
    for body in bodies:
        cluster.broker.put(TOPIC, 0, body)


async def test_batches_of_a_loop_are_shown(cluster: FakeCluster, client: Client) -> None:
    put(cluster, [b"1", b"2", b"3"])
    hook = Recorder()
    async with client.consumer("g", TOPIC, config=FIRST, consume_hooks=[hook]) as consumer:
        async for batch in consumer:
            if len(hook.before) == 2:
                await batch.dead_letter()
            if len(hook.before) == 3:
                break
        assert len(hook.after) == 2
    assert [end[0] for end in hook.ends] == ["SUCCESS", "FAILED", "RETURNNULL"]
    assert [each.messages[0].body for each in hook.before] == [b"1", b"2", b"3"]


class WithoutRed:
    """Removes what is red, and then fails at blue."""

    hook_name = "without red"

    def filter_message(self, context: object) -> None:
        context.messages[:] = [each for each in context.messages if each.body != b"red"]  # type: ignore[attr-defined]
        if any(each.body == b"blue" for each in context.messages):  # type: ignore[attr-defined]
            raise AssertionError("blue")


async def test_what_a_filter_hook_removes_counts_as_consumed(
    cluster: FakeCluster, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    put(cluster, [b"red", b"blue", b"red", b"green"])
    bodies: list[bytes] = []

    async def handler(batch: MessageBatch) -> None:
        bodies.extend(each.body for each in batch)

    async with (
        client.consumer("g", TOPIC, config=FIRST, filter_hooks=[WithoutRed()]) as consumer,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(consumer.run, handler)
        await until(lambda: len(bodies) == 2)
        nursery.cancel_scope.cancel()
    assert sorted(bodies) == [b"blue", b"green"]
    assert "filterMessageHook without red failed unexpectedly" in caplog.text
