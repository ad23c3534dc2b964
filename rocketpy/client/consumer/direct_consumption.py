"""Consumption of one message that an administrator hands to a consumer, outside its queues.

Compatibility: ``ConsumeMessageConcurrentlyService.consumeMessageDirectly`` and its orderly counterpart (4.9.8). A
program that iterates over batches has no handler to call, and answers SYSTEM_ERROR.
"""

from __future__ import annotations

import attrs
import trio

from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.concurrently import ConcurrentHandler
from rocketpy.client.consumer.handler_failure import contain_handler_failure
from rocketpy.client.consumer.orderly import OrderlyHandler
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.statuses import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus, checked_status
from rocketpy.client.namespace import NO_NAMESPACE, Namespace
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.running import CMResult, ConsumeMessageDirectlyResult
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageExt, MessageQueue

_RESULTS = {
    None: CMResult.CR_SUCCESS,
    ConsumeConcurrentlyStatus.CONSUME_SUCCESS: CMResult.CR_SUCCESS,
    ConsumeConcurrentlyStatus.RECONSUME_LATER: CMResult.CR_LATER,
    ConsumeOrderlyStatus.SUCCESS: CMResult.CR_SUCCESS,
    ConsumeOrderlyStatus.COMMIT: CMResult.CR_COMMIT,
    ConsumeOrderlyStatus.ROLLBACK: CMResult.CR_ROLLBACK,
    ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT: CMResult.CR_LATER,
}


@attrs.define(eq=False)
class DirectConsumption:
    """The handler of a consumer, as far as it has one."""

    retry_topic: str
    is_orderly: bool
    auto_commit: bool = True
    handler: ConcurrentHandler | OrderlyHandler | None = None
    namespace: Namespace = NO_NAMESPACE

    async def consume(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """Call the handler with one message; RequestError when there is none."""
        if self.handler is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "the consumer has no handler that could consume a message")
        if message.topic == self.retry_topic:
            self.namespace.restore_topic(message)
        else:
            message.topic = self.namespace.unwrap(message.topic)
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        batch = MessageBatch([message], ProcessQueue(queue))
        batch.auto_commit = self.auto_commit
        begun = trio.current_time()
        remark = None
        try:
            returned: object = await self.handler(batch)
            if self.is_orderly:
                result = _RESULTS[checked_status(returned, ConsumeOrderlyStatus)]
            else:
                result = _RESULTS[checked_status(returned, ConsumeConcurrentlyStatus)]
        except BaseException as failure:
            contain_handler_failure(failure, queue, 1)
            result, remark = CMResult.CR_THROW_EXCEPTION, f"{type(failure).__name__}: {failure}"
        return ConsumeMessageDirectlyResult(
            order=self.is_orderly,
            auto_commit=batch.auto_commit,
            consume_result=result.value,
            remark=remark,
            spent_time_mills=int(1000 * (trio.current_time() - begun)),
        )
