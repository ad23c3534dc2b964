"""A client among peers that lie: whatever a nameserver or broker answers, only errors of ``rocketpy.errors`` come out.

Each example makes some public calls while some answers, or all, are spoiled in one of a dozen ways
(``tests/client/lying_world.py``); some calls are cancelled meanwhile. A call ends within its bound on a virtual clock,
with a result or such an error; the client then still does an honest send and an honest pull, and its block ends with
all its tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import inf

import trio
import trio.testing
from hypothesis import given, note
from hypothesis import strategies as st

from rocketpy.errors import RocketpyError
from tests.client.lying_world import WAYS, Spoiling, lie, open_caller, open_lying_world
from tests.client.public_calls import ADMIN_CALLS, CALL_SECONDS, CLIENT_CALLS, MORE_CALLS, QUEUE, Caller, message

SPOILINGS = st.builds(Spoiling, st.sampled_from(WAYS), st.integers(0, 400), st.integers(0, 400))
CALLS = st.sampled_from(sorted(CLIENT_CALLS | MORE_CALLS)) | st.sampled_from(sorted(ADMIN_CALLS))
CANCELLED_AFTER_S = st.just(inf) | st.integers(0, 40).map(lambda number: number / 2000)
RECOVERY_SECONDS = 120.0
"""Within so much the routes are fetched again."""


async def make_calls(calls: Sequence[tuple[str, float]], spoilings: Sequence[Spoiling], *, always: bool) -> None:
    async with open_lying_world() as (cluster, environment):
        tasks_before = trio.lowlevel.current_statistics().tasks_living
        async with open_caller(cluster, environment) as caller:
            lie(cluster, spoilings, always=always)
            for name, cancelled_after_s in calls:
                with trio.fail_after(CALL_SECONDS), trio.move_on_after(cancelled_after_s):
                    try:
                        result = await (CLIENT_CALLS | ADMIN_CALLS | MORE_CALLS)[name](caller)
                        note(f"{name}: {str(result)[:200]}")
                    except RocketpyError as failure:
                        note(f"{name}: {type(failure).__name__} {str(failure)[:200]}")
            for server in (cluster.name_server, *cluster.brokers):
                server.behave()
            with trio.fail_after(RECOVERY_SECONDS):
                await until_honest(caller)
        await trio.sleep(5)  # the servers notice that the client's connections have ended
        assert trio.lowlevel.current_statistics().tasks_living == tasks_before


async def until_honest(caller: Caller) -> None:
    """Send and pull until both work: the routes may be the liars' until they are fetched again."""
    async with caller.client.producer("honest") as producer, caller.client.pull_consumer("honest") as consumer:
        while True:
            try:
                await producer.send(message())
                await consumer.queues(QUEUE.topic)
                await consumer.pull(QUEUE, 0)
            except RocketpyError:
                await trio.sleep(1.0)
            else:
                return


@given(
    calls=st.lists(st.tuples(CALLS, CANCELLED_AFTER_S), min_size=1, max_size=4),
    spoilings=st.lists(SPOILINGS, min_size=1, max_size=4),
    always=st.booleans(),
)
def test_whatever_peers_answer_a_call_ends_with_a_result_or_an_error_of_ours(
    calls: list[tuple[str, float]], spoilings: list[Spoiling], always: bool
) -> None:
    logging.disable(logging.CRITICAL)  # the log has a line for each lie
    try:
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(lambda: make_calls(calls, spoilings, always=always), clock=clock)
    finally:
        logging.disable(logging.NOTSET)
