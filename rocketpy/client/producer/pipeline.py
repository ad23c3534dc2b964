"""Sends under way: each leaves as soon as its broker is known and connected, and is tried again if that fails.

Nothing here waits for an answer. An attempt ends by a call: of the connection, with the answer or without one, or of
the timer. So a send costs no task, and thousands may be under way at once.

Rule: attempts that are begun in some order, for one queue, leave in that order over one connection. What cannot leave
at once waits in a *lane*, and what comes later for the same topic (while its route is unknown, or a large body is being
compressed) or the same broker (while its connection is opened) waits until it has left. If the look-up or the
connection fails, all that wait in the lane fail with it. A repeated attempt is a new one: it has lost its position.
"""

from __future__ import annotations

from contextvars import copy_context
from copy import copy
from functools import partial

import trio

from rocketpy.client.instance import ClientInstance
from rocketpy.client.producer.attempt_hooks import AttemptHooks
from rocketpy.client.producer.delivery import Delivery
from rocketpy.client.producer.lanes import Lane, Lanes
from rocketpy.client.producer.queue_choice import QueueChoice
from rocketpy.client.producer.send_answer import read_send_result, stored_status
from rocketpy.client.results import SendResult, SendStatus
from rocketpy.client.route_finder import TopicTemplate
from rocketpy.client.services.timeouts import Timeouts
from rocketpy.client.validators import UNSPECIFIED
from rocketpy.errors import (
    BrokerError,
    ClientError,
    LocalProtocolError,
    NoBrokerError,
    RemoteProtocolError,
    RemotingConnectError,
    RemotingError,
    RemotingSendRequestError,
    RemotingTimeoutError,
    RemotingTooMuchRequestError,
)
from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.arrivals import let_readers_read
from rocketpy.remoting.connection import Connection

CONNECT_SECONDS = 3.0
"""Patience of a lane with its broker, Java's ``connectTimeoutMillis``; the sends in it have deadlines of their own."""

SHOWN_BROKERS = 20
"""How many brokers the note of a failure names."""
SHORTEST_PAUSE_SECONDS = 0.05
"""Before its deadline a send ends rather than pause for less."""


