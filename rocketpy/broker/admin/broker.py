"""GET_BROKER_RUNTIME_INFO: the broker's runtime figures.

Compatibility: ``AdminBrokerProcessor.prepareRuntimeInfo`` (4.9.8). Every key of a Java
broker is present. Requests are served as they are read, so there are no thread pool queues: their sizes and wait times
are 0, and their capacities come from the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rocketpy.broker.acl.needs import STRICT_ADMIN
from rocketpy.broker.config import BrokerConfig
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import MQ_VERSION, RequestCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.message_store import MessageStore

MQ_VERSION_DESC = "V4_9_8"

RuntimeInfo = Callable[[], Mapping[str, str]]


class AdminBrokerProcessor:
    """Serves GET_BROKER_RUNTIME_INFO. Each of ``figures`` contributes rows."""

    def __init__(self, *, config: BrokerConfig, store: MessageStore, figures: Sequence[RuntimeInfo]) -> None:
        self._config = config
        self._store = store
        self._figures = tuple(figures)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request code."""
        dispatcher.register(
            RequestCode.GET_BROKER_RUNTIME_INFO, self.process_get_broker_runtime_info, needs=STRICT_ADMIN
        )

    def process_get_broker_runtime_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return the figures by name, all as text."""
        table = self._own() | self._store.runtime_info()
        for figures in self._figures:
            table |= figures()
        return make_response(request, body=encode_body(KVTable(table=table)))

    def _own(self) -> dict[str, str]:
        config = self._config
        capacities = {
            "sendThreadPoolQueue": config.send_thread_pool_queue_capacity,
            "pullThreadPoolQueue": config.pull_thread_pool_queue_capacity,
            "queryThreadPoolQueue": config.query_thread_pool_queue_capacity,
        }
        table = {
            "brokerVersionDesc": MQ_VERSION_DESC,
            "brokerVersion": str(MQ_VERSION),
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": str(config.end_transaction_pool_queue_capacity),
            "pageCacheLockTimeMills": "0",  # no write is in progress while a request is served
            "startAcceptSendRequestTimeStamp": str(config.start_accept_send_request_time_stamp),
        }
        for pool, capacity in capacities.items():
            table |= {f"{pool}Size": "0", f"{pool}Capacity": str(capacity), f"{pool}HeadWaitTimeMills": "0"}
        return table
