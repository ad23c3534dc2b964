"""Hooks of a client: to observe what it sends and consumes, to forbid sends, to add properties, to filter.

A hook is any object with the methods of one of these protocols. They are called on the event loop and must not block.
What a hook raises is logged and changes nothing, except that what a :class:`CheckForbiddenHook` raises refuses the
attempt and reaches the sender. Without hooks nothing is paid for them.

Hooks of a send run in the context variables (:mod:`contextvars`) of the call that has begun it, in a copy of them for
each send: what a hook sets before an attempt it finds after it. Messages that :meth:`Producer.batching` has collected
have many callers: their hooks run in the context in which the client was opened.

Groups in contexts have their namespace, as in Java; topics of messages and queues have not.

Compatibility: ``SendMessageHook``, ``CheckForbiddenHook``, ``EndTransactionHook``, ``ConsumeMessageHook``,
``FilterMessageHook`` and their contexts (4.9.8). A context of a send has the caller's own message: it must not be
changed. Hooks in Java change it to add properties, for which there is :class:`PropertiesHook` here.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from rocketpy.client.results import LocalTransactionState, SendResult
from rocketpy.protocol.message import Message, MessageExt, MessageQueue


class CommunicationMode(enum.Enum):
    """How a send learns of its result."""

    SYNC = "SYNC"
    ASYNC = "ASYNC"
    ONEWAY = "ONEWAY"


class MessageType(enum.IntEnum):
    """Kinds of messages, as traces number them."""

    NORMAL_MSG = 0
    TRANS_MSG_HALF = 1
    TRANS_MSG_COMMIT = 2
    DELAY_MSG = 3


@attrs.define(eq=False, kw_only=True)
class SendMessageContext:
    """One attempt; ``send_result`` and ``exception`` are set before ``send_message_after``, if there is one."""

    producer_group: str
    messages: Sequence[Message]
    """More than one in a batch, with their own properties (UNIQ_KEY)."""
    message_queue: MessageQueue
    """Without a route its broker has no name, and its queue id is -1."""
    broker_address: str
    """Empty while it is not known."""
    communication_mode: CommunicationMode
    message_type: MessageType
    body_size: int
    """Bytes, as they travel."""
    born_host: str
    begin_timestamp_ms: int
    send_result: SendResult | None = None
    exception: Exception | None = None
    trace_context: object = None
    """Free for the hook that sets it."""


class SendMessageHook(Protocol):
    """Observes sends."""

    @property
    def hook_name(self) -> str:
        """Its name, for the log."""
        ...

    def send_message_before(self, context: SendMessageContext) -> None:
        """Called before an attempt leaves, or before the report of one that could not: no route, no connection."""
        ...

    def send_message_after(self, context: SendMessageContext) -> None:
        """Called with the outcome of the attempt, once for each that was announced; of a oneway send once it has left.

        A send that is cancelled, or whose producer is closed, has a RemotingSendRequestError: it may be stored.
        """
        ...


class PropertiesHook(Protocol):
    """Adds properties to messages before they are sent."""

    @property
    def hook_name(self) -> str:
        """Its name, for the log."""
        ...

    def properties_of(self, message: Message) -> Mapping[str, str]:
        """Return the properties to add; they take the place of the message's own of the same names.

        Called once for each message when its send begins, with a copy of it; those of an :class:`EncodedBatch` are not
        shown. Reserved names (``KEYS``, ``TAGS``) are refused: nothing of what the hook returned is added then.
        """
        ...


class CheckForbiddenHook(Protocol):
    """Refuses sends."""

    @property
    def hook_name(self) -> str:
        """Its name, for the log."""
        ...

    def check_forbidden(self, context: SendMessageContext) -> None:
        """Raise ClientError to refuse the attempt; there is no other."""
        ...


@attrs.frozen(kw_only=True)
class EndTransactionContext:
    """The verdict on a transaction that is about to be sent."""

    producer_group: str
    message: Message | MessageExt
    """The caller's message; in answer to a check the half message that the broker has sent."""
    broker_address: str
    msg_id: str
    transaction_id: str
    transaction_state: LocalTransactionState
    from_transaction_check: bool


class EndTransactionHook(Protocol):
    """Observes verdicts on transactions, also those that answer a broker's check."""

    @property
    def hook_name(self) -> str:
        """Its name, for the log."""
        ...

    def end_transaction(self, context: EndTransactionContext) -> None:
        """Called before a verdict is sent."""
        ...


class ConsumeReturnType(enum.IntEnum):
    """How the handling of a batch ended, as traces number it."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURNNULL = 3
    """It ended without a result: its handler was cancelled, or the consumer ended before the batch was settled."""
    FAILED = 4


@attrs.define(eq=False, kw_only=True)
class ConsumeMessageContext:
    """One batch and its handler; what follows ``namespace`` is set before ``consume_message_after``."""

    consumer_group: str
    messages: Sequence[MessageExt]
    message_queue: MessageQueue
    namespace: str = ""
    is_success: bool = False
    status: str = ""
    """The result of the handler, by the name of its ConsumeConcurrentlyStatus or ConsumeOrderlyStatus."""
    return_type: ConsumeReturnType = ConsumeReturnType.SUCCESS
    trace_context: object = None
    """Free for the hook that sets it."""


class ConsumeMessageHook(Protocol):
    """Observes handlers of batches."""

    @property
    def hook_name(self) -> str:
        """Its name, for the log."""
        ...

    def consume_message_before(self, context: ConsumeMessageContext) -> None:
        """Called before a batch is handled."""
        ...

    def consume_message_after(self, context: ConsumeMessageContext) -> None:
        """Called with the outcome, once for each batch that was announced."""
        ...


@attrs.define(eq=False, kw_only=True)
class FilterMessageContext:
    """Messages of one pull; a hook removes those from ``messages`` that the group shall not get."""

    consumer_group: str
    messages: list[MessageExt]
    message_queue: MessageQueue
    unit_mode: bool = False


class FilterMessageHook(Protocol):
    """Removes messages that were pulled; they count as consumed."""

    @property
    def hook_name(self) -> str:
        """Its name, for the log."""
        ...

    def filter_message(self, context: FilterMessageContext) -> None:
        """Called with the messages of each pull that the selector wants."""
        ...
