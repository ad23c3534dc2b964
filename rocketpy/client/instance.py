"""What the producers and consumers of one client share: nameservers, routes, broker addresses, heartbeats.

Routes are looked up on first use and refreshed by :class:`RouteRefreshService`; the chosen nameserver is kept while it
answers. Everything a broker answers with an error code becomes :class:`BrokerError`; the transport's own failures stay
what they are, so a caller can tell "refused" from "unknown".

Compatibility: ``MQClientInstance`` (4.9.8); client.md 2.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from random import Random

import trio

from rocketpy.client.config import ClientConfig
from rocketpy.client.services.heartbeat import HeartbeatService
from rocketpy.client.services.route_refresh import RouteRefreshService
from rocketpy.clock import Clock, SystemClock
from rocketpy.errors import BrokerError, ClientError, RemotingConnectError, RemotingError
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from rocketpy.protocol.bodies.route import ClusterInfo, QueueData, TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.client import UnregisterClientRequestHeader
from rocketpy.protocol.headers.namesrv import GetRouteInfoRequestHeader
from rocketpy.protocol.message import MessageQueue
from rocketpy.remoting.client import RemotingClient, open_remoting_client

BROKER_NOT_EXIST = 10003
NO_ROUTE = 10005
MASTER_ID = 0
PERM_READ = 4
PERM_WRITE = 2
UNREGISTER_SECONDS = 1.0


@asynccontextmanager
async def open_client_instance(
    config: ClientConfig, *, clock: Clock | None = None, randomness: Random | None = None
) -> AsyncIterator[ClientInstance]:
    """Open the shared part of a client; its connections and services end with the block."""
    async with open_remoting_client() as remoting, trio.open_nursery() as nursery:
        instance = ClientInstance(
            remoting=remoting, config=config, clock=clock or SystemClock(), randomness=randomness or Random()
        )
        heartbeats = HeartbeatService(send=instance.heartbeat, interval_s=config.heartbeat_broker_interval / 1000)
        routes = RouteRefreshService(
            refresh=instance.refresh_routes, interval_s=config.poll_name_server_interval / 1000
        )
        nursery.start_soon(heartbeats.run)
        nursery.start_soon(routes.run)
        try:
            yield instance
        finally:
            with trio.move_on_after(UNREGISTER_SECONDS, shield=True):
                await instance.unregister()
            nursery.cancel_scope.cancel()


class ClientInstance:
    """Made by :func:`open_client_instance`."""

    def __init__(self, *, remoting: RemotingClient, config: ClientConfig, clock: Clock, randomness: Random) -> None:
        self.remoting = remoting
        self.config = config
        self.clock = clock
        self.randomness = randomness
        self.client_id = f"{config.instance_name}@{randomness.getrandbits(64):016x}"
        self._name_servers = list(config.name_servers)
        randomness.shuffle(self._name_servers)
        self._routes: dict[str, TopicRouteData] = {}
        self._producer_groups: set[str] = set()
        self._consumers: dict[str, ConsumerData] = {}

    # ---- nameservers ----------------------------------------------------------------------------------------------

    async def name_server_request(
        self, request: RemotingCommand, expected: Collection[int] = (ResponseCode.SUCCESS,)
    ) -> RemotingCommand:
        """Ask the chosen nameserver, and the others in turn when it cannot be reached."""
        failures: list[RemotingError] = []
        for _ in range(len(self._name_servers)):
            address = self._name_servers[0]
            try:
                return await self.request(address, request, expected)
            except RemotingError as failure:
                failures.append(failure)
                self._name_servers.append(self._name_servers.pop(0))
        raise RemotingConnectError("no nameserver answers: " + "; ".join(map(str, failures))) from failures[0]

    async def every_name_server_request(self, request: RemotingCommand) -> None:
        """Tell every nameserver; fails when one of them cannot be told."""
        for address in self._name_servers:
            await self.request(address, request)

    async def request(
        self,
        address: str,
        request: RemotingCommand,
        expected: Collection[int] = (ResponseCode.SUCCESS,),
        *,
        timeout_s: float | None = None,
    ) -> RemotingCommand:
        """Ask one address; BrokerError for an answer whose code is not expected."""
        patience = self.config.mq_client_api_timeout / 1000 if timeout_s is None else timeout_s
        response = await self.remoting.request(address, request, patience)
        if response.code not in expected:
            raise BrokerError(response.code, response.remark, address)
        return response

    # ---- routes ---------------------------------------------------------------------------------------------------

    async def find_route(self, topic: str) -> TopicRouteData | None:
        """Look a topic up at a nameserver; None when nobody has it."""
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        response = await self.name_server_request(
            make_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header),
            (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST),
        )
        if response.code != ResponseCode.SUCCESS:
            return None
        return decode_body(response.body, TopicRouteData)

    async def route(self, topic: str, *, refresh: bool = False) -> TopicRouteData:
        """Return the route of a topic, from memory if possible; ClientError 10005 when there is none."""
        route = self._routes.get(topic)
        if route is None or refresh:
            route = await self.find_route(topic)
            if route is None:
                self._routes.pop(topic, None)
                raise ClientError(NO_ROUTE, f"No route info of this topic: {topic}")
            self._routes[topic] = route
        return route

    async def refresh_routes(self) -> None:
        """Look every known topic up again; an unreachable nameserver leaves what we know."""
        for topic in list(self._routes):
            try:
                await self.route(topic, refresh=True)
            except (RemotingError, BrokerError, ClientError):
                continue

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues a producer may send to, those of the template topic when the topic is new."""
        try:
            route = await self.route(topic)
            queues = _publish_queues(topic, route)
        except ClientError:
            queues = []
        if not queues:
            template = await self.find_route(self.config.create_topic_key)
            if template is not None:
                self._routes.setdefault(self.config.create_topic_key, template)
                queues = _publish_queues(topic, template, self.config.default_topic_queue_nums)
        if not queues:
            raise ClientError(NO_ROUTE, f"No route info of this topic: {topic}")
        return queues

    async def subscribe_queues(self, topic: str, *, refresh: bool = True) -> list[MessageQueue]:
        """Return the queues a consumer may pull from, in order."""
        route = await self.route(topic, refresh=refresh)
        return sorted(
            MessageQueue(topic, queue_data.broker_name, queue_id)
            for queue_data in route.queue_datas
            if queue_data.perm & PERM_READ
            for queue_id in range(queue_data.read_queue_nums)
        )

    async def master_address(self, broker_name: str) -> str:
        """Return the master's address of a broker that some known route names; ClientError 10003 when none does."""
        for route in self._routes.values():
            for broker in route.broker_datas:
                if broker.broker_name == broker_name and MASTER_ID in broker.broker_addrs:
                    return broker.broker_addrs[MASTER_ID]
        raise ClientError(BROKER_NOT_EXIST, f"The broker[{broker_name}] not exist")

    async def cluster_info(self) -> ClusterInfo:
        """Return clusters, brokers and their addresses."""
        response = await self.name_server_request(make_request(RequestCode.GET_BROKER_CLUSTER_INFO))
        return decode_body(response.body, ClusterInfo)

    # ---- heartbeats -----------------------------------------------------------------------------------------------

    def add_producer(self, group: str) -> None:
        """Name a producer group in heartbeats from now on."""
        self._producer_groups.add(group)

    def add_consumer(self, consumer: ConsumerData) -> None:
        """Name a consumer group and its subscriptions in heartbeats from now on."""
        self._consumers[consumer.group_name] = consumer

    async def heartbeat(self) -> None:
        """Tell every broker of every known route who we are; one that cannot be reached is left for the next time."""
        if not self._producer_groups and not self._consumers:
            return
        body = encode_body(
            HeartbeatData(
                client_id=self.client_id,
                producer_data_set=[ProducerData(group_name=group) for group in sorted(self._producer_groups)],
                consumer_data_set=list(self._consumers.values()),
            )
        )
        for address in self._broker_addresses():
            try:
                await self.request(address, make_request(RequestCode.HEART_BEAT, body=body))
            except (RemotingError, BrokerError):
                continue

    async def unregister(self) -> None:
        """Take leave of every broker."""
        for address in self._broker_addresses():
            for producer_group, consumer_group in self._groups():
                header = UnregisterClientRequestHeader(
                    client_id=self.client_id, producer_group=producer_group, consumer_group=consumer_group
                )
                try:
                    await self.request(address, make_request(RequestCode.UNREGISTER_CLIENT, header))
                except (RemotingError, BrokerError):
                    break

    def _groups(self) -> list[tuple[str | None, str | None]]:
        producers: list[tuple[str | None, str | None]] = [(group, None) for group in sorted(self._producer_groups)]
        return producers + [(None, group) for group in self._consumers]

    def _broker_addresses(self) -> list[str]:
        addresses = {
            address: None
            for route in self._routes.values()
            for broker in route.broker_datas
            for address in broker.broker_addrs.values()
        }
        return list(addresses)


def _publish_queues(topic: str, route: TopicRouteData, queue_nums_max: int | None = None) -> list[MessageQueue]:
    """Return the writable queues of brokers that have a master; at most ``queue_nums_max`` a broker."""
    masters = {broker.broker_name for broker in route.broker_datas if MASTER_ID in broker.broker_addrs}
    queues: list[MessageQueue] = []
    for queue_data in sorted(route.queue_datas, key=_broker_name):
        if queue_data.perm & PERM_WRITE and queue_data.broker_name in masters:
            nums = queue_data.write_queue_nums
            if queue_nums_max is not None:
                nums = min(queue_nums_max, queue_data.read_queue_nums)
            queues += [MessageQueue(topic, queue_data.broker_name, queue_id) for queue_id in range(nums)]
    return queues


def _broker_name(queue_data: QueueData) -> str:
    return queue_data.broker_name
