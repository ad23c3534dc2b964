"""The client: the names that programs import. Everything below this package is internal and may move.

Errors are in :mod:`rocketpy.errors`.
"""

from rocketpy.client.admin import AdminClient, open_admin_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.environment import ClientEnvironment
from rocketpy.client.message_stream import MessageStream
from rocketpy.client.producer import Producer, open_producer
from rocketpy.client.pull_consumer import PullConsumer, open_pull_consumer
from rocketpy.client.results import PullResult, PullStatus, SendResult, SendStatus
from rocketpy.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rocketpy.protocol.message import Message, MessageExt, MessageQueue
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.remoting.config import TlsClientConfig

__all__ = [
    "AdminClient",
    "BrokerData",
    "ClientConfig",
    "ClientEnvironment",
    "ClusterInfo",
    "Message",
    "MessageExt",
    "MessageQueue",
    "MessageStream",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "QueueData",
    "SendResult",
    "SendStatus",
    "SessionCredentials",
    "TlsClientConfig",
    "TopicRouteData",
    "open_admin_client",
    "open_producer",
    "open_pull_consumer",
]
