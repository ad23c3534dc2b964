"""State of one send: what travels, where to, how far its attempts have come. The rules are the pipeline's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Protocol

from rocketpy.client.hooks import SendMessageContext
from rocketpy.client.producer.pending_send import PendingSend
from rocketpy.client.producer.retry_rules import RetryRules
from rocketpy.client.producer.selectors import QueueSelector, select_queue
from rocketpy.client.producer.send_request import SendRequest
from rocketpy.client.results import SendResult
from rocketpy.errors import BrokerError, ClientError, RemotingError
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.message import MessageQueue
from rocketpy.remoting.connection import Connection


class AttemptOwner(Protocol):
    """Receiver of the results of attempts: the pipeline."""

    @property
    def signs_requests(self) -> bool:
        """Whether attempts have to be commands, not frames."""
        ...

    def sign(self, command: RemotingCommand, connection: Connection) -> None:
        """Sign the command of an attempt, which goes over a connection."""
        ...

    def answered(self, delivery: Delivery, response: RemotingCommand | None) -> None:
        """Take the answer to an attempt; None when its connection has ended."""
        ...

    def expired(self, delivery: Delivery) -> None:
        """Give up an attempt: its time is over."""
        ...

    def abandon(self, delivery: Delivery) -> None:
        """Forget a send."""
        ...


class Retries:
    """What a send keeps once its first attempt has not gone as it should."""

    __slots__ = ("extended_at_s", "paused_at", "pauses", "unsent")

    def __init__(self) -> None:
        self.unsent = 0
        """How many of the attempts never left, and do not count."""
        self.pauses = 0
        self.paused_at = 0
        """How many of ``brokers`` were tried before the last pause."""
        self.extended_at_s = 0.0
        """After so many seconds the attempt under way was given ``attempt_s`` more."""


class Delivery:
    """One send. ``queue`` is the caller's choice, ``selector`` chooses when the queues are known, else turns count."""

    __slots__ = (
        "address",
        "attempt_s",
        "attempts",
        "began",
        "brokers",
        "chosen",
        "connection",
        "context",
        "deadline",
        "failure",
        "hook_context",
        "is_async",
        "is_over",
        "is_refused",
        "is_waiting",
        "on_end",
        "opaque",
        "pending",
        "pipeline",
        "queue",
        "request",
        "retries",
        "rules",
        "selector",
        "stored",
    )

    pipeline: AttemptOwner

    def __init__(
        self,
        request: SendRequest,
        rules: RetryRules,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        is_async: bool = False,
        on_end: Callable[[Delivery], None] | None = None,
    ) -> None:
        self.request = request
        self.rules = rules
        self.queue = queue
        self.selector = selector
        self.is_async = is_async
        self.on_end = on_end
        self.pending = PendingSend()
        self.deadline = 0.0
        self.is_over = False
        """Whether the send has ended; attempts that wait are skipped."""
        self.brokers: list[str] = []
        """The broker of each attempt that got as far as choosing one."""
        self.attempts = 0
        self.retries: Retries | None = None
        """None while the first attempt has not failed: nearly every send has no other."""
        self.failure: BrokerError | RemotingError | ClientError | None = None
        self.is_refused = False
        """Whether the failure is a refusal after which no other broker is tried."""
        self.stored: SendResult | None = None
        # The attempt under way: it waits in a lane, or for an answer on a connection.
        self.attempt_s = 0.0
        self.began = 0.0
        self.is_waiting = False
        self.chosen: MessageQueue | None = None
        self.address = ""
        self.connection: Connection | None = None
        self.opaque = 0
        # For hooks: what they were shown of the attempt, and the context variables of the caller.
        self.hook_context: SendMessageContext | None = None
        self.context: Context | None = None

    def retrying(self) -> Retries:
        """Return what the send keeps of its retries."""
        if self.retries is None:
            self.retries = Retries()
        return self.retries

    @property
    def is_shared(self) -> bool:
        """Whether its messages were collected from many callers; ``send_batch``, which waits, has one."""
        return self.is_async and self.request.batch_messages is not None

    @property
    def is_attempting(self) -> bool:
        """Whether an attempt is under way: it waits in a lane, or for an answer."""
        return self.is_waiting or self.connection is not None

    def waits_in(self, attempt: int) -> bool:
        """Whether this attempt still waits in a lane."""
        return self.is_waiting and self.attempts == attempt

    def select(self, queues: Sequence[MessageQueue]) -> MessageQueue:
        """Return the queue that the selector chooses; ClientError when it fails, as in Java.

        The selector is shown the topic as its program knows it, without the namespace.
        """
        assert self.selector is not None
        topic = self.request.message.topic
        if topic != self.request.topic:
            queues = [MessageQueue(topic, each.broker_name, each.queue_id) for each in queues]
        selected = select_queue(self.selector, queues, self.request.message)
        if topic != self.request.topic:
            return MessageQueue(self.request.topic, selected.broker_name, selected.queue_id)
        return selected

    # ---- PendingResponse and Expiring -----------------------------------------------------------------------------

    def encode(self, opaque: int) -> bytes:
        """Return the frame of the attempt."""
        assert self.chosen is not None
        if not self.pipeline.signs_requests:
            return self.request.frame(self.chosen, opaque)
        command = self.request.command(self.chosen)
        assert self.connection is not None, "it asks for the frame"
        self.pipeline.sign(command, self.connection)
        command.opaque = opaque
        return encode_frame(command)

    def complete(self, response: RemotingCommand | None) -> None:
        """Take the answer."""
        self.pipeline.answered(self, response)

    def expire(self) -> None:
        """Give up the attempt."""
        self.pipeline.expired(self)

    # ---- Begun ----------------------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether the result, or a failure, is known."""
        return self.pending.is_done

    def result(self) -> SendResult:
        """Return the result, or raise the failure."""
        return self.pending.result()

    def on_done(self, function: Callable[[], object]) -> None:
        """Call a function once the send has ended."""
        self.pending.on_done(function)

    def abandon(self) -> None:
        """Forget the send: it is not tried again."""
        if not self.is_over:
            self.pipeline.abandon(self)
