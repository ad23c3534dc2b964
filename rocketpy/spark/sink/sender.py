"""Sends the pieces of one task through the blocking client: pipelined, bounded, repeated after a failure.

Pieces without a queue of their own are on the way together, to whatever brokers the producer chooses, which also tries
another broker where there is one. Of pieces with a chosen queue one is on the way at a time: they stay in order also
when one has to be repeated, and at Java's brokers, which store with several threads. Different queues go in parallel.

A piece that fails is repeated after a pause, to the same queue if it has one: a broker that restarts costs the task
some seconds, not its life. A repeated piece may be stored twice, with the same keys.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress

import attrs

from rocketpy.client import EncodedBatch, MessageQueue, SendResult
from rocketpy.client.blocking import BatchingProducer, PendingSend, Producer
from rocketpy.client.producer.config import RETRY_RESPONSE_CODES
from rocketpy.errors import BrokerError, ClientError, ClientErrorCode, RemotingError, RocketpyError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.spark.sink.pieces import Piece
from rocketpy.spark.sink.report import StoredCounts

PIECES_IN_FLIGHT_MAX = 64
PAUSE_S = 0.5
PAUSE_MAX_S = 8.0
ACL_REFUSAL = "AclException"
"""Brokers refuse an account with SYSTEM_ERROR, which otherwise may pass, and this name in the remark."""

_RETRIED_REFUSALS = RETRY_RESPONSE_CODES | {ResponseCode.SYSTEM_BUSY}
_RETRIED_CLIENT_ERRORS = frozenset(
    (ClientErrorCode.BROKER_NOT_EXIST_EXCEPTION, ClientErrorCode.NOT_FOUND_TOPIC_EXCEPTION)
)


@attrs.frozen(eq=False)
class _Sent:
    piece: Piece
    describe: Callable[[Piece], str]
    pending: PendingSend


class UnsentError(Exception):
    """A piece was given up; the cause is what the client said."""

    def __init__(self, sent_as: str, attempts: int) -> None:
        super().__init__(sent_as)
        self.sent_as = sent_as
        self.attempts = attempts


class Sender:
    """Sends what one task has. ``pause`` sleeps for so many seconds."""

    def __init__(
        self,
        producer: Producer,
        batches: BatchingProducer,
        *,
        repeats: int,
        pause: Callable[[float], None],
    ) -> None:
        self._producer = producer
        self._batches = batches
        self._repeats = repeats
        self._pause = pause
        self._in_flight: deque[_Sent] = deque()
        self._of_queue: dict[MessageQueue, _Sent] = {}
        self._known_topics: set[str] = set()
        self.counts = StoredCounts()
        """What brokers have acknowledged."""

    def send(self, piece: Piece, describe: Callable[[Piece], str]) -> None:
        """Send a piece, perhaps after waiting for earlier ones; raises UnsentError for one of those, or for it."""
        if piece.queue is not None:
            self._settle_queue(piece.queue)
        while len(self._in_flight) >= PIECES_IN_FLIGHT_MAX:
            self._settle(self._in_flight[0])
        try:
            sent = _Sent(piece, describe, self._start(piece))
        except (BrokerError, ClientError, RemotingError) as failure:
            self._repeat(piece, describe, failure)
            return
        self._in_flight.append(sent)
        if piece.queue is not None:
            self._of_queue[piece.queue] = sent

    def finish(self) -> StoredCounts:
        """Wait until everything is acknowledged; raises UnsentError."""
        while self._in_flight:
            self._settle(self._in_flight[0])
        return self.counts

    def abandon(self) -> None:
        """Wait for what is on the way without regard to its outcome: the task has failed already."""
        for sent in self._in_flight:
            with suppress(BrokerError, ClientError, RemotingError):
                sent.pending.wait()
        self._in_flight.clear()
        self._of_queue.clear()

    # ---- private --------------------------------------------------------------------------------------------------

    def _start(self, piece: Piece) -> PendingSend:
        content = piece.content
        if isinstance(content, EncodedBatch):
            return self._batches.send_encoded(content, queue=piece.queue)
        return self._producer.send_soon(content, queue=piece.queue)

    def _settle_queue(self, queue: MessageQueue) -> None:
        sent = self._of_queue.get(queue)
        if sent is not None:
            self._settle(sent)

    def _settle(self, sent: _Sent) -> None:
        """Wait for the answer to a piece."""
        self._in_flight.remove(sent)  # nearly always the first
        if sent.piece.queue is not None:
            del self._of_queue[sent.piece.queue]
        try:
            result = sent.pending.wait()
        except (BrokerError, ClientError, RemotingError) as failure:
            self._repeat(sent.piece, sent.describe, failure)
        else:
            self._note(sent.piece, result)

    def _repeat(self, piece: Piece, describe: Callable[[Piece], str], failure: RocketpyError) -> None:
        """Send a piece that has failed again and again, as often as is allowed."""
        attempts = 1
        while attempts <= self._repeats and self._may_pass(piece, failure):
            self._pause(min(PAUSE_S * 2 ** (attempts - 1), PAUSE_MAX_S))
            attempts += 1
            self.counts.repeated_requests += 1
            try:
                result = self._start(piece).wait()
            except (BrokerError, ClientError, RemotingError) as again:
                failure = again
            else:
                self._note(piece, result)
                return
        raise UnsentError(describe(piece), attempts) from failure

    def _may_pass(self, piece: Piece, failure: RocketpyError) -> bool:
        """Whether a failure may be over soon. A topic without a route may have one again if it had one."""
        if isinstance(failure, BrokerError):
            if ACL_REFUSAL in (failure.remark or ""):
                return False
            return failure.response_code in _RETRIED_REFUSALS
        if isinstance(failure, ClientError):
            return failure.response_code in _RETRIED_CLIENT_ERRORS and piece.topic in self._known_topics
        return True

    def _note(self, piece: Piece, result: SendResult) -> None:
        self._known_topics.add(piece.topic)
        self.counts.note(result, piece.count, piece.size)
