"""Routes of topics and clusters, as a nameserver returns them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rocketpy.protocol.bodies.codec import JavaSet
from rocketpy.protocol.headers.codec import Int32, Int64
from rocketpy.protocol.value_methods import ValueMethods

MASTER_ID = 0


@attrs.frozen
class QueueData(ValueMethods):
    """Numbers of queues of a topic on a broker. ``perm`` is a sum of read 4, write 2 and inherit 1."""

    broker_name: str
    read_queue_nums: Int32 = 0
    write_queue_nums: Int32 = 0
    perm: Int32 = 0
    topic_sys_flag: Int32 = 0


@attrs.frozen
class BrokerData(ValueMethods):
    """The addresses of the brokers that share a name; id 0 is the master."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[Int64, str] = attrs.field(factory=dict)


@attrs.frozen
class TopicRouteData(ValueMethods):
    """The answer to GET_ROUTEINFO_BY_TOPIC: encode it ``standard`` for a requester of version 401 or later."""

    order_topic_conf: str | None = None
    queue_datas: Sequence[QueueData] = attrs.field(factory=list)
    broker_datas: Sequence[BrokerData] = attrs.field(factory=list)
    filter_server_table: dict[str, Sequence[str]] = attrs.field(factory=dict)


@attrs.frozen
class ClusterInfo(ValueMethods):
    """All brokers by name and the names by cluster; never in standard JSON, whatever the requester's version."""

    broker_addr_table: dict[str, BrokerData] = attrs.field(factory=dict)
    cluster_addr_table: dict[str, JavaSet[str]] = attrs.field(factory=dict)


@attrs.frozen
class TopicList(ValueMethods):
    """Names of topics; ``broker_addr`` only in the nameserver's list of system topics."""

    topic_list: JavaSet[str] = attrs.field(factory=list)
    broker_addr: str | None = None


@attrs.frozen
class KVTable(ValueMethods):
    """Names and values, all text."""

    table: dict[str, str] = attrs.field(factory=dict)
