"""What an operator asks of a cluster: topics, routes, clusters. Works against rocketpy and Java alike.

Compatibility: ``DefaultMQAdminExtImpl`` (4.9.8); client.md 14.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from rocketpy.client.config import ClientConfig
from rocketpy.client.instance import MASTER_ID, ClientInstance, open_client_instance
from rocketpy.errors import ClientError
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import ClusterInfo, TopicList, TopicRouteData
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.topic import CreateTopicRequestHeader

PERM_READ_WRITE = 6


@asynccontextmanager
async def open_admin_client(
    name_servers: str | Sequence[str], *, config: ClientConfig | None = None
) -> AsyncIterator[AdminClient]:
    """Open an admin client; nothing of it is left when the block ends."""
    async with open_client_instance(config or ClientConfig(name_servers=name_servers)) as instance:
        yield AdminClient(instance=instance)


class AdminClient:
    """Made by :func:`open_admin_client`."""

    def __init__(self, *, instance: ClientInstance) -> None:
        self._instance = instance

    async def topics(self) -> list[str]:
        """Return the names of all topics, system topics included, sorted."""
        response = await self._instance.name_server_request(
            make_request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        )
        return sorted(decode_body(response.body, TopicList).topic_list)

    async def route(self, topic: str) -> TopicRouteData | None:
        """Return where a topic lives, None when nobody has it."""
        return await self._instance.find_route(topic)

    async def cluster_info(self) -> ClusterInfo:
        """Return clusters, brokers and their addresses."""
        return await self._instance.cluster_info()

    async def create_topic(
        self, topic: str, *, queue_nums: int = 8, perm: int = PERM_READ_WRITE, cluster: str | None = None
    ) -> list[str]:
        """Create or update a topic on every master (of one cluster); return the addresses that have it now.

        Raises BrokerError when a broker refuses (a bad name, a system topic), ClientError without any broker.
        """
        info = await self._instance.cluster_info()
        if cluster is not None and cluster not in info.cluster_addr_table:
            known = ", ".join(sorted(info.cluster_addr_table)) or "none"
            raise ClientError(1, f"no cluster named {cluster}, known: {known}")
        names = (
            info.cluster_addr_table[cluster]
            if cluster is not None
            else [name for members in info.cluster_addr_table.values() for name in members]
        )
        masters = sorted(
            info.broker_addr_table[name].broker_addrs[MASTER_ID]
            for name in set(names)
            if MASTER_ID in info.broker_addr_table[name].broker_addrs
        )
        if not masters:
            raise ClientError(1, "no master broker is registered at the nameserver")
        header = CreateTopicRequestHeader(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=queue_nums,
            write_queue_nums=queue_nums,
            perm=perm,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=False,
        )
        for address in masters:
            await self._instance.request(address, make_request(RequestCode.UPDATE_AND_CREATE_TOPIC, header))
        return masters
