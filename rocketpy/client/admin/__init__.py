"""Administration: the classes behind ``client.admin()`` and the values that their calls take and return."""

from rocketpy.client.admin.accounts import AccountAdmin
from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.admin.brokers import BrokerAdmin
from rocketpy.client.admin.cleaning import CleaningAdmin
from rocketpy.client.admin.clients import ClientAdmin
from rocketpy.client.admin.groups import GroupAdmin
from rocketpy.client.admin.messages import MessageAdmin, QueryResult
from rocketpy.client.admin.name_servers import NameServerAdmin
from rocketpy.client.admin.offsets import OffsetAdmin
from rocketpy.client.admin.resets import TO_END, ResetAdmin, RollbackStats
from rocketpy.client.admin.topics import TopicAdmin
from rocketpy.client.admin.traces import MessageTrace, TraceView
from rocketpy.client.admin.tracks import MessageTrack, TrackType
from rocketpy.client.trace.trace_data import EndTransactionTrace, PubTrace, SubAfterTrace, SubBeforeTrace
from rocketpy.protocol.bodies.acl import ClusterAclVersionInfo, PlainAccessConfig
from rocketpy.protocol.bodies.connection import (
    Connection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.bodies.queue import ConsumeQueueData, QueryConsumeQueueResponseBody
from rocketpy.protocol.bodies.running import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueInfo,
)
from rocketpy.protocol.bodies.stats import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueueTimeSpan,
    TopicOffset,
    TopicStatsTable,
)
from rocketpy.protocol.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper, TopicFilterType

__all__ = [
    "TO_END",
    "AccountAdmin",
    "AdminClient",
    "BrokerAdmin",
    "BrokerStatsData",
    "BrokerStatsItem",
    "CMResult",
    "CleaningAdmin",
    "ClientAdmin",
    "ClusterAclVersionInfo",
    "Connection",
    "ConsumeMessageDirectlyResult",
    "ConsumeQueueData",
    "ConsumeStats",
    "ConsumeStatsList",
    "ConsumeStatus",
    "ConsumerConnection",
    "ConsumerRunningInfo",
    "DataVersion",
    "EndTransactionTrace",
    "GroupAdmin",
    "MessageAdmin",
    "MessageTrace",
    "MessageTrack",
    "NameServerAdmin",
    "OffsetAdmin",
    "OffsetWrapper",
    "PlainAccessConfig",
    "ProcessQueueInfo",
    "ProducerConnection",
    "ProducerInfo",
    "ProducerTableInfo",
    "PubTrace",
    "QueryConsumeQueueResponseBody",
    "QueryResult",
    "QueueTimeSpan",
    "ResetAdmin",
    "RollbackStats",
    "SubAfterTrace",
    "SubBeforeTrace",
    "SubscriptionData",
    "SubscriptionGroupConfig",
    "SubscriptionGroupWrapper",
    "TopicAdmin",
    "TopicConfig",
    "TopicConfigSerializeWrapper",
    "TopicFilterType",
    "TopicOffset",
    "TopicStatsTable",
    "TraceView",
    "TrackType",
]
