"""Topics: create, change, delete and list them; their routes, queues and offsets.

A topic lives on brokers, each of which has its own settings of it; the nameservers only know what brokers register.

Compatibility: the calls of ``DefaultMQAdminExtImpl`` and ``MQAdminImpl`` about topics (4.9.8). Java gives up at the
first broker or nameserver that fails; here every one is asked, see :mod:`rocketpy.client.admin.requests`.
"""

from __future__ import annotations

from collections.abc import Iterable

import trio

from rocketpy.client.admin.requests import QUEUE_TIMEOUT_SECONDS, AdminRequests, masters
from rocketpy.client.routes import publish_queues, subscribe_queues
from rocketpy.client.validators import UNSPECIFIED, check_topic
from rocketpy.errors import BrokersError, ClientError, RocketpyError
from rocketpy.protocol.bodies.codec import decode_peer_body
from rocketpy.protocol.bodies.group import GroupList
from rocketpy.protocol.bodies.route import MASTER_ID, TopicList, TopicRouteData
from rocketpy.protocol.bodies.stats import TopicStatsTable
from rocketpy.protocol.bodies.topic import TopicConfig, TopicConfigSerializeWrapper
from rocketpy.protocol.codes import PERM_READ_WRITE, RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.headers.namesrv import DeleteTopicFromNamesrvRequestHeader, GetTopicsByClusterRequestHeader
from rocketpy.protocol.headers.topic import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.topic_name import AUTO_CREATE_TOPIC_KEY_TOPIC, DLQ_PREFIX, RETRY_PREFIX

ROUTES_AT_ONCE_MAX = 32
CREATE_ATTEMPTS = 5
"""How often a broker is asked to create a topic like another one."""


