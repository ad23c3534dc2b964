"""Every public coroutine of the client has a call, the call works, and cancelled anywhere it leaves nothing behind."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy import client
from rocketpy.client import admin
from rocketpy.errors import ClientError, RocketpyError
from rocketpy.protocol.message import MessageExt
from tests.client.cancelled_everywhere import cancelled_everywhere
from tests.client.fake_cluster import FakeBroker, FakeCluster
from tests.client.lying_world import open_caller, open_lying_world
from tests.client.public_calls import ADMIN_CALLS, CALL_SECONDS, CALLS, CLIENT_CALLS, GROUP, IN_ROLE, TOPIC, Caller

REFUSED: dict[str, type[RocketpyError]] = {
    "Producer.request": ClientError,  # nothing replies
    "MessageAdmin.trace": ClientError,  # nothing is traced
}
"""What the calls that have no result end with in a world that does not lie."""
CLOSING_SECONDS = 5.0
"""Until servers have noticed that a client has gone; of Trio's clock."""


def public_coroutines() -> Iterator[str]:
    """Every coroutine function and asynchronous context manager of the public names, as ``Class.name`` or ``name``."""
    for package in (client, admin):
        for name in package.__all__:
            public = getattr(package, name)
            if not inspect.isclass(public):
                if _awaits(public):
                    yield name
                continue
            for member, value in inspect.getmembers(public):
                if (not member.startswith("_") or member == "__anext__") and _awaits(value):
                    yield f"{public.__name__}.{member}"


def _awaits(value: object) -> bool:
    if not callable(value):
        return False
    function = inspect.unwrap(value)
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def test_every_public_coroutine_has_a_call_and_no_call_is_of_something_else() -> None:
    public = set(public_coroutines())
    assert len(public) > 100
    assert public - CALLS.keys() == set(), "not in tests/client/public_calls.py"
    assert CALLS.keys() - public == set(), "not public"
    assert not CLIENT_CALLS.keys() & ADMIN_CALLS.keys()


async def made(name: str, caller: Caller) -> object:
    """Make a call; a refusal that is expected is its result."""
    refusal = REFUSED.get(name, ())
    with trio.fail_after(CALL_SECONDS):
        try:
            return await CALLS[name](caller)
        except refusal as failure:
            return failure
        except BaseExceptionGroup as group:  # the refusal, and that the tasks of a role have been cancelled
            refused, rest = group.split(refusal)
            if rest is not None:
                raise rest from None
            return refused.exceptions[0] if refused else None


@pytest.mark.parametrize("name", [name for name in CLIENT_CALLS if not name.startswith("open_")])
async def test_cancelled_anywhere_a_call_leaves_no_task_or_lock_and_loses_no_acknowledgement(
    name: str, autojump_clock: MockClock
) -> None:
    """The client goes on and works as before; at last the call is not cancelled, and works too."""
    async with open_lying_world() as (cluster, environment), open_caller(cluster, environment) as caller:
        await cancel_everywhere(name, cluster, caller)


@pytest.mark.parametrize("area", sorted({name.partition(".")[0] for name in ADMIN_CALLS}))
async def test_cancelled_anywhere_a_call_of_an_admin_client_leaves_no_task_or_lock(
    area: str, autojump_clock: MockClock
) -> None:
    async with open_lying_world() as (cluster, environment), open_caller(cluster, environment) as caller:
        for name in ADMIN_CALLS:
            if name.startswith(f"{area}."):
                await cancel_everywhere(name, cluster, caller)


async def cancel_everywhere(name: str, cluster: FakeCluster, caller: Caller) -> None:
    """Cancel a call at each checkpoint; of those of ``IN_ROLE``, which Client opens, from when their role is open."""
    await used(caller)
    tasks = trio.lowlevel.current_statistics().tasks_living
    is_whole = CALLS[name] not in IN_ROLE or name.startswith("Client.")
    async for attempt in cancelled_everywhere(lambda: made(name, caller), lambda: is_whole or bool(caller.begun)):
        last = attempt.result
        assert is_whole or caller.begun
        caller.begun.clear()
        await used(caller)
        assert trio.lowlevel.current_statistics().tasks_living == tasks, name
        assert_kept(cluster, caller)
    assert isinstance(last, REFUSED.get(name, object)), name


WHOLE_LIVES = (
    *(name for name in CLIENT_CALLS if name.startswith(("open_", "Client."))),
    "Producer.request",
    "BatchingProducer.send",
    "Transaction.commit",
    "Consumer.run",
    "Consumer.run_orderly",
    "BatchIterator.__anext__",
    "MessageBatch.done",
    "MessageBatch.retry_later",
    "LitePullConsumer.commit",
    "PullConsumer.run_pull_task",
    "MessageStream.commit",
    "AdminClient.create_topic",
)
"""One call and more of each role."""


