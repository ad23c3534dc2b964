"""State shared by the roles of one client: connections, routes, heartbeats, client id.

An error code in a peer's answer becomes :class:`BrokerError`; transport failures are raised unchanged, so a caller can
distinguish "refused" from "unknown". Routes are refreshed every 30 seconds.

Compatibility: ``MQClientInstance`` (4.9.8). A client is what its program opens, so two clients with the same id are two
of them, where Java shares one instance among all of a process that have the same id.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TypeVar

import attrs
import trio

from rocketpy.client.answers import Answers
from rocketpy.client.broker_requests import BrokerRequests
from rocketpy.client.config import DEFAULT_INSTANCE_NAME, ClientConfig
from rocketpy.client.environment import ClientEnvironment
from rocketpy.client.heartbeats import Heartbeats
from rocketpy.client.name_servers import NameServers
from rocketpy.client.namespace import Namespace
from rocketpy.client.reconnects import Reconnects
from rocketpy.client.replies import Replies
from rocketpy.client.route_finder import RouteFinder
from rocketpy.client.scope import unwrapped
from rocketpy.client.services.repeated_call import RepeatedCallService
from rocketpy.client.states import ClientStates, StateSubject
from rocketpy.errors import BrokerError, RemoteProtocolError, RemotingConnectError, RequestError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.host import host_of
from rocketpy.protocol.namespace import namespace_of_endpoint
from rocketpy.protocol.signature import RequestSigner
from rocketpy.remoting.client import RemotingClient, open_remoting_client
from rocketpy.remoting.config import NettyClientConfig
from rocketpy.remoting.network import split_address

REFRESH_PAUSE_SECONDS = 1.0
"""Minimum pause between two refreshes of the routes, however many are requested."""
_LOOK_UPS = (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO)
VIP_PORT_DISTANCE = 2
"""The VIP port of a broker is its port less this."""

HeaderT = TypeVar("HeaderT")


@asynccontextmanager
async def open_client_instance(
    config: ClientConfig, *, environment: ClientEnvironment | None = None
) -> AsyncIterator[ClientInstance]:
    """Open the shared part of a client; its connections and tasks end with the block."""
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


class ClientInstance:
    """The shared part of one client. Created by :func:`open_client_instance`.

    ``name_servers``, ``routes``, ``heartbeats``, ``reconnects``, ``broker_requests`` and ``states`` are its parts;
    roles use them directly.
    """

    def __init__(self, *, remoting: RemotingClient, config: ClientConfig, environment: ClientEnvironment) -> None:
        self.config = config
        self.namespace = config.namespace or namespace_of_endpoint(config.name_servers[0])
        """Empty without one."""
        self.clock = environment.clock
        self.randomness = environment.randomness
        self.process_id = environment.process_id
        self.address = environment.network.local_address()
        self.client_ip = config.client_ip or self.address
        self.client_id = "@".join(filter(None, (self.client_ip, self._instance_name(), config.unit_name)))
        self.trace_dispatcher_numbers = itertools.count(1)
        self.remoting = remoting
        self.home = remoting.home
        """Context of the tasks that serve many calls, see :mod:`rocketpy.remoting.home`."""
        self.answers = Answers(environment.run_blocking)
        self.states = ClientStates()
        self.name_servers = NameServers(
            config.name_servers,
            request=self.request_name_server,
            randomness=self.randomness,
            answers=self.answers,
            states=self.states,
        )
        self._asking: set[str] = set()  # nameservers that have asked for an account
        self.broker_requests = BrokerRequests(remoting)
        self.replies = Replies(self.broker_requests, environment.clock, self.answers, Namespace(self.namespace))
        self.heartbeats = Heartbeats(
            client_id=self.client_id,
            table=lambda: self.routes.table,
            request=self.request,
            interval_s=config.heartbeat_broker_interval / 1000,
            states=self.states,
        )
        self.routes = RouteFinder(self.name_servers, found_brokers=self.heartbeats.wake, states=self.states)
        self._refreshes = RepeatedCallService(
            self.routes.refresh,
            interval_s=config.poll_name_server_interval / 1000,
            pause_s=REFRESH_PAUSE_SECONDS,
        )
        self.reconnects = Reconnects(
            addresses=self.heartbeats.consumed_addresses,
            introduce=self.heartbeats.introduce,
            refresh_routes=self.request_route_refresh,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the services of the client until cancelled."""
        ends = self.remoting.reporting_ends
        try:
            with ends(self.heartbeats.note_connection_end), ends(self.reconnects.connection_ended):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.heartbeats.run)
                    nursery.start_soon(self._refreshes.run)
                    nursery.start_soon(self.reconnects.run)
                    task_status.started()
        finally:
            self.states.close()

    async def request(
        self,
        address: str,
        request: RemotingCommand,
        expected: Collection[int] = (ResponseCode.SUCCESS,),
        *,
        timeout_s: float | None = None,
    ) -> RemotingCommand:
        """Send a request to one address; BrokerError for an answer whose code is not expected.

        Without ``timeout_s`` it may take ``mq_client_api_timeout``.
        """
        response = await self.remoting.request(address, request, self._patience(timeout_s))
        self.states.works(StateSubject.BROKER, address)
        return _expect(response, expected, address)

    async def request_name_server(
        self,
        address: str,
        request: RemotingCommand,
        expected: Collection[int] = (ResponseCode.SUCCESS,),
        *,
        timeout_s: float | None = None,
    ) -> RemotingCommand:
        """The same to a nameserver, which gets no signature before it has asked for one.

        It asks by answering NO_PERMISSION to a look-up, which no nameserver refuses for another reason.

        Compatibility: RocketMQ's client signs every request. Its nameservers ask for an account from 5.3 on, where
        ``authenticationEnabled`` is set.
        """
        patience = self._patience(timeout_s)
        response = await self.remoting.request(address, _copy_of(request), patience, is_signed=address in self._asking)
        asks = response.code == ResponseCode.NO_PERMISSION and request.code in _LOOK_UPS
        if asks and address not in self._asking and self.remoting.signs_requests:
            self._asking.add(address)
            response = await self.remoting.request(address, _copy_of(request), patience)
        return _expect(response, expected, address)

    def broker_port_of(self, address: str) -> str:
        """Return the address for requests that may use the VIP channel: its port where ``vip_channel_enabled``."""
        if not self.config.vip_channel_enabled:
            return address
        try:
            _, port = split_address(address)
        except RemotingConnectError:
            return address  # connecting to it fails with that error
        return f"{host_of(address)}:{port - VIP_PORT_DISTANCE}"

    def request_route_refresh(self) -> None:
        """Refresh the routes soon: a broker does not answer and may have moved."""
        self._refreshes.wake()

    def _patience(self, timeout_s: float | None) -> float:
        return self.config.mq_client_api_timeout / 1000 if timeout_s is None else timeout_s

    def _instance_name(self) -> str:
        if self.config.instance_name != DEFAULT_INSTANCE_NAME:
            return self.config.instance_name
        return f"{self.process_id}#{self.randomness.getrandbits(48)}"


def read_response(response: RemotingCommand, header_class: type[HeaderT]) -> HeaderT:
    """Return the header of an answer; RemoteProtocolError when a required field is missing."""
    try:
        return read_header(response, header_class)
    except RequestError as failure:
        raise RemoteProtocolError(failure.remark) from failure


def _copy_of(request: RemotingCommand) -> RemotingCommand:
    """Return a request of its own for one nameserver: what is signed for one is not for the next."""
    return attrs.evolve(request, ext_fields=None if request.ext_fields is None else dict(request.ext_fields))


def _expect(response: RemotingCommand, expected: Collection[int], address: str) -> RemotingCommand:
    if response.code not in expected:
        raise BrokerError(response.code, response.remark, address)
    return response