class Pipeline:
    """The sends under way of one producer."""

    def __init__(
        self,
        *,
        instance: ClientInstance,
        template: TopicTemplate,
        choice: QueueChoice,
        timeouts: Timeouts,
        hooks: AttemptHooks | None,
        nursery: trio.Nursery,
    ) -> None:
        self._instance = instance
        self._routes = instance.routes
        self._remoting = instance.remoting
        self._template = template
        self._choice = choice
        self._timeouts = timeouts
        self._hooks = hooks
        self._start_soon = partial(instance.home.start_soon, nursery)
        self._under_way: dict[Delivery, None] = {}
        self._topic_lanes = Lanes(self._start_soon, self._serve_topic_lane)
        self._broker_lanes = Lanes(self._start_soon, self._serve_broker_lane)
        self._expired: list[tuple[Delivery, int]] = []  # attempts whose time is over, with their numbers
        self._is_closed = False

    @property
    def signs_requests(self) -> bool:
        """Whether attempts have to be commands, not frames."""
        return self._remoting.signs_requests

    def sign(self, command: RemotingCommand, connection: Connection) -> None:
        """Sign the command of an attempt, which goes over a connection."""
        self._remoting.sign(command, connection)

    def start(self, delivery: Delivery) -> None:
        """Begin a send; ``delivery.pending`` gets its result. ClientError when the producer is closed."""
        if self._is_closed:
            raise ClientError(UNSPECIFIED, "The producer service state not OK, SHUTDOWN_ALREADY")
        delivery.pipeline = self
        if self._hooks is not None:
            delivery.context = self._instance.home.context() if delivery.is_shared else copy_context()
        now = trio.current_time()
        delivery.deadline = now + delivery.rules.timeout_s
        self._under_way[delivery] = None
        self._attempt(delivery, now)

    def abandon(self, delivery: Delivery) -> None:
        """Forget a send: nothing waits for its result any more, and it is not tried again."""
        if delivery in self._under_way:
            self._break_off(delivery, "the send was cancelled before an answer came")
            del self._under_way[delivery]
            delivery.is_over = True

    def close(self) -> None:
        """Fail every send under way, and refuse new ones."""
        self._is_closed = True
        for delivery in list(self._under_way):
            self._fail(delivery, self._break_off(delivery, "the producer was closed before an answer came"))

    def _break_off(self, delivery: Delivery, reason: str) -> RemotingSendRequestError:
        """End the attempt that is under way, if there is one; return the failure that hooks were shown."""
        failure, is_attempting = RemotingSendRequestError(reason), delivery.is_attempting
        self._leave(delivery)
        if is_attempting and self._hooks is not None:
            self._hooks.after(delivery, failure=failure)
        return failure

    # ---- called by a delivery -------------------------------------------------------------------------------------

    def answered(self, delivery: Delivery, response: RemotingCommand | None) -> None:
        """Take the answer to an attempt; None when its connection has ended."""
        connection = delivery.connection
        assert connection is not None
        self._leave(delivery)
        if response is None:
            peer = connection.peer
            self._failed(delivery, RemotingSendRequestError(f"the connection to {peer} ended before it answered"))
            return
        status = stored_status(response)
        if status is None:
            # Not raised: a traceback would keep the send alive, and with it the failure that nothing asks for.
            self._failed(delivery, BrokerError(response.code, response.remark, delivery.address))
            return
        try:
            result = read_send_result(delivery, status, response)
        except RemoteProtocolError as failure:
            self._give_up(delivery, failure)
        else:
            self._stored(delivery, result)

    def expired(self, delivery: Delivery) -> None:
        """Give up an attempt: its time is over. While no other broker can be tried it goes on, as long as the send."""
        now = trio.current_time()
        remaining = delivery.deadline - now
        if remaining > 0 and delivery.rules.attempt_timeout_s is None and not self._has_another_broker(delivery):
            delivery.retrying().extended_at_s = now - delivery.began
            delivery.attempt_s = remaining
            self._timeouts.start(delivery, remaining)
            return
        if delivery.connection is None:
            where = self._waits_for(delivery)
            self._leave(delivery)
            self._failed(delivery, RemotingConnectError(f"{where} in {now - delivery.began:.3g} s"))
            return
        self._expired.append((delivery, delivery.attempts))
        if len(self._expired) == 1:
            self._start_soon(self._give_up_expired)

    def _waits_for(self, delivery: Delivery) -> str:
        """Say what keeps an attempt in a lane: nothing of it has left."""
        topic = delivery.request.topic
        if delivery.chosen is not None:
            broker = delivery.chosen.broker_name
            return f"no connection to {broker} ({self._routes.table.publish_address(broker) or 'address unknown'})"
        if delivery.request.needs_thread:
            return f"the body of a message to {topic} was not compressed"
        return f"no route of {topic}: no answer from {', '.join(self._instance.name_servers.addresses)}"

    async def _give_up_expired(self) -> None:
        """Give up the attempts whose time is over, except those whose answers are here and only have to be read."""
        connections = {delivery.connection for delivery, _ in self._expired}
        await let_readers_read(
            self._has_none_expired,
            lambda: sum(each.frames_received for each in connections if each is not None),
        )
        expired, self._expired = self._expired, []
        now = trio.current_time()
        for delivery, attempt in expired:
            if not self._is_expired((delivery, attempt)):  # the end of a shared connection was the end of it
                continue
            connection = delivery.connection
            assert connection is not None
            extended_at_s = 0.0 if delivery.retries is None else delivery.retries.extended_at_s
            due = delivery.began + extended_at_s + delivery.attempt_s
            self._leave(delivery)
            text = f"no answer from {connection.peer} to request code {delivery.request.code}"
            self._failed(delivery, RemotingTimeoutError(f"{text} in {now - delivery.began:.3g} s"))
            self._remoting.note_timeout(connection, due)

    def _has_none_expired(self) -> bool:
        while self._expired and not self._is_expired(self._expired[-1]):
            self._expired.pop()
        return not self._expired

    def _is_expired(self, waiting: tuple[Delivery, int]) -> bool:
        """Whether an attempt still waits for its answer."""
        delivery, attempt = waiting
        return delivery.connection is not None and delivery.attempts == attempt

    def _has_another_broker(self, delivery: Delivery) -> bool:
        """Whether the next attempt may go to another broker; a route that is not known yet has none."""
        queues = self._routes.table.publish_queues(delivery.request.topic)
        return bool(queues) and queues[0].broker_name != queues[-1].broker_name

    # ---- one attempt ----------------------------------------------------------------------------------------------

    def _attempt(self, delivery: Delivery, now: float) -> None:
        """Begin the next attempt; it fails at once when no time is left."""
        remaining = delivery.deadline - now
        if remaining <= 0:
            self._end(delivery)
            return
        retries = delivery.retries
        seconds = (
            delivery.rules.attempt_s(0, delivery.rules.timeout_s)
            if retries is None
            else delivery.rules.attempt_s(delivery.attempts - retries.unsent, remaining)
        )
        delivery.attempts += 1
        delivery.attempt_s = seconds
        delivery.began = now
        delivery.is_waiting = True
        self._timeouts.start(delivery, seconds)
        topic = delivery.request.topic
        lane = self._topic_lanes.get(topic)
        if lane is not None:
            lane.add(delivery)
        elif delivery.request.needs_thread or not self._dispatch(delivery):
            self._topic_lanes.open(topic, delivery)

    def _dispatch(self, delivery: Delivery) -> bool:
        """Choose the queue and send, or wait for the broker's connection; False when the route is not known."""
        queue = delivery.queue
        if queue is None:
            topic = delivery.request.topic
            queues = self._routes.table.publish_queues(topic)
            if not queues:
                return False
            try:
                queue = (
                    delivery.select(queues)
                    if delivery.selector
                    else self._choice.choose(topic, queues, delivery.brokers[-1] if delivery.brokers else None)
                )
            except ClientError as failure:
                self._leave(delivery)
                self._give_up(delivery, failure)
                return True
        delivery.chosen = queue
        broker = queue.broker_name
        delivery.brokers.append(broker)
        lane = self._broker_lanes.get(broker)
        if lane is not None:
            lane.add(delivery)
            return True
        address = self._routes.table.publish_address(broker)
        if address is not None:
            address = self._instance.broker_port_of(address)
            connection = self._remoting.connection(address)
            if connection is not None and not connection.is_closed:
                self._put_on_wire(delivery, address, connection)
                return True
        self._broker_lanes.open(broker, delivery)
        return True

    def _put_on_wire(self, delivery: Delivery, address: str, connection: Connection) -> None:
        delivery.address = address
        delivery.connection, delivery.opaque = connection, -1  # its frame is signed for the peer
        try:
            if self._hooks is not None:
                self._hooks.before(delivery)
            delivery.opaque = connection.request_nowait(delivery)
        except RemotingError as failure:
            self._leave(delivery)
            self._failed(delivery, failure)
        except (ClientError, LocalProtocolError) as failure:
            self._leave(delivery)
            if delivery.hook_context is None:  # it was forbidden, which no hook is shown
                self._fail(delivery, failure)
            else:
                self._give_up(delivery, failure)
        else:
            delivery.is_waiting = False

    def _leave(self, delivery: Delivery) -> None:
        """End an attempt, wherever it is: no answer, deadline or lane counts for it any more."""
        self._timeouts.stop(delivery, delivery.attempt_s)
        if delivery.connection is not None:
            delivery.connection.forget(delivery.opaque)
            delivery.connection = None
        delivery.is_waiting = False

    # ---- the end of an attempt ------------------------------------------------------------------------------------

    def _stored(self, delivery: Delivery, result: SendResult) -> None:
        self._note_answer(delivery, result=result)
        delivery.stored = result
        rules = delivery.rules
        if result.status is SendStatus.SEND_OK or not rules.retry_not_store_ok or delivery.attempts >= rules.attempts:
            self._end(delivery)
        else:
            self._start_soon(self._attempt_again, delivery)

    def _failed(self, delivery: Delivery, failure: BrokerError | RemotingError | ClientError) -> None:
        """Note the failure of an attempt; begin another one, if there may be one."""
        retries = delivery.retrying()
        self._note_answer(delivery, failure=failure)
        delivery.failure = failure
        if isinstance(failure, BrokerError):
            is_last = failure.response_code not in delivery.rules.retry_codes
            delivery.is_refused = is_last
        else:
            self._instance.request_route_refresh()
            is_last = False
            if isinstance(failure, RemotingConnectError | NoBrokerError) and not delivery.rules.counts_unsent:
                retries.unsent += 1
        if is_last or delivery.attempts - retries.unsent >= delivery.rules.attempts:
            self._end(delivery)
            return
        pause_s = 0.0 if self._has_untried_broker(delivery) else self._next_pause(delivery)
        if pause_s is None:
            self._end(delivery)
        else:
            # In a task: this may be called while a connection ends, and no send leads to another one.
            self._start_soon(self._attempt_again, delivery, pause_s)

    def _has_untried_broker(self, delivery: Delivery) -> bool:
        """Whether another broker is left to try before the next pause."""
        if not self._has_another_broker(delivery):
            return False
        brokers = {queue.broker_name for queue in self._routes.table.publish_queues(delivery.request.topic)}
        tried = delivery.brokers[delivery.retrying().paused_at :]
        # Some are tried twice before others: only the last one is left out of the choice.
        return not brokers.issubset(tried) and len(tried) < 2 * len(brokers)

    def _next_pause(self, delivery: Delivery) -> float | None:
        """Return the seconds until the next attempt, None when too little time is left."""
        if not delivery.rules.longest_pause_s:
            return 0.0
        now = trio.current_time()
        half = (delivery.deadline - now) / 2
        if half < SHORTEST_PAUSE_SECONDS:
            return None
        retries = delivery.retrying()
        pause = delivery.rules.pause_s(retries.pauses, self._instance.randomness)
        retries.pauses += 1
        retries.paused_at = len(delivery.brokers)
        return min(max(0.0, pause - (now - delivery.began)), half)

    async def _attempt_again(self, delivery: Delivery, pause_s: float = 0.0) -> None:
        if pause_s:
            await trio.sleep(pause_s)
        if not delivery.is_over:
            delivery.chosen, delivery.address = None, ""
            delivery.retrying().extended_at_s = 0.0
            self._attempt(delivery, trio.current_time())

    def _note_answer(
        self, delivery: Delivery, *, result: SendResult | None = None, failure: Exception | None = None
    ) -> None:
        if self._choice.tracks_health and delivery.chosen is not None:
            latency_s = trio.current_time() - delivery.began
            self._choice.note_answer(delivery.chosen.broker_name, latency_s, isolation=failure is not None)
        if self._hooks is not None:
            self._hooks.after(delivery, result, failure)

    def _end(self, delivery: Delivery) -> None:
        """Set the result of a send that has had its last attempt."""
        if delivery.stored is not None:
            self._forget(delivery)
            delivery.pending.succeed(delivery.stored)
            return
        topic, failure, brokers = delivery.request.topic, delivery.failure, delivery.brokers
        if failure is None:
            seconds = delivery.rules.timeout_s
            failure = RemotingTooMuchRequestError(
                f"sendDefaultImpl call timeout: sending to {topic} was given no time ({seconds:g} s)"
            )
        elif not delivery.is_refused or delivery.attempts > 1:
            more = f" and {len(brokers) - SHOWN_BROKERS} more" if len(brokers) > SHOWN_BROKERS else ""
            names = ", ".join(map(str, brokers[:SHOWN_BROKERS]))  # a program may have chosen anything
            failure.add_note(f"sent {delivery.attempts} times to topic {topic}, brokers: {names}{more}")
        self._fail(delivery, failure)

    def _give_up(self, delivery: Delivery, failure: Exception) -> None:
        """Fail a send whose attempt has ended with a failure after which there is no other."""
        self._note_answer(delivery, failure=failure)
        self._fail(delivery, failure)

    def _fail(self, delivery: Delivery, failure: Exception) -> None:
        self._forget(delivery)
        delivery.pending.fail(failure, delivery.request.topic)

    def _forget(self, delivery: Delivery) -> None:
        del self._under_way[delivery]
        delivery.is_over = True
        if delivery.on_end is not None:
            delivery.on_end(delivery)

    # ---- lanes ----------------------------------------------------------------------------------------------------

    async def _serve_topic_lane(self, lane: Lane) -> None:
        """Send what waits for the route of a topic, or for the compression of a body before it."""
        while (delivery := lane.first()) is not None:
            try:
                if delivery.queue is None:
                    await self._routes.publish_queues(lane.name, self._template)
                if delivery.request.needs_thread:
                    await delivery.request.compress_in_thread()
            except (ClientError, BrokerError, RemotingError, RemoteProtocolError) as failure:
                for each in lane.take_all():
                    self._leave(each)
                    self._give_up(each, failure)
                continue
            except LocalProtocolError as failure:
                if lane.take_first():
                    self._leave(delivery)
                    self._give_up(delivery, failure)
                continue
            if lane.take_first():
                self._dispatch(delivery)

    async def _serve_broker_lane(self, lane: Lane) -> None:
        """Connect to a broker, and send what waits for that."""
        while (delivery := lane.first()) is not None:
            assert delivery.chosen is not None
            address = ""
            try:
                address = self._instance.broker_port_of(await self._routes.publish_address(delivery.chosen))
                connection = await self._remoting.connect(address, CONNECT_SECONDS)
            except (ClientError, BrokerError, RemotingError, RemoteProtocolError) as failure:
                for each in lane.take_all():
                    each.address = address
                    self._leave(each)
                    self._failed(each, _again(failure))
                continue
            while (following := lane.first()) is not None and not connection.is_closed:
                lane.take_first()
                self._put_on_wire(following, address, connection)


def _again(failure: Exception) -> ClientError | BrokerError | RemotingError:
    """Return an exception of its own for each send that failed for the same reason: each gets its own note."""
    if not isinstance(failure, RemotingError | ClientError | BrokerError):
        return RemotingConnectError(str(failure))
    again = copy(failure)
    again.__cause__ = failure.__cause__
    return again
