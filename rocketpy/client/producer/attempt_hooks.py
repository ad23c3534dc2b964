"""Calls the hooks of a producer around its attempts; used only when there are hooks.

Each attempt is announced once and reported once, whether it left or not, except for one that is forbidden. Both calls
run in the context variables of the call that has begun the send, wherever the answer comes to.

Compatibility: ``DefaultMQProducerImpl.executeSendMessageHookBefore`` and its neighbours (4.9.8).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextvars import Context, copy_context

import trio

from rocketpy.client.hooks import (
    CheckForbiddenHook,
    CommunicationMode,
    MessageType,
    SendMessageContext,
    SendMessageHook,
)
from rocketpy.client.instance import ClientInstance
from rocketpy.client.producer.delivery import Delivery
from rocketpy.client.program_call import ProgramCall
from rocketpy.client.results import SendResult
from rocketpy.client.validators import UNSPECIFIED
from rocketpy.errors import ClientError, RocketpyError
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.properties import PROPERTY_DELAY_TIME_LEVEL
from rocketpy.protocol.sysflag import TRANSACTION_PREPARED_TYPE, transaction_type

NO_QUEUE_ID = -1
"""Queue id of an attempt that has found no route; its broker's name is empty."""

_log = logging.getLogger("rocketpy.client")


class AttemptHooks:
    """The hooks of one producer, in the order in which they were given."""

    def __init__(
        self,
        *,
        instance: ClientInstance,
        group: str,
        send_hooks: Sequence[SendMessageHook] = (),
        check_forbidden_hooks: Sequence[CheckForbiddenHook] = (),
    ) -> None:
        self._instance = instance
        self._group = group
        self._send_hooks = tuple(send_hooks)
        self._check_forbidden_hooks = tuple(check_forbidden_hooks)

    def before(self, delivery: Delivery, *, oneway: bool = False) -> None:
        """Ask whether an attempt is forbidden, which raises, and announce it: it is about to leave."""
        context = self._context(delivery, self._instance.clock.timestamp_ms(), oneway=oneway)
        run = _caller_of(delivery).run
        for check in self._check_forbidden_hooks:
            try:
                run(check.check_forbidden, context)
            except Exception as failure:
                if isinstance(failure, RocketpyError):
                    raise
                # Not as it is: it may come from a task that serves every send of the producer, and would end it.
                text = f"checkForbiddenHook {check.hook_name} failed: {failure!r}"
                raise ClientError(UNSPECIFIED, text) from failure
        run(self._announce, delivery, context)

    def after(
        self,
        delivery: Delivery,
        result: SendResult | None = None,
        failure: Exception | None = None,
        *,
        oneway: bool = False,
    ) -> None:
        """Announce the outcome of an attempt; before that the attempt, if it has not come as far as leaving."""
        context = delivery.hook_context
        if context is None:
            waited_ms = round((trio.current_time() - delivery.began) * 1000)
            context = self._context(delivery, self._instance.clock.timestamp_ms() - waited_ms, oneway=oneway)
            _caller_of(delivery).run(self._announce, delivery, context)
        delivery.hook_context = None
        context.send_result, context.exception = result, failure
        _caller_of(delivery).run(self._report, context)

    def _announce(self, delivery: Delivery, context: SendMessageContext) -> None:
        delivery.hook_context = context
        for hook in self._send_hooks:
            with ProgramCall(_log, "sendMessageHook %s, before a send,", hook.hook_name):
                hook.send_message_before(context)

    def _report(self, context: SendMessageContext) -> None:
        for hook in self._send_hooks:
            with ProgramCall(_log, "sendMessageHook %s, after a send,", hook.hook_name):
                hook.send_message_after(context)

    def _context(self, delivery: Delivery, begin_timestamp_ms: int, *, oneway: bool = False) -> SendMessageContext:
        request = delivery.request
        mode = CommunicationMode.ASYNC if delivery.is_async else CommunicationMode.SYNC
        return SendMessageContext(
            producer_group=self._group,
            messages=request.hook_messages(),
            message_queue=delivery.chosen or MessageQueue(request.topic, "", NO_QUEUE_ID),
            broker_address=delivery.address,
            communication_mode=CommunicationMode.ONEWAY if oneway else mode,
            message_type=_message_type(delivery),
            body_size=len(request.body),
            born_host=self._instance.client_ip,
            begin_timestamp_ms=begin_timestamp_ms,
        )


def _caller_of(delivery: Delivery) -> Context:
    """Return the context variables that a send was begun with: hooks set theirs in it, and find them again."""
    if delivery.context is None:
        delivery.context = copy_context()
    return delivery.context


def _message_type(delivery: Delivery) -> MessageType:
    if transaction_type(delivery.request.sys_flag) == TRANSACTION_PREPARED_TYPE:
        return MessageType.TRANS_MSG_HALF
    if PROPERTY_DELAY_TIME_LEVEL in delivery.request.message.properties:
        return MessageType.DELAY_MSG
    return MessageType.NORMAL_MSG
