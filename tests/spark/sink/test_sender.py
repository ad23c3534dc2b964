"""Sends of a task with a client that is scripted: order in a queue, repeats, what is given up."""

from __future__ import annotations

from collections import deque
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.client import EncodedBatch, Message, MessageQueue, SendResult, SendStatus
from rocketpy.errors import BrokerError, ClientError, RemotingTimeoutError, RocketpyError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.spark.sink.pieces import Piece
from rocketpy.spark.sink.sender import PIECES_IN_FLIGHT_MAX, Sender, UnsentError

Outcome = RocketpyError | None
QUEUE = MessageQueue("T", "b", 1)


class ScriptedPending:
    def __init__(self, client: ScriptedClient, content: Any, outcome: Outcome) -> None:
        self._client, self._content, self._outcome = client, content, outcome

    def wait(self) -> SendResult:
        self._client.in_flight.remove(self._content)
        if self._outcome is not None:
            raise self._outcome
        return SendResult(SendStatus.SEND_OK, "k", "", QUEUE, 0, "r")


class ScriptedClient:
    """Both producers; ``outcomes`` are those of the sends in turn, then all are stored."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = deque(outcomes)
        self.sent: list[str] = []
        self.in_flight: list[Any] = []
        self.most_in_flight = 0
        self.pauses: list[float] = []

    def send_encoded(self, batch: EncodedBatch, *, queue: MessageQueue | None = None) -> ScriptedPending:
        return self._send(batch, queue)

    def send_soon(self, message: Message, *, queue: MessageQueue | None = None) -> ScriptedPending:
        return self._send(message, queue)

    def _send(self, content: Any, queue: MessageQueue | None) -> ScriptedPending:
        self.sent.append(content.body.decode())
        if queue is not None:
            assert not self.in_flight, "one at a time"
        self.in_flight.append(content)
        self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
        return ScriptedPending(self, content, self.outcomes.popleft() if self.outcomes else None)

    def sender(self, repeats: int = 3) -> Sender:
        both = cast("Any", self)
        return Sender(both, both, repeats=repeats, pause=self.pauses.append)


def piece(name: str, queue: MessageQueue | None = None) -> Piece:
    return Piece("T", queue, EncodedBatch("T", name.encode()), np.array([0]), 10)


def send_all(sender: Sender, *pieces: Piece) -> None:
    for each in pieces:
        sender.send(each, lambda failed: f"piece {failed.content.body.decode()}")
    sender.finish()


TIMEOUT = RemotingTimeoutError("no answer")
BUSY = BrokerError(ResponseCode.SYSTEM_BUSY, "busy", "b:1")
ILLEGAL = BrokerError(ResponseCode.MESSAGE_ILLEGAL, "illegal", "b:1")
NO_ACCOUNT = BrokerError(ResponseCode.SYSTEM_ERROR, "org.apache.rocketmq.acl.common.AclException: no", "b:1")
NO_ROUTE = ClientError(10005, "No route info of this topic: T")


def test_pieces_without_a_queue_are_on_the_way_together_within_a_bound() -> None:
    client = ScriptedClient()
    sender = client.sender()
    send_all(sender, *(piece(str(number)) for number in range(3 * PIECES_IN_FLIGHT_MAX)))
    assert client.most_in_flight == PIECES_IN_FLIGHT_MAX
    assert sender.counts.messages == 3 * PIECES_IN_FLIGHT_MAX


def test_a_piece_of_a_queue_waits_for_the_one_before_also_while_that_is_repeated() -> None:
    client = ScriptedClient(TIMEOUT, BUSY)
    sender = client.sender()
    send_all(sender, piece("1", QUEUE), piece("2", QUEUE))
    assert client.sent == ["1", "1", "1", "2"]
    assert client.pauses == [0.5, 1.0]
    assert (sender.counts.messages, sender.counts.repeated_requests) == (2, 2)


@pytest.mark.parametrize(
    ("outcomes", "attempts"),
    [([ILLEGAL], 1), ([NO_ACCOUNT], 1), ([TIMEOUT] * 4, 4), ([TIMEOUT, ILLEGAL], 2), ([NO_ROUTE], 1)],
)
def test_a_piece_is_given_up_after_a_refusal_that_is_final_or_the_last_repeat(
    outcomes: list[Outcome], attempts: int
) -> None:
    client = ScriptedClient(*outcomes)
    sender = client.sender()
    with pytest.raises(UnsentError, match="piece 1") as caught:
        send_all(sender, piece("1"))
    assert (caught.value.attempts, caught.value.__cause__) == (attempts, outcomes[-1])
    assert sender.counts.messages == 0


def test_a_topic_that_had_a_route_may_have_one_again() -> None:
    """The route of a broker that restarts is gone for a while."""
    client = ScriptedClient(None, NO_ROUTE)
    send_all(client.sender(), piece("1", QUEUE), piece("2", QUEUE))
    assert client.sent == ["1", "2", "2"]


def test_what_is_on_the_way_when_a_task_fails_is_waited_for_and_not_counted() -> None:
    client = ScriptedClient(ILLEGAL, None, TIMEOUT)
    sender = client.sender()
    with pytest.raises(UnsentError):
        send_all(sender, piece("1"), piece("2"), piece("3"))
    assert len(client.in_flight) == 2
    sender.abandon()
    assert client.in_flight == []
    assert sender.counts.messages == 0
