"""The client: the names that programs import. Everything below this package is internal and may move.

Errors are in :mod:`rocketpy.errors`. The same for asyncio is in :mod:`rocketpy.client.aio`, for plain code in
:mod:`rocketpy.client.blocking`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from rocketpy.client.client import (
    Client,
    open_admin_client,
    open_client,
    open_lite_pull_consumer,
    open_producer,
    open_pull_consumer,
)
from rocketpy.client.config import ClientConfig
from rocketpy.client.environment import ClientEnvironment
from rocketpy.client.hooks import (
    CheckForbiddenHook,
    CommunicationMode,
    ConsumeMessageContext,
    ConsumeMessageHook,
    ConsumeReturnType,
    EndTransactionContext,
    EndTransactionHook,
    FilterMessageContext,
    FilterMessageHook,
    MessageType,
    PropertiesHook,
    SendMessageContext,
    SendMessageHook,
)
from rocketpy.client.producer.batching import BatchingProducer
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.encoded_batch import EncodedBatch
from rocketpy.client.producer.pending_send import PendingSend
from rocketpy.client.producer.producer import Producer
from rocketpy.client.producer.selectors import QueueSelector, queue_by_hash, queue_by_random
from rocketpy.client.producer.transaction import Transaction, TransactionProducer, TransactionSendResult
from rocketpy.client.replies import ReplyMessage, reply_to
from rocketpy.client.results import LocalTransactionState, PullResult, PullStatus, SendResult, SendStatus
from rocketpy.client.states import StateChange, StateChanges, StateSubject
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere, MessageModel
from rocketpy.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rocketpy.protocol.compression import CompressionType
from rocketpy.protocol.message import Message, MessageExt, MessageQueue
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.remoting.config import TlsClientConfig

if TYPE_CHECKING:  # loaded when first named, see _MODULES
    from rocketpy.client.admin.admin_client import AdminClient
    from rocketpy.client.consumer.batch import MessageBatch
    from rocketpy.client.consumer.config import ConsumerConfig, PullConfig
    from rocketpy.client.consumer.consumer import BatchIterator, Consumer
    from rocketpy.client.consumer.consumer_stats import ConsumerStatistics
    from rocketpy.client.consumer.group.assignment_changes import AssignmentChange, AssignmentIterator
    from rocketpy.client.consumer.lite_pull.config import LitePullConfig
    from rocketpy.client.consumer.lite_pull.consumer import LitePullConsumer
    from rocketpy.client.consumer.lite_pull.queue_changes import QueueChanges
    from rocketpy.client.consumer.message_selector import MessageSelector
    from rocketpy.client.consumer.message_stream import MessageStream
    from rocketpy.client.consumer.pull_consumer import PullConsumer
    from rocketpy.client.consumer.start import Start, StartKind
    from rocketpy.client.consumer.statuses import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
    from rocketpy.protocol.allocation.averagely import AllocateAveragely, AllocateByCircle
    from rocketpy.protocol.allocation.by_config import AllocateByConfig
    from rocketpy.protocol.allocation.consistent_hash import AllocateConsistentHash
    from rocketpy.protocol.allocation.machine_room import AllocateByMachineRoom, AllocateMachineRoomNearby
    from rocketpy.protocol.allocation.strategy import AllocateMessageQueueStrategy

__all__ = [
    "AdminClient",
    "AllocateAveragely",
    "AllocateByCircle",
    "AllocateByConfig",
    "AllocateByMachineRoom",
    "AllocateConsistentHash",
    "AllocateMachineRoomNearby",
    "AllocateMessageQueueStrategy",
    "AssignmentChange",
    "AssignmentIterator",
    "BatchIterator",
    "BatchingProducer",
    "BrokerData",
    "CheckForbiddenHook",
    "Client",
    "ClientConfig",
    "ClientEnvironment",
    "ClusterInfo",
    "CommunicationMode",
    "CompressionType",
    "ConsumeConcurrentlyStatus",
    "ConsumeFromWhere",
    "ConsumeMessageContext",
    "ConsumeMessageHook",
    "ConsumeOrderlyStatus",
    "ConsumeReturnType",
    "Consumer",
    "ConsumerConfig",
    "ConsumerStatistics",
    "EncodedBatch",
    "EndTransactionContext",
    "EndTransactionHook",
    "FilterMessageContext",
    "FilterMessageHook",
    "LitePullConfig",
    "LitePullConsumer",
    "LocalTransactionState",
    "Message",
    "MessageBatch",
    "MessageExt",
    "MessageModel",
    "MessageQueue",
    "MessageSelector",
    "MessageStream",
    "MessageType",
    "PendingSend",
    "Producer",
    "ProducerConfig",
    "PropertiesHook",
    "PullConfig",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "QueueChanges",
    "QueueData",
    "QueueSelector",
    "ReplyMessage",
    "SendMessageContext",
    "SendMessageHook",
    "SendResult",
    "SendStatus",
    "SessionCredentials",
    "Start",
    "StartKind",
    "StateChange",
    "StateChanges",
    "StateSubject",
    "TlsClientConfig",
    "TopicRouteData",
    "Transaction",
    "TransactionProducer",
    "TransactionSendResult",
    "open_admin_client",
    "open_client",
    "open_lite_pull_consumer",
    "open_producer",
    "open_pull_consumer",
    "queue_by_hash",
    "queue_by_random",
    "reply_to",
]


_MODULES = {
    "AdminClient": "rocketpy.client.admin.admin_client",
    "AllocateAveragely": "rocketpy.protocol.allocation.averagely",
    "AllocateByCircle": "rocketpy.protocol.allocation.averagely",
    "AllocateByConfig": "rocketpy.protocol.allocation.by_config",
    "AllocateByMachineRoom": "rocketpy.protocol.allocation.machine_room",
    "AllocateConsistentHash": "rocketpy.protocol.allocation.consistent_hash",
    "AllocateMachineRoomNearby": "rocketpy.protocol.allocation.machine_room",
    "AllocateMessageQueueStrategy": "rocketpy.protocol.allocation.strategy",
    "AssignmentChange": "rocketpy.client.consumer.group.assignment_changes",
    "AssignmentIterator": "rocketpy.client.consumer.group.assignment_changes",
    "BatchIterator": "rocketpy.client.consumer.consumer",
    "ConsumeConcurrentlyStatus": "rocketpy.client.consumer.statuses",
    "ConsumeOrderlyStatus": "rocketpy.client.consumer.statuses",
    "Consumer": "rocketpy.client.consumer.consumer",
    "ConsumerConfig": "rocketpy.client.consumer.config",
    "ConsumerStatistics": "rocketpy.client.consumer.consumer_stats",
    "LitePullConfig": "rocketpy.client.consumer.lite_pull.config",
    "LitePullConsumer": "rocketpy.client.consumer.lite_pull.consumer",
    "MessageBatch": "rocketpy.client.consumer.batch",
    "MessageSelector": "rocketpy.client.consumer.message_selector",
    "MessageStream": "rocketpy.client.consumer.message_stream",
    "PullConfig": "rocketpy.client.consumer.config",
    "PullConsumer": "rocketpy.client.consumer.pull_consumer",
    "QueueChanges": "rocketpy.client.consumer.lite_pull.queue_changes",
    "Start": "rocketpy.client.consumer.start",
    "StartKind": "rocketpy.client.consumer.start",
}
"""Where the names are that a program which only sends does not need: administration and consumers."""


def __getattr__(name: str) -> object:
    """Load a module when a name of it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value