class TopicAdmin:
    """Administration of topics. Obtained as :attr:`AdminClient.topics`."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    # ---- names and routes -----------------------------------------------------------------------------------------

    async def names(self) -> list[str]:
        """Return the names of all topics, system topics included, sorted."""
        return await self._listed(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)

    async def names_in_cluster(self, cluster: str) -> list[str]:
        """Return the names of the topics of one cluster, sorted; none for an unknown cluster."""
        return await self._listed(RequestCode.GET_TOPICS_BY_CLUSTER, GetTopicsByClusterRequestHeader(cluster))

    async def system_names(self, address: str | None = None) -> list[str]:
        """Return the system topics of a broker, sorted; without an address, the nameserver's: clusters and brokers."""
        if address is None:
            return await self._listed(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        response = await self._requests.ask_broker(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        return await _topics_in(self._requests, response, address)

    async def unit_names(self, *, with_retry: bool = False) -> list[str]:
        """Return the topics of units, sorted; retry topics only if asked for."""
        return _without_retry(await self._listed(RequestCode.GET_UNIT_TOPIC_LIST), with_retry=with_retry)

    async def unit_subscribed_names(self, *, outside_unit: bool = False, with_retry: bool = False) -> list[str]:
        """Return the topics with subscriptions of units, sorted; ``outside_unit``: those that are in no unit."""
        code = (
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST if outside_unit else RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST
        )
        return _without_retry(await self._listed(code), with_retry=with_retry)

    async def route(self, topic: str) -> TopicRouteData | None:
        """Return the route of a topic, None when no broker has it."""
        return await self._requests.instance.name_servers.find_route(topic)

    async def routes(self, topics: Iterable[str]) -> dict[str, TopicRouteData]:
        """Return the routes of topics, in their order, with concurrent requests; unknown topics are left out."""
        names = list(topics)
        found: dict[str, TopicRouteData] = {}
        failures: list[RocketpyError] = []
        limiter = trio.CapacityLimiter(ROUTES_AT_ONCE_MAX)

        async def find(topic: str) -> None:
            async with limiter:
                try:
                    route = None if failures else await self.route(topic)
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

    async def clusters(self, topic: str) -> list[str]:
        """Return the clusters whose brokers have a topic, sorted; ClientError 17 when none has it.

        Compatibility: Java looks only at the first broker of the route; here at all of them.
        """
        route = await self._requests.route(topic)
        names = {queues.broker_name for queues in route.queue_datas}
        info = await self._requests.cluster_info()
        return sorted(cluster for cluster, brokers in info.cluster_addr_table.items() if names.intersection(brokers))

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Fetch the queues that a producer may send to; ClientError when there are none."""
        queues = list(publish_queues(topic, await self._requests.route(topic)))
        if not queues:
            raise _no_queue(topic)
        return queues

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Fetch the queues that a consumer may pull from, in order; ClientError when there are none."""
        queues = subscribe_queues(topic, await self._requests.route(topic))
        if not queues:
            raise _no_queue(topic)
        return queues

    async def consumer_groups(self, topic: str) -> list[str]:
        """Return the groups that subscribe to a topic or have offsets in it, as the first of its brokers knows them."""
        address = await self._requests.first_address(topic)
        if address is None:
            return []
        response = await self._requests.ask_broker(
            address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, QueryTopicConsumeByWhoRequestHeader(topic)
        )
        return await self._requests.answers.decoded(
            response.body, lambda body: sorted(decode_peer_body(body, GroupList).group_list), address
        )

    # ---- settings -------------------------------------------------------------------------------------------------

    async def create(
        self, topic: str, *, queue_nums: int = 8, perm: int = PERM_READ_WRITE, cluster: str | None = None
    ) -> list[str]:
        """Create or update a topic on every master (of one cluster); return the masters' addresses, sorted.

        Raises BrokerError when a broker refuses (a system topic), BrokersError when some of several fail, ClientError
        for a bad name or without any master. The masters that did not fail have the topic.
        """
        check_topic(topic)
        addresses = masters(await self._requests.cluster_info(), cluster)
        config = TopicConfig(topic, read_queue_nums=queue_nums, write_queue_nums=queue_nums, perm=perm)
        await self._requests.each(addresses, lambda address: self.update(address, config))
        return addresses

    async def create_like(self, key: str, topic: str, *, queue_nums: int, topic_sys_flag: int = 0) -> list[str]:
        """Create a topic on the masters of the brokers that have the topic ``key``; return those that have it now.

        Each is asked up to five times. Raises only when none has taken it: BrokerError, or BrokersError of several.

        Compatibility: ``MQAdminImpl.createTopic``, which wraps every failure into "create new topic failed".
        """
        check_topic(topic)
        brokers = sorted((await self._requests.route(key)).broker_datas, key=lambda each: each.broker_name)
        addresses = [each.broker_addrs[MASTER_ID] for each in brokers if MASTER_ID in each.broker_addrs]
        if not addresses:
            raise ClientError(UNSPECIFIED, f"Not found broker, maybe key is wrong: no master has the topic {key}")
        config = TopicConfig(
            topic, read_queue_nums=queue_nums, write_queue_nums=queue_nums, topic_sys_flag=topic_sys_flag
        )

        async def create_at(address: str) -> None:
            for attempt in range(1, CREATE_ATTEMPTS + 1):
                try:
                    await self._update(address, config, key, QUEUE_TIMEOUT_SECONDS)
                    return
                except RocketpyError:
                    if attempt == CREATE_ATTEMPTS:
                        raise

        try:
            return list(await self._requests.each(addresses, create_at))
        except BrokersError as failure:
            if not failure.results:
                raise
            return list(failure.results)

    async def update(self, address: str, config: TopicConfig) -> None:
        """Create a topic on one broker, or replace its settings there; a slave refuses."""
        await self._update(address, config, AUTO_CREATE_TOPIC_KEY_TOPIC, None)

    async def config(self, address: str, topic: str) -> TopicConfig | None:
        """Return the settings of a topic on one broker, None when that broker does not have it."""
        return (await self.configs(address)).topic_config_table.get(topic)

    async def configs(self, address: str) -> TopicConfigSerializeWrapper:
        """Return the settings of all topics of one broker."""
        response = await self._requests.ask_broker(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        return await self._requests.answers.body(response, TopicConfigSerializeWrapper, address)

    async def user_configs(self, address: str, *, with_retry: bool = False) -> TopicConfigSerializeWrapper:
        """Return the settings of the topics that users created on one broker.

        System topics are left out, and retry and dead letter topics unless asked for.
        """
        wrapper = await self.configs(address)
        system = frozenset(await self.system_names(address))
        table = {
            topic: config
            for topic, config in wrapper.topic_config_table.items()
            if topic not in system and (with_retry or not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)))
        }
        return TopicConfigSerializeWrapper(table, wrapper.data_version)

    async def stats(self, topic: str) -> TopicStatsTable:
        """Return offsets and last store times of all queues of a topic; ClientError 17 when no broker has it."""
        header = GetTopicStatsInfoRequestHeader(topic)

        async def ask(address: str) -> TopicStatsTable:
            response = await self._requests.ask_broker(address, RequestCode.GET_TOPIC_STATS_INFO, header)
            return await self._requests.answers.body(response, TopicStatsTable, address)

        tables = await self._requests.each((await self._requests.broker_addresses(topic)).values(), ask)
        merged = {queue: offset for table in tables.values() for queue, offset in table.offset_table.items()}
        if not merged:
            raise ClientError(UNSPECIFIED, f"Not found the topic stats info: {topic} has no queue")
        return TopicStatsTable(merged)

    # ---- deletion -------------------------------------------------------------------------------------------------

    async def delete(self, topic: str, *, cluster: str) -> list[str]:
        """Delete a topic on every master of a cluster, then in the nameservers; return the masters' addresses.

        Messages and offsets of groups go with it. Nothing is taken from the nameservers when a broker fails.

        Compatibility: ``DeleteTopicSubCommand``, ``mqadmin deleteTopic``.
        """
        addresses = masters(await self._requests.cluster_info(), cluster)
        await self.delete_in_brokers(addresses, topic)
        await self.delete_in_name_servers(topic, cluster=cluster)
        return addresses

    async def delete_in_brokers(self, addresses: Iterable[str], topic: str) -> None:
        """Delete a topic on these brokers, with its messages."""
        header = DeleteTopicRequestHeader(topic)
        await self._requests.each(
            addresses,
            lambda address: self._requests.ask_broker(address, RequestCode.DELETE_TOPIC_IN_BROKER, header),
        )

    async def delete_in_name_servers(
        self, topic: str, *, cluster: str | None = None, addresses: Iterable[str] | None = None
    ) -> None:
        """Delete a topic from the routes of (these) nameservers, of one cluster only if it is named."""
        header = DeleteTopicFromNamesrvRequestHeader(topic=topic, cluster_name=cluster)
        await self._requests.ask_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, header, addresses=addresses)

    # ---- requests -------------------------------------------------------------------------------------------------

    async def _listed(self, code: RequestCode, header: object | None = None) -> list[str]:
        return await _topics_in(self._requests, await self._requests.ask_name_server(code, header))

    async def _update(self, address: str, config: TopicConfig, default_topic: str, timeout_s: float | None) -> None:
        header = CreateTopicRequestHeader(
            topic=config.topic_name,
            default_topic=default_topic,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
        )
        await self._requests.ask_broker(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header, timeout_s=timeout_s)


async def _topics_in(requests: AdminRequests, response: RemotingCommand, address: str = "") -> list[str]:
    return await requests.answers.decoded(
        response.body, lambda body: sorted(decode_peer_body(body, TopicList).topic_list), address
    )


def _without_retry(topics: list[str], *, with_retry: bool) -> list[str]:
    return topics if with_retry else [topic for topic in topics if not topic.startswith(RETRY_PREFIX)]


def _no_queue(topic: str) -> ClientError:
    return ClientError(UNSPECIFIED, f"Can not find Message Queue for this topic, {topic}: its route has none to use")
