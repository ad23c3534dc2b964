"""Pulls of one piece of a queue over one connection, several in flight.

The offsets of a piece are known, so pulls of the next ones are sent before the answer to the first is there::

    offsets       100      132      164      196
    in flight      |--pull--|--pull--|--pull--|          each asks for one stride
    answers        |---ok---|-short|                     the rest of a short one is pulled next, before the others

How many messages an answer has is the broker's to say (a count and a number of bytes), so the stride is learned: what
the first answer had, less after a short one, and now and then a try with more. A broker that filters decides how far
an answer goes; there one pull is in flight.

Rule: bodies come in the order of the queue, and their records cover the piece without a gap and without an overlap,
except for messages that the broker has deleted or does not choose.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import attrs

from rocketpy.errors import BrokerError, ClientError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketpy.protocol.sysflag import PULL_SUBSCRIPTION_FLAG
from rocketpy.spark.live.cluster import read_answer
from rocketpy.spark.live.parts import QueueSpan
from rocketpy.spark.live.positions import name_of
from rocketpy.spark.live.remoting import BlockingRemotingClient
from rocketpy.spark.live.settings import PullSettings

PULLS_IN_FLIGHT_MAX = 16
FRUITLESS_PULLS_MAX = 100
REMOVED_REMARK = "MESSAGE_WAS_REMOVING"
"""Of an answer without messages, because the file of those that were asked for is deleted."""
TRY_MORE_AFTER = 32
"""Full answers in a row, after which a pull asks for twice as many messages."""


class LaggingReplicaError(Exception):
    """A slave that does not have the piece: it has not followed its master so far, or has begun with later messages."""


@attrs.define(eq=False)
class Stride:
    """How many messages to ask for in one pull; None until the first answer has shown it."""

    most: int
    size: int | None = None
    _full: int = attrs.field(default=0, init=False)  # answers in a row
    _try_more_after: int = attrs.field(default=TRY_MORE_AFTER, init=False)

    def next_size(self) -> int:
        """Return how many messages the next pull asks for."""
        if self.size is None:
            return self.most
        if self._full >= self._try_more_after and self.size < self.most:
            self._full = 0
            self._try_more_after *= 2  # a broker's limit seldom changes
            return min(self.size * 2, self.most)
        return self.size

    def note(self, asked: int, answered: int) -> None:
        """Learn from an answer that had so many messages."""
        if answered < asked:
            self.size, self._full = max(1, answered), 0
        else:
            self.size = max(self.size or 1, answered)
            self._full += 1


@attrs.frozen
class _Flight:
    opaque: int
    start: int
    end: int


class PieceReader:
    """Reads one piece. ``position`` is up to date when a body is yielded: past its last message."""

    def __init__(
        self, client: BlockingRemotingClient, span: QueueSpan, settings: PullSettings, *, position: int, is_slave: bool
    ) -> None:
        self.position = position
        self._client = client
        self._span = span
        self._settings = settings
        self._is_slave = is_slave
        self._flights: deque[_Flight] = deque()
        self._stride = Stride(settings.batch_size)
        self._fruitless = 0

    @property
    def is_idle(self) -> bool:
        """Whether no answer is on its way: a jump past the end of the piece leaves pulls behind."""
        return not self._flights

    def bodies(self) -> Iterator[bytes]:
        """Yield the bodies of the answers: records one after another, maybe some from beyond the end of the piece.

        ``RemotingError`` and ``RemoteProtocolError`` of the connection; :class:`LaggingReplicaError` of a slave;
        ``BrokerError`` for a refusal; ``ClientError`` if messages are gone.
        """
        while self.position < self._span.end:
            self._send_ahead()
            flight = self._flights.popleft()
            answer = self._client.receive(flight.opaque)
            if flight.end <= self.position:
                continue  # the broker has jumped over it
            if flight.start < self.position:  # or into it
                self._repeat_from(self.position, flight)
                continue
            body = self._take(answer, flight)
            if body:
                yield body

    def _send_ahead(self) -> None:
        """Send pulls from where the last one ends, as far as may be in flight; at least one is, afterwards."""
        is_one_by_one = self._stride.size is None or not self._settings.expression.is_everything
        in_flight_max = 1 if is_one_by_one else PULLS_IN_FLIGHT_MAX
        ahead = self._flights[-1].end if self._flights else self.position
        while ahead < self._span.end and len(self._flights) < in_flight_max:
            end = min(ahead + self._stride.next_size(), self._span.end)
            self._flights.append(self._pull(ahead, end))
            ahead = end

    def _repeat_from(self, start: int, flight: _Flight) -> None:
        """Pull the rest of what a pull asked for, before what is pulled already; without later pulls it comes next.

        The rest may be several strides, if these have become shorter; each gets its answer before the next is sent.
        """
        if self._flights:
            self._flights.appendleft(self._pull(start, flight.end))

    def _pull(self, start: int, end: int) -> _Flight:
        expression = self._settings.expression
        header = PullMessageRequestHeader(
            consumer_group=self._settings.consumer_group,
            topic=self._span.queue.topic,
            queue_id=self._span.queue.queue_id,
            queue_offset=start,
            max_msg_nums=end - start,
            sys_flag=PULL_SUBSCRIPTION_FLAG,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=expression.text,
            sub_version=0,
            expression_type=expression.kind,
        )
        return _Flight(self._client.send(RequestCode.PULL_MESSAGE, header), start, end)

    def _take(self, answer: RemotingCommand, flight: _Flight) -> bytes | None:
        """Return the body of an answer and go on to the next position; see :meth:`bodies` for errors."""
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            self._jump(answer, flight)
            return None
        if answer.code not in (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
        ):
            raise self._refusal(answer)
        header = self._header(answer)
        following = header.next_begin_offset
        if following <= flight.start:
            self._fruitless += 1
            if self._is_slave and not header.min_offset <= flight.start < header.max_offset:
                raise LaggingReplicaError(
                    f"{self._client.address} has of {name_of(self._span.queue)} only offsets {header.min_offset} to "
                    f"{header.max_offset - 1}"
                )
            if self._fruitless == FRUITLESS_PULLS_MAX:
                raise ClientError(
                    answer.code,
                    f"no progress at {self._where}, broker {self._client.address} has offsets {header.min_offset} to "
                    f"{header.max_offset - 1}: {answer.remark}",
                )
            self._repeat_from(flight.start, flight)
            return None
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and answer.remark == REMOVED_REMARK:
            self._jump(answer, flight)
            return None
        self._fruitless = 0
        if answer.code == ResponseCode.SUCCESS and self._settings.expression.is_everything:
            self._stride.note(flight.end - flight.start, following - flight.start)
        self.position = following
        if following < flight.end:
            self._repeat_from(following, flight)
        return answer.body if answer.code == ResponseCode.SUCCESS else None

    def _jump(self, answer: RemotingCommand, flight: _Flight) -> None:
        """Go on where the broker has messages, if the user accepts that those before are gone."""
        if self._is_slave:
            raise LaggingReplicaError(f"{self._client.address} has not yet, or no longer, {self._where}")
        moved_to = self._header(answer).next_begin_offset
        if self._settings.fail_on_data_loss:
            raise ClientError(
                answer.code,
                f"messages from {self._where} are no longer there, the broker goes on at {moved_to}: they were deleted "
                "after the read was planned (failOnDataLoss=false reads what is left)",
            )
        self.position = moved_to if moved_to > self.position else self._span.end
        if self.position < flight.end:
            self._repeat_from(self.position, flight)

    def _refusal(self, answer: RemotingCommand) -> Exception:
        if answer.code == ResponseCode.TOPIC_NOT_EXIST and self._is_slave:  # it asks for the table now and then
            return LaggingReplicaError(f"{self._client.address} does not know topic {self._span.queue.topic} yet")
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return ClientError(answer.code, f"{self._where}: the topic was deleted after the read was planned")
        return BrokerError(answer.code, f"pull of {self._where}: {answer.remark}", self._client.address)

    def _header(self, answer: RemotingCommand) -> PullMessageResponseHeader:
        return read_answer(answer, PullMessageResponseHeader, self._client.address)

    @property
    def _where(self) -> str:
        return f"{name_of(self._span.queue)} offset {self.position}"
