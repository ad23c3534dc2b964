"""Administration of a cluster: topics, routes, clusters. Works with rocketpy and Java brokers alike.

Compatibility: ``DefaultMQAdminExtImpl`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterable

import trio

from rocketpy.client.instance import ClientInstance
from rocketpy.client.validators import check_topic
from rocketpy.errors import ClientError, RocketpyError
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import MASTER_ID, ClusterInfo, TopicList, TopicRouteData
from rocketpy.protocol.bodies.topic import TopicFilterType
from rocketpy.protocol.codes import PERM_READ_WRITE, RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.topic import CreateTopicRequestHeader
from rocketpy.protocol.topic_name import AUTO_CREATE_TOPIC_KEY_TOPIC

ROUTES_AT_ONCE_MAX = 32


class AdminClient:
    """Administrative requests. Created by :meth:`Client.admin`."""

    def __init__(self, *, instance: ClientInstance) -> None:
        self._instance = instance

    async def topics(self) -> list[str]:
        """Return the names of all topics, system topics included, sorted."""
        response = await self._instance.name_servers.request(
            make_request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        )
        return sorted(decode_body(response.body, TopicList).topic_list)

    async def route(self, topic: str) -> TopicRouteData | None:
        """Return the route of a topic, None when no broker has it."""
        return await self._instance.name_servers.find_route(topic)

    async def routes(self, topics: Iterable[str]) -> dict[str, TopicRouteData]:
        """Return the routes of topics, in their order, with concurrent requests; unknown topics are left out."""
        names = list(topics)
        found: dict[str, TopicRouteData] = {}
        failures: list[RocketpyError] = []
        limiter = trio.CapacityLimiter(ROUTES_AT_ONCE_MAX)

        async def find(topic: str) -> None:
            async with limiter:
                try:
                    route = None if failures else await self._instance.name_servers.find_route(topic)
                except RocketpyError as failure:
                    failures.append(failure)
                else:
                    if route is not None:
                        found[topic] = route

        async with trio.open_nursery() as nursery:
            for topic in names:
                nursery.start_soon(find, topic)
        if failures:
            raise failures[0]
        return {topic: found[topic] for topic in names if topic in found}

    async def cluster_info(self) -> ClusterInfo:
        """Return clusters, brokers and their addresses."""
        return await self._instance.name_servers.cluster_info()

    async def create_topic(
        self, topic: str, *, queue_nums: int = 8, perm: int = PERM_READ_WRITE, cluster: str | None = None
    ) -> list[str]:
        """Create or update a topic on every master (of one cluster); return the masters' addresses.

        Raises BrokerError when a broker refuses (a system topic), ClientError for a bad name or without any broker.
        The masters are asked in order, so after a failure the earlier ones have the topic.
        """
        check_topic(topic)
        addresses = masters(await self._instance.name_servers.cluster_info(), cluster)
        header = CreateTopicRequestHeader(
            topic=topic,
            default_topic=AUTO_CREATE_TOPIC_KEY_TOPIC,
            read_queue_nums=queue_nums,
            write_queue_nums=queue_nums,
            perm=perm,
            topic_filter_type=TopicFilterType.SINGLE_TAG.value,
            topic_sys_flag=0,
            order=False,
        )
        for address in addresses:
            await self._instance.request(address, make_request(RequestCode.UPDATE_AND_CREATE_TOPIC, header))
        return addresses


def masters(info: ClusterInfo, cluster: str | None) -> list[str]:
    """Return the addresses of the masters (of one cluster), sorted; ClientError when there are none."""
    if cluster is not None and cluster not in info.cluster_addr_table:
        known = ", ".join(sorted(info.cluster_addr_table)) or "none"
        raise ClientError(ResponseCode.SYSTEM_ERROR, f"no cluster named {cluster}, known: {known}")
    clusters = info.cluster_addr_table.values() if cluster is None else [info.cluster_addr_table[cluster]]
    brokers = [info.broker_addr_table.get(name) for name in {name for names in clusters for name in names}]
    addresses = sorted(
        broker.broker_addrs[MASTER_ID] for broker in brokers if broker is not None and MASTER_ID in broker.broker_addrs
    )
    if not addresses:
        raise ClientError(ResponseCode.SYSTEM_ERROR, "no master broker is registered at the nameserver")
    return addresses
