"""Pulls one queue of a group, for as long as it is assigned, and hands the messages on.

Rule: what has been pulled and is not acknowledged is bounded by :class:`~.flow_limits.FlowLimits`. A reader waits for
acknowledgements, it does not poll.

Compatibility: ``DefaultMQPushConsumerImpl.pullMessage`` (4.9.8). Each queue has a task of its own, so a broker that
does not answer delays only its own queues. A queue whose offset is illegal is read anew at once, from the offset that
the broker has named; in Java that takes ten seconds and the next rebalance. Where a broker calls illegal what it has
just named, or holds no pull and names no further offset, there is a pause. What is noted as skipped is never past the
end of the queue, wherever the broker says to go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

import attrs
import trio

from rocketpy.client.consumer.queue.continuity import Continuity
from rocketpy.client.consumer.queue.flow_limits import FlowLimits
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.queue.pull_gate import PullGate
from rocketpy.client.consumer.queue.pull_plan import PullPlan, PullRequest
from rocketpy.client.results import PullResult, PullStatus
from rocketpy.client.states import Trouble
from rocketpy.clock import Clock
from rocketpy.errors import BrokerError, RocketpyError
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.properties import PROPERTY_MAX_OFFSET, PROPERTY_MIN_OFFSET

FLOW_CONTROL_SECONDS = 0.02
FRUITLESS_SECONDS = 0.1
"""Pause after a pull that returned nothing at once, because a broker need not hold pulls."""

_log = logging.getLogger("rocketpy.client")


class Puller(Protocol):
    """Interface that a reader needs from the requests of its group."""

    async def pull(self, pull: PullRequest) -> PullResult:
        """Pull once."""
        ...


class ReaderOwner(Protocol):
    """Interface that a reader needs from its group."""

    @property
    def gate(self) -> PullGate:
        """Decides which queues may be pulled now."""
        ...

    def subscription_of(self, topic: str) -> SubscriptionData | None:
        """Return the subscription to a topic, None when there is none any more."""
        ...

    def memory_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset that may be committed."""
        ...

    def note_fruitless(self, process_queue: ProcessQueue, next_offset: int) -> None:
        """Note that nothing below this offset concerns the group."""
        ...

    def deliver(self, process_queue: ProcessQueue, messages: Sequence[MessageExt], pull_seconds: float) -> None:
        """Hand messages on; they are in the process queue."""
        ...

    def read_anew(self, process_queue: ProcessQueue, queue_offset: int) -> None:
        """Give up this assignment of the queue, and begin another one at that offset."""
        ...

    def fall_back(self, process_queue: ProcessQueue, queue_offset: int) -> None:
        """The same, because the queue has lost its tail: what was committed past that offset in memory is not."""
        ...

    async def wait_known(self, failure: RocketpyError) -> None:
        """Return when pulling is worth another attempt after a failure: a broker is back, or knows the group now."""
        ...


@attrs.define(eq=False)
class QueueReader:
    """The pulls of one assigned queue."""

    process_queue: ProcessQueue
    continuity: Continuity
    limits: Callable[[], FlowLimits]
    plan: PullPlan
    exception_pause_s: float
    puller: Puller
    owner: ReaderOwner
    clock: Clock
    is_moved: bool = False
    """It begins at an offset that the broker has named."""
    _trouble: Trouble = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._trouble = Trouble(f"pulling {self.process_queue.queue}")

    async def run(self) -> None:
        """Pull until the queue is dropped, or cancelled."""
        process_queue, queue = self.process_queue, self.process_queue.queue
        while not self.process_queue.is_dropped:
            await self._wait_until_wanted()
            subscription = self.owner.subscription_of(queue.topic)
            if subscription is None:
                await trio.sleep(self.exception_pause_s)
                continue
            process_queue.pulled_at_ms = self.clock.timestamp_ms()
            asked_at = trio.current_time()
            try:
                if not await self.continuity.may_read():
                    await self._fall_back()
                    return
                next_offset = self.continuity.next_offset
                result = await self.puller.pull(
                    self.plan.request(queue, next_offset, subscription, self.owner.memory_offset(queue))
                )
            except RocketpyError as failure:
                await self._pause_after(failure)
                continue
            self._trouble.end()
            if process_queue.is_dropped:
                return
            if not self.continuity.may_take:
                continue  # it may be of another run of the broker, or of a master that is none any more
            if result.status is PullStatus.OFFSET_ILLEGAL:
                if self.is_moved:
                    await trio.sleep(self.exception_pause_s)
                await self._read_anew(result.next_begin_offset)
                continue
            self.is_moved = False
            is_fruitless = result.status is not PullStatus.FOUND and result.next_begin_offset == next_offset
            self._take(result, trio.current_time() - asked_at)
            if self.plan.interval_s and result.messages:
                await trio.sleep(self.plan.interval_s)
            elif is_fruitless and trio.current_time() - asked_at < FRUITLESS_SECONDS:
                await trio.sleep(FRUITLESS_SECONDS)

    def _take(self, result: PullResult, pull_seconds: float) -> None:
        process_queue = self.process_queue
        self.continuity.note(result.messages, result.next_begin_offset)
        messages = process_queue.put(result.messages)
        if messages:
            lowest, highest = str(result.min_offset), str(result.max_offset)
            for message in messages:
                properties = message.properties
                properties[PROPERTY_MIN_OFFSET] = lowest
                properties[PROPERTY_MAX_OFFSET] = highest
            self.owner.deliver(process_queue, messages, pull_seconds)
        elif not process_queue.message_count:
            self.owner.note_fruitless(process_queue, min(result.next_begin_offset, result.max_offset))

    async def _fall_back(self) -> None:
        """Begin again at what is committed, once the messages that are here have been handled: they stay in hand."""
        while self.process_queue.message_count:
            await self._wait_for_removal()
        assert self.continuity.fallback is not None, "so that this is called"
        self.owner.fall_back(self.process_queue, self.continuity.fallback)

    async def _read_anew(self, next_offset: int) -> None:
        """Begin again at an offset that exists.

        Compatibility: a push consumer drops what it has of the queue, a lite pull consumer does not, as in Java.
        Offsets may repeat from here on, so the new beginning waits until the program has polled it.
        """
        process_queue = self.process_queue
        _log.warning(
            "offset %d of %s does not exist, going on at %d",
            self.continuity.next_offset,
            process_queue.queue,
            next_offset,
        )
        while self.plan.is_lite and process_queue.message_count:
            await self._wait_for_removal()
        self.owner.read_anew(process_queue, next_offset)

    async def _wait_until_wanted(self) -> None:
        """Wait until the queue may be pulled, and enough has been acknowledged.

        A change of the limits counts with the next acknowledgement.
        """
        gate, process_queue = self.owner.gate, self.process_queue
        while True:
            await gate.wait_open(process_queue.queue)
            if not self.limits().is_exceeded(process_queue):
                return
            await self._wait_for_removal()

    async def _wait_for_removal(self) -> None:
        removed = trio.Event()
        self.process_queue.on_removed = removed.set
        await removed.wait()
        self.process_queue.on_removed = None

    async def _pause_after(self, failure: RocketpyError) -> None:
        if isinstance(failure, BrokerError) and failure.response_code == ResponseCode.FLOW_CONTROL:
            await trio.sleep(FLOW_CONTROL_SECONDS)
            return
        self._trouble.begin(failure)
        with trio.move_on_after(self.exception_pause_s):
            await self.owner.wait_known(failure)
