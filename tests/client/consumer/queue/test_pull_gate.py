"""What holds the readers of a consumer, and what lets them go on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing

from rocketpy.client.consumer.queue.pull_gate import PullGate
from rocketpy.protocol.message import MessageQueue
from tests.patience import PATIENCE_SECONDS

QUEUE, OTHER = (MessageQueue("T", "b", each) for each in range(2))


async def waits(gate: PullGate, open_again: Callable[[], None]) -> bool:
    """Whether a reader of ``QUEUE`` waits until something is done."""
    passed = trio.Event()

    async def read() -> None:
        await gate.wait_open(QUEUE)
        passed.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        has_waited = not passed.is_set()
        open_again()
        with trio.fail_after(PATIENCE_SECONDS):
            await passed.wait()
    return has_waited


async def test_a_new_gate_is_open() -> None:
    assert not await waits(PullGate(), lambda: None)


@pytest.mark.parametrize(
    ("close", "open_again"),
    [
        (lambda gate: gate.suspend(), lambda gate: gate.resume()),
        (lambda gate: gate.set_full(True), lambda gate: gate.set_full(False)),
        (lambda gate: gate.pause([QUEUE]), lambda gate: gate.resume_queues([QUEUE])),
    ],
)
async def test_what_closes_the_gate_is_undone_by_its_opposite(
    close: Callable[[PullGate], None], open_again: Callable[[PullGate], None]
) -> None:
    gate = PullGate()
    close(gate)
    assert await waits(gate, lambda: open_again(gate))


async def test_a_paused_queue_holds_no_other_and_stays_paused_when_the_consumer_goes_on() -> None:
    gate = PullGate()
    gate.pause([OTHER])
    assert not await waits(gate, lambda: None)
    gate.pause([QUEUE])
    gate.suspend()
    assert gate.is_suspended
    gate.resume()
    assert not gate.is_suspended
    assert gate.paused == {QUEUE, OTHER}
    assert await waits(gate, lambda: gate.resume_queues([QUEUE]))
