"""Tells the brokers which groups this client has, and at the end that they have gone.

Compatibility: ``MQClientInstance.sendHeartbeatToAllBroker`` and ``unregisterClient`` (4.9.8). Heartbeats of one round
are sent concurrently.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from rocketpy.client.name_servers import Request
from rocketpy.client.routes import RouteTable
from rocketpy.client.services.repeated_call import RepeatedCallService
from rocketpy.client.states import ClientStates, StateSubject
from rocketpy.client.validators import UNSPECIFIED
from rocketpy.errors import BrokerError, ClientError, RemotingError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.client import UnregisterClientRequestHeader

UNREGISTER_SECONDS = 1.0
"""How long leaving may take; brokers notice a closed connection anyway."""

_log = logging.getLogger("rocketpy.client")


class Heartbeats:
    """The groups of one client, and the service that announces them."""

    def __init__(
        self,
        *,
        client_id: str,
        table: Callable[[], RouteTable],
        request: Request,
        interval_s: float,
        states: ClientStates,
    ) -> None:
        self._client_id = client_id
        self._table = table
        self._request = request
        self._states = states
        self._producer_groups: dict[str, None] = {}
        self._consumers: dict[str, Callable[[], ConsumerData]] = {}
        self._registered: dict[str, None] = {}  # brokers that have received a heartbeat, to be unregistered from
        self._service = RepeatedCallService(self.send, interval_s=interval_s)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send heartbeats until cancelled."""
        await self._service.run(task_status=task_status)

    def wake(self) -> None:
        """Send heartbeats soon: what they say has changed, or a broker is new."""
        self._service.wake()

    def note_connection_end(self, address: str) -> None:
        """Note that a connection has ended: a state of the client, if it is that of a broker that gets heartbeats."""
        if address in self._registered and (self._producer_groups or self._consumers):
            self._states.fails(StateSubject.BROKER, address, "the connection has ended")

    def add_producer(self, group: str) -> None:
        """Announce a producer group from now on; ClientError if the client has it already."""
        if group in self._producer_groups:
            raise _created_before("producer", group)
        self._producer_groups[group] = None
        self.wake()

    def add_consumer(self, group: str, data: Callable[[], ConsumerData]) -> None:
        """Announce a consumer group from now on, with what ``data`` returns then; ClientError if it is known already.

        A change of the data is announced with the next heartbeat; :meth:`wake` makes it come soon.
        """
        if group in self._consumers:
            raise _created_before("consumer", group)
        self._consumers[group] = data
        self.wake()

    async def remove_producer(self, group: str) -> None:
        """Unregister a group from the brokers; returns within ``UNREGISTER_SECONDS``, also when cancelled."""
        del self._producer_groups[group]
        await self._unregister(producer_group=group)

    async def remove_consumer(self, group: str, *, keeps_locks: bool = False) -> None:
        """Unregister a group from the brokers; returns within ``UNREGISTER_SECONDS``, also when cancelled.

        ``keeps_locks``: its queues stay locked until their locks expire.
        """
        del self._consumers[group]
        await self._unregister(consumer_group=group, keep_locks=keeps_locks or None)

    async def send(self) -> None:
        """Send a heartbeat to every broker of every known route; a failed one is repeated with the next round."""
        if not self._producer_groups and not self._consumers:
            return
        self._forget_unrouted()
        body = self._body()
        async with trio.open_nursery() as nursery:
            for address in self.addresses():
                nursery.start_soon(self._send_to, address, body)

    def addresses(self) -> list[str]:
        """Return the brokers that get heartbeats: none without groups, only masters without consumers."""
        if not self._producer_groups and not self._consumers:
            return []
        return self._table().broker_addresses(masters_only=not self._consumers)

    def consumed_addresses(self) -> list[str]:
        """Return the brokers that have to know this client's consumers: none without a consumer."""
        return self._table().broker_addresses() if self._consumers else []

    async def introduce(self, address: str) -> None:
        """Send one broker a heartbeat, whatever it answers; RemotingError when it does not."""
        await self._announce(address, self._body())

    def _body(self) -> bytes:
        return encode_body(
            HeartbeatData(
                client_id=self._client_id,
                producer_data_set=[ProducerData(group) for group in sorted(self._producer_groups)],
                consumer_data_set=[data() for data in self._consumers.values()],
            )
        )

    async def _send_to(self, address: str, body: bytes) -> None:
        try:
            await self._announce(address, body)
        except RemotingError as failure:
            self._registered.pop(address, None)
            self._states.fails(StateSubject.BROKER, address, failure)

    async def _announce(self, address: str, body: bytes) -> None:
        self._registered[address] = None
        try:
            await self._request(address, make_request(RequestCode.HEART_BEAT, body=body))
        except BrokerError as failure:
            self._states.fails(StateSubject.HEARTBEAT, address, failure)
        else:
            self._states.works(StateSubject.HEARTBEAT, address)

    def _forget_unrouted(self) -> None:
        """Forget the brokers that no route names any more: they get no heartbeats, so they forget this client too."""
        routed = set(self._table().broker_addresses())
        for address in self._registered.keys() - routed:
            del self._registered[address]
            self._states.forget(StateSubject.BROKER, address)
            self._states.forget(StateSubject.HEARTBEAT, address)

    async def _unregister(
        self, *, producer_group: str | None = None, consumer_group: str | None = None, keep_locks: bool | None = None
    ) -> None:
        header = UnregisterClientRequestHeader(
            client_id=self._client_id,
            producer_group=producer_group,
            consumer_group=consumer_group,
            keep_locks=keep_locks,
        )
        with trio.move_on_after(UNREGISTER_SECONDS, shield=True):
            async with trio.open_nursery() as nursery:
                for address in sorted(self._registered):  # in one order whatever their hashes, for simulated runs
                    nursery.start_soon(self._unregister_from, address, header)

    async def _unregister_from(self, address: str, header: UnregisterClientRequestHeader) -> None:
        try:
            await self._request(address, make_request(RequestCode.UNREGISTER_CLIENT, header))
        except (RemotingError, BrokerError) as failure:  # it notices the end of the connection
            _log.info("leaving broker %s without its answer: %s", address, failure)


def _created_before(role: str, group: str) -> ClientError:
    return ClientError(UNSPECIFIED, f"The {role} group[{group}] has been created before, specify another name please.")
