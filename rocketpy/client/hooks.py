"""Hooks around the sends of a client: to observe them, or to forbid them.

A hook is any object with the methods of one of these protocols. They are called for each attempt, on the event loop,
and must not block. What a :class:`SendMessageHook` raises is logged and changes nothing; what a
:class:`CheckForbiddenHook` raises refuses the attempt and reaches the sender. Without hooks a send pays nothing for
them.

Compatibility: ``SendMessageHook``, ``CheckForbiddenHook`` and their contexts (4.9.8). The context has the caller's own
message: it must not be changed.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Protocol

import attrs

from rocketpy.client.results import SendResult
from rocketpy.protocol.message import Message, MessageQueue


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
    broker_address: str
    communication_mode: CommunicationMode
    message_type: MessageType
    body_size: int
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
        """Called before an attempt leaves."""
        ...

    def send_message_after(self, context: SendMessageContext) -> None:
        """Called with the outcome of the attempt; of a oneway send once it has left."""
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
