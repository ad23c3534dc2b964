"""The broker about itself: its figures.

Compatibility: ``AdminBrokerProcessor.prepareRuntimeInfo`` (4.9.8); broker.md 18, wire.md 3.4. Keys of thread pools are
there for the tools that print them; nothing queues here, so their sizes and waits are 0.
"""

from __future__ import annotations

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.services.lateness import LatenessService
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import MQ_VERSION, RequestCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.message_store import MessageStore

MQ_VERSION_DESC = "V4_9_8"
_POOLS = ("sendThreadPoolQueue", "pullThreadPoolQueue", "queryThreadPoolQueue")


class AdminBrokerProcessor:
    """Serves GET_BROKER_RUNTIME_INFO."""

    def __init__(self, *, config: BrokerConfig, store: MessageStore, lateness: LatenessService) -> None:
        self._config = config
        self._store = store
        self._lateness = lateness

    def register(self, dispatcher: Dispatcher) -> None:
        """Take the codes."""
        dispatcher.register(RequestCode.GET_BROKER_RUNTIME_INFO, self.process_get_broker_runtime_info)

    def process_get_broker_runtime_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Answer figures by name, all of them text."""
        table = {
            "brokerVersionDesc": MQ_VERSION_DESC,
            "brokerVersion": str(MQ_VERSION),
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": "0",
            "pageCacheLockTimeMills": "0",
            "startAcceptSendRequestTimeStamp": str(self._config.start_accept_send_request_time_stamp),
        }
        statistics = self._store.statistics()
        for kind, total in (("Put", statistics.put_count), ("Get", statistics.get_message_count)):
            table[f"msg{kind}TotalYesterdayMorning"] = "0"
            table[f"msg{kind}TotalTodayMorning"] = "0"
            table[f"msg{kind}TotalTodayNow"] = str(total)
        for pool in _POOLS:
            table |= {f"{pool}Size": "0", f"{pool}Capacity": "0", f"{pool}HeadWaitTimeMills": "0"}
        table |= self._store.runtime_info() | self._lateness.runtime_info()
        return make_response(request, body=encode_body(KVTable(table=table)))
