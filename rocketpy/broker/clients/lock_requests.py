"""LOCK_BATCH_MQ and UNLOCK_BATCH_MQ: locks on queues for orderly consumption.

Compatibility: ``AdminBrokerProcessor`` (4.9.8). Java accepts requests and names of any length.
"""

from __future__ import annotations

from rocketpy.broker.acl.needs import LOCK
from rocketpy.broker.clients.queue_locks import RebalanceLockManager
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.groups import NAME_LENGTH_MAX
from rocketpy.broker.request_body import check_length, check_name, read_body
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.lock import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.topic_name import TOPIC_LENGTH_MAX
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher


class LockProcessor:
    """Processor of the two codes. One per broker."""

    def __init__(self, *, config: BrokerConfig, rebalance_lock_manager: RebalanceLockManager) -> None:
        self._config = config
        self._rebalance_lock_manager = rebalance_lock_manager

    def register(self, dispatcher: Dispatcher) -> None:
        """Register for the codes."""
        dispatcher.register(RequestCode.LOCK_BATCH_MQ, self.process_lock, needs=LOCK)
        dispatcher.register(RequestCode.UNLOCK_BATCH_MQ, self.process_unlock, needs=LOCK)

    def process_lock(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Lock the queues, and return those that the client holds now."""
        body = read_body(request, LockBatchRequestBody, self._config.client_body_bytes_max)
        group = check_name(body, "consumerGroup", body.consumer_group)
        client_id = check_name(body, "clientId", body.client_id)
        for queue in body.mq_set:
            check_length(queue, "topic", queue.topic, TOPIC_LENGTH_MAX)
            check_length(queue, "brokerName", queue.broker_name, NAME_LENGTH_MAX)
        held = self._rebalance_lock_manager.try_lock_batch(group, body.mq_set, client_id)
        return make_response(request, body=encode_body(LockBatchResponseBody(lock_ok_mq_set=tuple(held))))

    def process_unlock(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Unlock those of the queues that the client holds."""
        body = read_body(request, UnlockBatchRequestBody, self._config.client_body_bytes_max)
        group = check_name(body, "consumerGroup", body.consumer_group)
        client_id = check_name(body, "clientId", body.client_id)
        self._rebalance_lock_manager.unlock_batch(group, body.mq_set, client_id)
        return make_response(request)
