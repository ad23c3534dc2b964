"""LOCK_BATCH_MQ and UNLOCK_BATCH_MQ: which client consumes a queue in order.

Compatibility: ``AdminBrokerProcessor`` (4.9.8); broker.md 10.
"""

from __future__ import annotations

from rocketpy.broker.processors.request_body import check_name, read_body
from rocketpy.broker.rebalance_lock import RebalanceLockManager
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.lock import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher


class LockProcessor:
    """Serves the two codes. One per broker."""

    def __init__(self, *, rebalance_lock_manager: RebalanceLockManager) -> None:
        self._rebalance_lock_manager = rebalance_lock_manager

    def register(self, dispatcher: Dispatcher) -> None:
        """Take the codes."""
        dispatcher.register(RequestCode.LOCK_BATCH_MQ, self.process_lock)
        dispatcher.register(RequestCode.UNLOCK_BATCH_MQ, self.process_unlock)

    def process_lock(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Answer which of the queues the client holds now."""
        body = read_body(request, LockBatchRequestBody)
        group = check_name(body, "consumerGroup", body.consumer_group)
        client_id = check_name(body, "clientId", body.client_id)
        held = self._rebalance_lock_manager.try_lock_batch(group, body.mq_set, client_id)
        return make_response(request, body=encode_body(LockBatchResponseBody(lock_ok_mq_set=tuple(held))))

    def process_unlock(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Free what the client holds of the queues."""
        body = read_body(request, UnlockBatchRequestBody)
        group = check_name(body, "consumerGroup", body.consumer_group)
        client_id = check_name(body, "clientId", body.client_id)
        self._rebalance_lock_manager.unlock_batch(group, body.mq_set, client_id)
        return make_response(request)
