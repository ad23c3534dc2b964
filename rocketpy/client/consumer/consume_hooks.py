"""Calls the consume hooks of a consumer around the handling of its batches; used only when there are hooks.

Rule: each batch that is announced has exactly one end, whatever becomes of it.

Compatibility: ``DefaultMQPushConsumerImpl.executeHookBefore`` and ``executeHookAfter`` (4.9.8). A batch whose consumer
ends before it is settled ends with RETURNNULL; in Java such a batch has no end.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.statuses import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from rocketpy.client.hooks import ConsumeMessageContext, ConsumeMessageHook, ConsumeReturnType
from rocketpy.client.program_call import ProgramCall
from rocketpy.protocol.message import MessageExt, MessageQueue

ConsumeStatus = ConsumeConcurrentlyStatus | ConsumeOrderlyStatus

_SUCCESSES = (
    ConsumeConcurrentlyStatus.CONSUME_SUCCESS,
    ConsumeOrderlyStatus.SUCCESS,
    ConsumeOrderlyStatus.COMMIT,
)

_log = logging.getLogger("rocketpy.client")


class ConsumeHooks:
    """The consume hooks of one consumer, in the order in which they were given."""

    def __init__(self, *, group: str, namespace: str, hooks: Sequence[ConsumeMessageHook]) -> None:
        self._group = group
        self._namespace = namespace
        self._hooks = tuple(hooks)
        self._announced: dict[MessageBatch, ConsumeMessageContext] = {}

    def before(self, batch: MessageBatch) -> None:
        """Announce a batch."""
        context = self._announced[batch] = self._begun(batch.messages, batch.queue)
        self._show_begun(context)

    def after(self, batch: MessageBatch, return_type: ConsumeReturnType, status: ConsumeStatus) -> None:
        """Announce the end of a batch; once, later calls do nothing."""
        context = self._announced.pop(batch, None)
        if context is None:
            return
        context.return_type, context.status, context.is_success = return_type, status.value, status in _SUCCESSES
        self._show_ended(context)

    def announce_polled(self, messages: Sequence[MessageExt]) -> None:
        """Announce what a poll returns, and its end at once: what becomes of it is the program's.

        Compatibility: ``DefaultLitePullConsumerImpl.pullSyncImpl`` announces it when it is pulled.
        """
        first = messages[0]
        context = self._begun(messages, MessageQueue(first.topic, first.broker_name, first.queue_id))
        self._show_begun(context)
        context.status, context.is_success = ConsumeConcurrentlyStatus.CONSUME_SUCCESS.value, True
        self._show_ended(context)

    def end_all(self, status: ConsumeStatus) -> None:
        """Announce the end of every batch that has none: the consumer has left its group."""
        for batch in list(self._announced):
            self.after(batch, ConsumeReturnType.RETURNNULL, status)

    # ---- private --------------------------------------------------------------------------------------------------

    def _begun(self, messages: Sequence[MessageExt], queue: MessageQueue) -> ConsumeMessageContext:
        return ConsumeMessageContext(
            consumer_group=self._group, namespace=self._namespace, messages=tuple(messages), message_queue=queue
        )

    def _show_begun(self, context: ConsumeMessageContext) -> None:
        for hook in self._hooks:
            with ProgramCall(_log, "consumeMessageHook %s, before a batch,", hook.hook_name):
                hook.consume_message_before(context)

    def _show_ended(self, context: ConsumeMessageContext) -> None:
        for hook in self._hooks:
            with ProgramCall(_log, "consumeMessageHook %s, after a batch,", hook.hook_name):
                hook.consume_message_after(context)
