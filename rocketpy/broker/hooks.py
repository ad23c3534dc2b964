"""Hooks: third-party code called for every send and every consumption, for tracing, auditing and accounting.

``sendMessageHooks`` and ``consumeMessageHooks`` name factories like ``messageStorePlugIn``, separated by commas; each
is called without arguments and returns a hook. A program that embeds a broker passes hooks to
:func:`~rocketpy.broker.app.run_broker`. Hooks are called in this order, on the event loop, so they must not block.

With a send hook every send takes the general path; without one, the fast paths do not check for hooks.

An exception in a hook fails the request: the client gets SYSTEM_ERROR, and the traceback is logged. This includes pulls
that are answered later because they were held or cold. ``RequestError`` from ``send_message_before`` refuses the send
with its code and remark. An exception in ``send_message_after`` does not affect the message, which is in the log
already.

An example, which counts what was sent::

    class CountingHook:
        hook_name = "counting"

        def __init__(self) -> None:
            self.count = 0

        def send_message_before(self, context):
            pass

        def send_message_after(self, context):
            self.count += context.is_success

Compatibility: ``SendMessageHook``, ``ConsumeMessageHook`` and their contexts (4.9.8). RocketMQ ignores exceptions of a
hook, and calls ``sendMessageAfter`` only for a reply, never for a send. Contexts are read-only: changing one has no
effect. As in RocketMQ, messages of sends with hooks are stored with MSG_REGION and TRACE_ON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar, cast

import attrs

from rocketpy.errors import SettingsError
from rocketpy.protocol.headers.send import ConsumerSendMsgBackRequestHeader, SendMessageRequestHeader
from rocketpy.protocol.properties import PROPERTIES_TEXT_MAX, decode_properties
from rocketpy.protocol.topic_name import DLQ_PREFIX, RETRY_PREFIX
from rocketpy.store.plug_in import load_callables

SEND_HOOKS_KEY = "sendMessageHooks"
CONSUME_HOOKS_KEY = "consumeMessageHooks"
COMMERCIAL_OWNER = "Owner"
"""The request field with the owner account of commercial statistics."""

SIZE_PER_COUNT = 64 * 1024
"""Bytes per message in commercial statistics, rounded up."""

H = TypeVar("H")


@attrs.define(kw_only=True)
class SendMessageContext:
    """One send. Fields of the result are empty until the send is complete."""

    namespace: str
    producer_group: str
    topic: str
    body_length: int  # bytes
    msg_props: str  # as sent
    msg_unique_key: str
    born_host: str  # ip:port of the producer
    born_timestamp: int  # ms since the epoch
    broker_addr: str
    broker_region_id: str
    queue_id: int  # as requested; afterwards the chosen one
    queue_offset: int = -1
    msg_id: str = ""  # of a batch: several, separated by commas
    code: int = -1
    error_msg: str | None = None
    is_success: bool = False  # the message is in the log; a flush may still be pending
    commercial_owner: str | None = None
    commercial_send_stats: str = ""  # SEND_SUCCESS or SEND_FAILURE
    commercial_send_size: int = 0  # bytes
    commercial_send_times: int = 0
    mq_trace_context: object = None  # the hook's own, from before to after


@attrs.define(kw_only=True)
class ConsumeMessageContext:
    """One answered pull, or one message sent back."""

    namespace: str
    consumer_group: str
    topic: str | None
    queue_id: int | None = None
    commercial_owner: str | None = None
    commercial_rcv_stats: str = ""  # RCV_SUCCESS, RCV_EPOLLS or SEND_BACK
    commercial_rcv_times: int = 0
    commercial_rcv_size: int = 0  # bytes
    mq_trace_context: object = None


class SendMessageHook(Protocol):
    """Listener of sends, batches and replies."""

    hook_name: str

    def send_message_before(self, context: SendMessageContext) -> None:
        """Called before any check."""
        ...

    def send_message_after(self, context: SendMessageContext) -> None:
        """Called when the message is in the log, or refused."""
        ...


class ConsumeMessageHook(Protocol):
    """Listener of pulls and of messages sent back."""

    hook_name: str

    def consume_message_before(self, context: ConsumeMessageContext) -> None:
        """Called before a pull is answered."""
        ...

    def consume_message_after(self, context: ConsumeMessageContext) -> None:
        """Called when a consumer sends a message back."""
        ...


@attrs.frozen
class BrokerHooks:
    """Hooks passed by a program that embeds a broker."""

    send: tuple[SendMessageHook, ...] = ()
    consume: tuple[ConsumeMessageHook, ...] = ()

    def with_configured(self, send: str, consume: str) -> BrokerHooks:
        """Return the hooks named by the two settings, followed by these. SettingsError names the fault."""
        return BrokerHooks((*load_send_hooks(send), *self.send), (*load_consume_hooks(consume), *self.consume))


NO_HOOKS = BrokerHooks()


class SendHooks:
    """The send hooks of one broker; falsy without hooks."""

    def __init__(self, hooks: Sequence[SendMessageHook], *, broker_addr: str, region_id: str, base_count: int) -> None:
        self._hooks = tuple(hooks)
        self._broker_addr = broker_addr
        self._region_id = region_id
        self._base_count = base_count

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def before(
        self, header: SendMessageRequestHeader, fields: Mapping[str, str], body: bytes | None, born_host: str
    ) -> SendMessageContext:
        """Notify every hook of an incoming send; return the context for :meth:`stored` or :meth:`refused`."""
        text = header.properties or ""
        context = SendMessageContext(
            namespace=namespace_of(header.topic),
            producer_group=header.producer_group,
            topic=header.topic,
            body_length=len(body or b""),
            msg_props=text,
            msg_unique_key=decode_properties(text).get("UNIQ_KEY", "") if len(text) <= PROPERTIES_TEXT_MAX else "",
            born_host=born_host,
            born_timestamp=header.born_timestamp,
            broker_addr=self._broker_addr,
            broker_region_id=self._region_id,
            queue_id=header.queue_id,
            commercial_owner=fields.get(COMMERCIAL_OWNER),
        )
        for hook in self._hooks:
            hook.send_message_before(context)
        return context

    def stored(
        self, context: SendMessageContext, *, code: int, msg_id: str, queue_id: int, queue_offset: int, size_bytes: int
    ) -> None:
        """Notify every hook of the stored message; ``size_bytes`` is its size in the log."""
        context.code, context.is_success = code, True
        context.msg_id, context.queue_id, context.queue_offset = msg_id, queue_id, queue_offset
        self._after(context, "SEND_SUCCESS", size_bytes, self._base_count)

    def refused(self, context: SendMessageContext, *, code: int, remark: str | None) -> None:
        """Notify every hook that the send was refused, with code and remark."""
        context.code, context.error_msg = code, remark
        self._after(context, "SEND_FAILURE", context.body_length, 1)

    def _after(self, context: SendMessageContext, stats: str, size_bytes: int, base_count: int) -> None:
        context.commercial_send_stats = stats
        context.commercial_send_size = size_bytes
        context.commercial_send_times = math.ceil(size_bytes / SIZE_PER_COUNT) * base_count
        for hook in self._hooks:
            hook.send_message_after(context)


class ConsumeHooks:
    """The consume hooks of one broker; falsy without hooks."""

    def __init__(self, hooks: Sequence[ConsumeMessageHook]) -> None:
        self._hooks = tuple(hooks)

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def pulled(self, context: ConsumeMessageContext) -> None:
        """Notify every hook of a pull's response."""
        for hook in self._hooks:
            hook.consume_message_before(context)

    def sent_back(self, header: ConsumerSendMsgBackRequestHeader, fields: Mapping[str, str]) -> None:
        """Notify every hook of a message sent back; as in RocketMQ only if the request names the original message."""
        if not (header.origin_msg_id or "").strip():
            return
        context = ConsumeMessageContext(
            namespace=namespace_of(header.group),
            consumer_group=header.group,
            topic=header.origin_topic,
            commercial_owner=fields.get(COMMERCIAL_OWNER),
            commercial_rcv_stats="SEND_BACK",
            commercial_rcv_times=1,
        )
        for hook in self._hooks:
            hook.consume_message_after(context)


