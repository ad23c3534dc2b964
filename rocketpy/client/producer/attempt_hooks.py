"""Calls the hooks of a producer around its attempts; used only when there are hooks.

Compatibility: ``DefaultMQProducerImpl.executeSendMessageHookBefore`` and its neighbours (4.9.8).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from rocketpy.client.hooks import (
    CheckForbiddenHook,
    CommunicationMode,
    MessageType,
    SendMessageContext,
    SendMessageHook,
)
from rocketpy.client.instance import ClientInstance
from rocketpy.client.producer.delivery import Delivery
from rocketpy.client.results import SendResult
from rocketpy.containment import Contained
from rocketpy.protocol.properties import PROPERTY_DELAY_TIME_LEVEL
from rocketpy.protocol.sysflag import TRANSACTION_PREPARED_TYPE, transaction_type

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
        """Ask whether an attempt is forbidden, which raises, and announce it."""
        delivery.hook_context = context = self._context(delivery, oneway=oneway)
        for check in self._check_forbidden_hooks:
            check.check_forbidden(context)
        for hook in self._send_hooks:
            with Contained(_log, "sendMessageHook %s, before a send,", hook.hook_name):
                hook.send_message_before(context)

    def after(self, delivery: Delivery, result: SendResult | None = None, failure: Exception | None = None) -> None:
        """Announce the outcome of an attempt, if it was announced itself."""
        context, delivery.hook_context = delivery.hook_context, None
        if not isinstance(context, SendMessageContext):
            return
        context.send_result, context.exception = result, failure
        for hook in self._send_hooks:
            with Contained(_log, "sendMessageHook %s, after a send,", hook.hook_name):
                hook.send_message_after(context)

    def _context(self, delivery: Delivery, *, oneway: bool) -> SendMessageContext:
        request = delivery.request
        assert delivery.chosen is not None
        mode = CommunicationMode.ASYNC if delivery.is_async else CommunicationMode.SYNC
        return SendMessageContext(
            producer_group=self._group,
            messages=request.hook_messages(),
            message_queue=delivery.chosen,
            broker_address=delivery.address,
            communication_mode=CommunicationMode.ONEWAY if oneway else mode,
            message_type=_message_type(delivery),
            body_size=len(request.body),
            born_host=self._instance.client_ip,
            begin_timestamp_ms=self._instance.clock.timestamp_ms(),
        )


def _message_type(delivery: Delivery) -> MessageType:
    if transaction_type(delivery.request.sys_flag) == TRANSACTION_PREPARED_TYPE:
        return MessageType.TRANS_MSG_HALF
    if PROPERTY_DELAY_TIME_LEVEL in delivery.request.message.properties:
        return MessageType.DELAY_MSG
    return MessageType.NORMAL_MSG
