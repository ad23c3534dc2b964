"""State shared by the producers and consumers of one client: nameservers, routes, broker addresses, heartbeats.

Routes are looked up on first use, with one request for concurrent callers, and refreshed every 30 seconds; the chosen
nameserver is kept while it answers. Rule: a cached route stays when a nameserver no longer knows the topic (one that
has just started knows none), until a new route replaces it. An error code in a broker's answer becomes
:class:`BrokerError`; transport failures are raised unchanged, so a caller can tell "refused" from "unknown".

Compatibility: ``MQClientInstance`` (4.9.8). A nameserver that times out is skipped too, where Java skips
only one that refuses the connection; heartbeats of a client are sent concurrently.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import trio

from rocketpy.client.config import DEFAULT_INSTANCE_NAME, ClientConfig
from rocketpy.client.environment import ClientEnvironment
from rocketpy.client.routes import RouteTable, publish_queues, route_like, subscribe_queues
from rocketpy.client.scope import unwrapped
from rocketpy.client.services.repeated_call import RepeatedCallService
from rocketpy.errors import (
    BrokerError,
    ClientError,
    RemoteProtocolError,
    RemotingConnectError,
    RemotingError,
    RequestError,
)
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from rocketpy.protocol.bodies.route import MASTER_ID, ClusterInfo, TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.client import UnregisterClientRequestHeader
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.namesrv import GetRouteInfoRequestHeader
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.signature import RequestSigner
from rocketpy.remoting.client import RemotingClient, open_remoting_client
from rocketpy.remoting.config import NettyClientConfig

BROKER_NOT_EXIST = 10003
NO_ROUTE = 10005
UNREGISTER_SECONDS = 1.0
REFRESH_PAUSE_SECONDS = 1.0
"""Minimum pause between two refreshes of the routes, however many are requested."""

HeaderT = TypeVar("HeaderT")


@asynccontextmanager
async def open_client_instance(
    config: ClientConfig, *, environment: ClientEnvironment | None = None
) -> AsyncIterator[ClientInstance]:
    """Open the shared part of a client; at the end of the block it unregisters and closes its connections."""
    environment = environment or ClientEnvironment()
    remoting_config = NettyClientConfig(use_tls=config.use_tls)
    signer = None if config.credentials is None else RequestSigner(config.credentials)
    opening = open_remoting_client(
        config=remoting_config, tls=config.tls, before_request=signer, network=environment.network
    )
    async with unwrapped(opening) as remoting, unwrapped(trio.open_nursery()) as nursery:
        instance = ClientInstance(remoting=remoting, config=config, environment=environment)
        await nursery.start(instance.run)
        try:
            yield instance
        finally:
            nursery.cancel_scope.cancel()
            with trio.move_on_after(UNREGISTER_SECONDS, shield=True):
                await instance.unregister()


class ClientInstance:
    """Shared state of one client. Created by :func:`open_client_instance`."""

    def __init__(self, *, remoting: RemotingClient, config: ClientConfig, environment: ClientEnvironment) -> None:
        self.config = config
        self.clock = environment.clock
        self.randomness = environment.randomness
        self.process_id = environment.process_id
        self.address = environment.network.local_address()
        self.client_id = f"{self.address}@{self._instance_name()}"
        self._remoting = remoting
        self._name_servers = list(config.name_servers)
        self.randomness.shuffle(self._name_servers)
        self._chosen_name_server = 0
        self._routes = RouteTable()
        # One task looks a topic up while the others wait for its result: the request awaits.
        self._looking_up: dict[str, trio.Lock] = {}
        self._producer_groups: set[str] = set()
        self._consumers: dict[str, ConsumerData] = {}
        self._registered_brokers: set[str] = set()  # have received a heartbeat, so they are to be unregistered from
        self._heartbeats = RepeatedCallService(self.heartbeat, interval_s=config.heartbeat_broker_interval / 1000)
        self._refreshes = RepeatedCallService(
            self.refresh_routes,
            interval_s=config.poll_name_server_interval / 1000,
            pause_s=REFRESH_PAUSE_SECONDS,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the services of the client until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._heartbeats.run)
            nursery.start_soon(self._refreshes.run)
            task_status.started()

    # ---- requests -------------------------------------------------------------------------------------------------

    async def request(
        self,
        address: str,
        request: RemotingCommand,
        expected: Collection[int] = (ResponseCode.SUCCESS,),
        *,
        timeout_s: float | None = None,
    ) -> RemotingCommand:
        """Send a request to one address; BrokerError for an answer whose code is not expected."""
        patience = self.config.mq_client_api_timeout / 1000 if timeout_s is None else timeout_s
        response = await self._remoting.request(address, request, patience)
        if response.code not in expected:
            raise BrokerError(response.code, response.remark, address)
        return response

    async def name_server_request(
        self, request: RemotingCommand, expected: Collection[int] = (ResponseCode.SUCCESS,)
    ) -> RemotingCommand:
        """Send a request to the chosen nameserver, and to the others in turn when it does not answer."""
        failures: list[RemotingError] = []
        for _ in self._name_servers:
            address = self._name_servers[self._chosen_name_server]
            try:
                return await self.request(address, request, expected)
            except RemotingError as failure:
                failures.append(failure)
                if self._name_servers[self._chosen_name_server] == address:  # no other task has switched meanwhile
                    self._chosen_name_server = (self._chosen_name_server + 1) % len(self._name_servers)
        raise RemotingConnectError("no nameserver answers: " + "; ".join(map(str, failures))) from failures[0]

    async def cluster_info(self) -> ClusterInfo:
        """Return clusters, brokers and their addresses."""
        response = await self.name_server_request(make_request(RequestCode.GET_BROKER_CLUSTER_INFO))
        return decode_body(response.body, ClusterInfo)

    # ---- routes ---------------------------------------------------------------------------------------------------

    async def find_route(self, topic: str) -> TopicRouteData | None:
        """Fetch the route of a topic from a nameserver; None when it does not know the topic. Not cached."""
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        response = await self.name_server_request(
            make_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header),
            (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST),
        )
        if response.code != ResponseCode.SUCCESS:
            return None
        return decode_body(response.body, TopicRouteData)

    async def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues a producer may send to, those of the template topic when the topic is new.

        Cached if possible. ClientError 10005 when there are none.
        """
        queues = self._routes.publish_queues(topic)
        if not queues:
            async with self._looking_up.setdefault(topic, trio.Lock()):
                queues = self._routes.publish_queues(topic) or await self._look_up_for_sending(topic)
        return queues

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Fetch the queues a consumer may pull from, in order; ClientError 10005 when no broker has the topic."""
        route = await self.find_route(topic)
        if route is None:
            raise no_route(topic)
        self._put_route(topic, route)
        return subscribe_queues(topic, route)

    async def publish_address(self, queue: MessageQueue) -> str:
        """Return the address of a queue's master; ClientError 10003 when a fresh look-up finds none either."""
        address = self._routes.publish_address(queue.broker_name)
        if address is None:
            await self._look_up_again(queue.topic)
            address = self._routes.publish_address(queue.broker_name)
        if address is None:
            raise ClientError(BROKER_NOT_EXIST, f"The broker[{queue.broker_name}] not exist")
        return address

    async def offset_address(self, queue: MessageQueue) -> str:
        """Return the address that has a queue's progress: the master's, that of a slave while there is no master.

        ClientError 10003 when a fresh look-up finds neither.
        """
        if self._routes.publish_address(queue.broker_name) is None:
            with suppress(RemotingError, BrokerError, RemoteProtocolError):  # a slave that is known already will do
                await self._look_up_again(queue.topic)
        return await self.subscribe_address(queue)

    async def subscribe_address(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> str:
        """Return the address to pull a queue from: that broker id if registered, else another of the same name."""
        address = self._routes.subscribe_address(queue.broker_name, broker_id)
        if address is None:
            await self._look_up_again(queue.topic)
            address = self._routes.subscribe_address(queue.broker_name, broker_id)
        if address is None:
            raise ClientError(BROKER_NOT_EXIST, f"The broker[{queue.broker_name}] not exist")
        return address

    def request_route_refresh(self) -> None:
        """Refresh the routes soon: a broker does not answer and may have moved."""
        self._refreshes.wake()

    async def refresh_routes(self) -> None:
        """Look every known topic up again; the cached routes stay when no nameserver can be reached."""
        for topic in self._routes.topics:
            try:
                await self._look_up_again(topic)
            except RemotingError:
                return
            except (BrokerError, RemoteProtocolError):
                continue
        self._routes.forget_unrouted_brokers()

    # ---- heartbeats -----------------------------------------------------------------------------------------------

    def add_producer(self, group: str) -> None:
        """Announce a producer group in heartbeats from now on."""
        self._producer_groups.add(group)
        self._heartbeats.wake()

    def add_consumer(self, consumer: ConsumerData) -> None:
        """Announce a consumer group and its subscriptions in heartbeats from now on."""
        self._consumers[consumer.group_name] = consumer
        self._heartbeats.wake()

    async def heartbeat(self) -> None:
        """Send a heartbeat to every broker of every known route; a failed one is retried with the next round."""
        if not self._producer_groups and not self._consumers:
            return
        body = encode_body(
            HeartbeatData(
                client_id=self.client_id,
                producer_data_set=[ProducerData(group) for group in sorted(self._producer_groups)],
                consumer_data_set=list(self._consumers.values()),
            )
        )
        async with trio.open_nursery() as nursery:
            for address in self._routes.broker_addresses(masters_only=not self._consumers):
                nursery.start_soon(self._send_heartbeat, address, body)

    async def unregister(self) -> None:
        """Unregister from every broker that has received a heartbeat."""
        async with trio.open_nursery() as nursery:
            for address in self._registered_brokers:
                nursery.start_soon(self._unregister_from, address)

    # ---- private --------------------------------------------------------------------------------------------------

    def _instance_name(self) -> str:
        if self.config.instance_name != DEFAULT_INSTANCE_NAME:
            return self.config.instance_name
        return f"{self.process_id}#{self.randomness.getrandbits(48)}"

    async def _look_up_for_sending(self, topic: str) -> tuple[MessageQueue, ...]:
        route = await self.find_route(topic)
        if route is None:
            template = await self.find_route(self.config.create_topic_key)
            if template is None:
                raise no_route(topic)
            route = route_like(template, self.config.default_topic_queue_nums)
        queues = publish_queues(topic, route)
        if not queues:
            raise ClientError(
                NO_ROUTE, f"No route info of this topic: {topic}: no broker with a master lets it be written"
            )
        self._put_route(topic, route)
        return queues

    async def _look_up_again(self, topic: str) -> None:
        route = await self.find_route(topic)
        if route is not None:
            self._put_route(topic, route)

    def _put_route(self, topic: str, route: TopicRouteData) -> None:
        if self._routes.put(topic, route):
            self._heartbeats.wake()

    async def _send_heartbeat(self, address: str, body: bytes) -> None:
        self._registered_brokers.add(address)
        try:
            await self.request(address, make_request(RequestCode.HEART_BEAT, body=body))
        except RemotingError:
            self._registered_brokers.discard(address)
        except BrokerError:
            pass

    async def _unregister_from(self, address: str) -> None:
        producers: list[tuple[str | None, str | None]] = [(group, None) for group in sorted(self._producer_groups)]
        for producer_group, consumer_group in producers + [(None, group) for group in self._consumers]:
            header = UnregisterClientRequestHeader(
                client_id=self.client_id, producer_group=producer_group, consumer_group=consumer_group
            )
            try:
                await self.request(address, make_request(RequestCode.UNREGISTER_CLIENT, header))
            except (RemotingError, BrokerError):
                return


def no_route(topic: str) -> ClientError:
    """Return the error for a topic that no nameserver knows."""
    return ClientError(NO_ROUTE, f"No route info of this topic: {topic}")


def read_response(response: RemotingCommand, header_class: type[HeaderT]) -> HeaderT:
    """Return the header of an answer; RemoteProtocolError when a required field is missing."""
    try:
        return read_header(response, header_class)
    except RequestError as failure:
        raise RemoteProtocolError(failure.remark) from failure