def load_send_hooks(value: str) -> list[SendMessageHook]:
    """Load the hooks that ``sendMessageHooks`` names. SettingsError names the hook and the fault."""
    methods = ("send_message_before", "send_message_after")
    return cast("list[SendMessageHook]", _load(SEND_HOOKS_KEY, value, methods))


def load_consume_hooks(value: str) -> list[ConsumeMessageHook]:
    """Load the hooks that ``consumeMessageHooks`` names. SettingsError names the hook and the fault."""
    methods = ("consume_message_before", "consume_message_after")
    return cast("list[ConsumeMessageHook]", _load(CONSUME_HOOKS_KEY, value, methods))


def namespace_of(resource: str) -> str:
    """Return the namespace of a topic or group, empty without one.

    >>> namespace_of("%RETRY%MQ_INST_1%group")
    'MQ_INST_1'
    """
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        resource = resource.removeprefix(prefix)
    namespace, separator, _ = resource.partition("%")
    return namespace if separator else ""


def _load(key: str, value: str, methods: Sequence[str]) -> list[object]:
    hooks = []
    for factory in load_callables(key, value):
        hook = factory()
        missing = [name for name in methods if not callable(getattr(hook, name, None))]
        if missing:
            raise SettingsError(f"{key} = {value!r}: expected hooks, found {hook!r} without {missing[0]}")
        hooks.append(hook)
    return hooks