@pytest.mark.parametrize("name", WHOLE_LIVES)
async def test_cancelled_anywhere_a_client_leaves_no_connection_or_lock_and_loses_no_acknowledgement(
    name: str, autojump_clock: MockClock
) -> None:
    """The client is opened for the call, and cancelled with it."""
    async with open_lying_world() as (cluster, environment):
        async with open_caller(cluster, environment) as closed:
            pass
        await trio.sleep(CLOSING_SECONDS)
        tasks = trio.lowlevel.current_statistics().tasks_living

        async def with_its_client() -> object:
            async with open_caller(cluster, environment) as caller:
                return await made(name, attrs.evolve(closed, client=caller.client))

        async for attempt in cancelled_everywhere(with_its_client):
            last = attempt.result
            await trio.sleep(CLOSING_SECONDS)
            for server in (cluster.name_server, *cluster.brokers):
                assert server.server is not None
                assert server.server.connections == []
            assert trio.lowlevel.current_statistics().tasks_living == tasks
            assert_kept(cluster, closed)
    assert isinstance(last, REFUSED.get(name, object))


MOMENTS_MS = [number / 2 for number in range(36)]
"""After the beginning of a call, in virtual time: a round trip takes one, and the longest of these calls eleven."""


@pytest.mark.parametrize(
    "name",
    ["Transaction.commit", "Consumer.run", "Consumer.run_orderly", "MessageBatch.done", "LitePullConsumer.commit"],
)
async def test_cancelled_at_any_moment_a_client_leaves_no_connection_or_lock_and_loses_no_acknowledgement(
    name: str, autojump_clock: MockClock
) -> None:
    """Also while a service of the client waits for an answer, and the program does nothing."""
    async with open_lying_world() as (cluster, environment):
        async with open_caller(cluster, environment) as closed:
            pass
        await trio.sleep(CLOSING_SECONDS)
        tasks = trio.lowlevel.current_statistics().tasks_living
        for moment_ms in MOMENTS_MS:
            with trio.move_on_after(moment_ms / 1000) as scope:
                async with open_caller(cluster, environment) as caller:
                    await made(name, attrs.evolve(closed, client=caller.client))
            await trio.sleep(CLOSING_SECONDS)
            assert trio.lowlevel.current_statistics().tasks_living == tasks
            assert_kept(cluster, closed)
            if not scope.cancelled_caught:
                return
        raise AssertionError(f"the call was still cancelled after {moment_ms} ms")


async def used(caller: Caller) -> None:
    """Send and pull: the client works, and has its connections."""
    async with caller.client.producer("honest") as producer, caller.client.pull_consumer("honest") as consumer:
        for queue in await producer.publish_queues(TOPIC):
            if queue.queue_id == 0:  # one of each broker
                await producer.send(client.Message(TOPIC, b"x"), queue=queue)
                await consumer.pull(queue, 0, max_msg_nums=1)
    await trio.sleep(CLOSING_SECONDS)


def assert_kept(cluster: FakeCluster, caller: Caller) -> None:
    """No queue is locked; stored progress covers what was acknowledged, and nothing that was not delivered.

    Then there is another message in each queue, for the next call.
    """
    delivered, acknowledged = _offsets(caller.delivered), _offsets(caller.acknowledged)
    for broker in cluster.brokers:
        assert broker.locks == {}
        for queue_id in (0, 1):
            stored = broker.progress.get((GROUP, TOPIC, queue_id), 0)
            settled = _settled(broker, queue_id)
            assert stored <= _contiguous(delivered[broker.name, queue_id] | settled)
            assert stored >= _contiguous(acknowledged[broker.name, queue_id])
            broker.put(TOPIC, queue_id, b"more")


def _offsets(messages: list[MessageExt]) -> dict[tuple[str, int], set[int]]:
    offsets: dict[tuple[str, int], set[int]] = defaultdict(set)
    for each in messages:
        if each.topic == TOPIC:
            offsets[each.broker_name, each.queue_id].add(each.queue_offset)
    return offsets


def _settled(broker: FakeBroker, queue_id: int) -> set[int]:
    """The offsets of messages that were sent back: they come again, or are dead letters."""
    by_physical = {each.physical_offset: each.queue_offset for each in broker.queues[TOPIC, queue_id]}
    return {by_physical[each.offset] for each in broker.sent_back if each.offset in by_physical}


def _contiguous(offsets: set[int]) -> int:
    """Return how many offsets there are from 0 on without a gap."""
    return next(number for number in range(len(offsets) + 1) if number not in offsets)
