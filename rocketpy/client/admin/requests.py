"""Sends the requests of administration: to one broker, one nameserver, or to several at once.

Rule: of several, all are asked, and what each one answered is kept. A failure at one of them ends no other request, and
is raised when all have answered: as itself when only one was asked, else in a
:class:`~rocketpy.errors.BrokersError` that has the results of the others.

Compatibility: ``MQClientAPIImpl`` and ``DefaultMQAdminExtImpl`` (4.9.8). Java asks one broker after the other, and the
first failure hides what happened at the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TypeVar

import trio

from rocketpy.client.answers import Answers
from rocketpy.client.config import DEFAULT_ADMIN_TIMEOUT_MS
from rocketpy.client.instance import ClientInstance
from rocketpy.errors import BrokersError, ClientError, RocketpyError
from rocketpy.protocol.bodies.route import MASTER_ID, BrokerData, ClusterInfo, TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request

DEFAULT_TIMEOUT_MS = DEFAULT_ADMIN_TIMEOUT_MS
"""Java's DefaultMQAdminExt."""
QUEUE_TIMEOUT_SECONDS = 6.0
"""MQAdminImpl has a time of its own for offsets and messages."""
_AT_ONCE_MAX = 32

T = TypeVar("T")


class AdminRequests:
    """Requests of one admin client. ``timeout_s`` bounds a request unless a call says otherwise."""

    def __init__(self, instance: ClientInstance, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        self.instance = instance
        self.timeout_s = timeout_ms / 1000

    @property
    def answers(self) -> Answers:
        """The reader of answers."""
        return self.instance.answers

    async def ask_broker(
        self,
        address: str,
        code: RequestCode,
        header: object | None = None,
        *,
        body: bytes | None = None,
        timeout_s: float | None = None,
    ) -> RemotingCommand:
        """Send a request to a broker, over its VIP port where that is enabled; BrokerError when it refuses."""
        return await self.send_to_broker(address, make_request(code, header, body), timeout_s=timeout_s)

    async def send_to_broker(
        self,
        address: str,
        request: RemotingCommand,
        *,
        expected: Collection[int] = (ResponseCode.SUCCESS,),
        timeout_s: float | None = None,
    ) -> RemotingCommand:
        """As :meth:`ask_broker`, for a request with fields of its own; no other request may go on with its value."""
        patience = self.timeout_s if timeout_s is None else timeout_s
        return await self.instance.request(self.instance.broker_port_of(address), request, expected, timeout_s=patience)

    async def ask_address(
        self, address: str, code: RequestCode, header: object | None = None, *, body: bytes | None = None
    ) -> RemotingCommand:
        """Send a request to the main port of a broker."""
        return await self.instance.request(address, make_request(code, header, body), timeout_s=self.timeout_s)

    async def ask_this_name_server(
        self, address: str, code: RequestCode, header: object | None = None, *, body: bytes | None = None
    ) -> RemotingCommand:
        """Send a request to one nameserver."""
        request = make_request(code, header, body)
        return await self.instance.request_name_server(address, request, timeout_s=self.timeout_s)

    async def ask_name_servers(
        self,
        code: RequestCode,
        header: object | None = None,
        *,
        body: bytes | None = None,
        addresses: Iterable[str] | None = None,
    ) -> dict[str, RemotingCommand]:
        """Send a request to each of (these) nameservers; return their answers by address."""
        chosen = self.instance.name_servers.addresses if addresses is None else addresses
        return await self.each(chosen, lambda address: self.ask_this_name_server(address, code, header, body=body))

    async def ask_name_server(
        self, code: RequestCode, header: object | None = None, *, expected: Collection[int] = (ResponseCode.SUCCESS,)
    ) -> RemotingCommand:
        """Send a request to the nameserver in use, and to the next one when it does not answer."""
        return await self.instance.name_servers.request(make_request(code, header), expected, timeout_s=self.timeout_s)

    async def cluster_info(self) -> ClusterInfo:
        """Return clusters, brokers and their addresses."""
        return await self.instance.name_servers.cluster_info(timeout_s=self.timeout_s)

    async def route(self, topic: str) -> TopicRouteData:
        """Fetch the route of a topic; ClientError 17 when no nameserver knows it."""
        route = await self.instance.name_servers.find_route(topic)
        if route is None:
            raise ClientError(
                ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {topic}"
            )
        return route

    async def broker_addresses(self, topic: str) -> dict[str, str]:
        """Return the brokers that have a topic, by name: each one's master, a slave where there is no master."""
        return self.addresses_of((await self.route(topic)).broker_datas)

    def addresses_of(self, brokers: Iterable[BrokerData]) -> dict[str, str]:
        """Return the address of each broker: its master's, one of its slaves' where there is no master."""
        return {
            broker.broker_name: broker.broker_addrs.get(MASTER_ID)
            or self.instance.randomness.choice(list(broker.broker_addrs.values()))
            for broker in brokers
            if broker.broker_addrs
        }

    async def first_address(self, topic: str) -> str | None:
        """Return the address of the first broker that has a topic; None when none of them has an address."""
        return next(iter((await self.broker_addresses(topic)).values()), None)

    async def any_address(self, topic: str) -> str:
        """Return the address of one of the brokers that have a topic; ClientError 17 when there is none."""
        addresses = list((await self.broker_addresses(topic)).values())
        if not addresses:
            raise ClientError(ResponseCode.TOPIC_NOT_EXIST, f"no broker of the topic {topic} has an address")
        return self.instance.randomness.choice(addresses)

    async def each(self, addresses: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T]:
        """Ask several addresses concurrently, and return their results in the order of the addresses.

        Raises the failure itself when only one was asked, else BrokersError.
        """
        results, failures = await self.each_or_failure(addresses, ask)
        if not failures:
            return results
        if len(failures) == 1 and not results:
            raise next(iter(failures.values()))
        raise BrokersError(failures, results) from next(iter(failures.values()))

    async def each_or_failure(
        self, addresses: Iterable[str], ask: Callable[[str], Awaitable[T]]
    ) -> tuple[dict[str, T], dict[str, RocketpyError]]:
        """As :meth:`each`, but return the failures beside the results."""
        names = list(dict.fromkeys(addresses))
        results: dict[str, T] = {}
        failures: dict[str, RocketpyError] = {}
        limiter = trio.CapacityLimiter(_AT_ONCE_MAX)

        async def ask_one(address: str) -> None:
            async with limiter:
                try:
                    results[address] = await ask(address)
                except RocketpyError as failure:
                    failures[address] = failure

        async with trio.open_nursery() as nursery:
            for address in names:
                nursery.start_soon(ask_one, address)
        return (
            {address: results[address] for address in names if address in results},
            {address: failures[address] for address in names if address in failures},
        )


def cluster_addresses(info: ClusterInfo, cluster: str | None, *, masters_only: bool = False) -> list[str]:
    """Return the addresses of all brokers (of one cluster), sorted; ClientError for an unknown cluster."""
    if cluster is not None and cluster not in info.cluster_addr_table:
        known = ", ".join(sorted(info.cluster_addr_table)) or "none"
        raise ClientError(ResponseCode.SYSTEM_ERROR, f"no cluster named {cluster}, known: {known}")
    clusters = info.cluster_addr_table.values() if cluster is None else [info.cluster_addr_table[cluster]]
    brokers = [info.broker_addr_table.get(name) for name in {name for names in clusters for name in names}]
    return sorted(
        address
        for broker in brokers
        if broker is not None
        for broker_id, address in broker.broker_addrs.items()
        if broker_id == MASTER_ID or not masters_only
    )


def masters(info: ClusterInfo, cluster: str | None) -> list[str]:
    """Return the addresses of the masters (of one cluster), sorted; ClientError when there are none."""
    addresses = cluster_addresses(info, cluster, masters_only=True)
    if not addresses:
        raise ClientError(ResponseCode.SYSTEM_ERROR, "no master broker is registered at the nameserver")
    return addresses
