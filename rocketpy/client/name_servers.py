"""The nameservers of a client: the chosen one is asked while it answers, and then the next.

Compatibility: ``NettyRemotingClient.getAndCreateNameserverChannel`` and ``MQClientAPIImpl`` (4.9.8). A nameserver that
times out is skipped too, where Java skips only one that refuses the connection.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from random import Random
from typing import Protocol

from rocketpy.errors import RemotingConnectError, RemotingError
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import ClusterInfo, TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.namesrv import GetRouteInfoRequestHeader


class Request(Protocol):
    """Sends a request to one address; BrokerError for an answer whose code is not expected, RemotingError for none."""

    async def __call__(
        self, address: str, request: RemotingCommand, expected: Collection[int] = ..., *, timeout_s: float | None = None
    ) -> RemotingCommand:
        """Return the answer."""
        ...


class NameServers:
    """Asks one of several nameservers, the first of them chosen at random."""

    def __init__(self, addresses: Iterable[str], *, request: Request, randomness: Random) -> None:
        self.addresses = list(addresses)
        """In the order in which they are tried."""
        randomness.shuffle(self.addresses)
        self._request = request
        self._chosen = 0

    async def request(
        self,
        request: RemotingCommand,
        expected: Collection[int] = (ResponseCode.SUCCESS,),
        *,
        timeout_s: float | None = None,
    ) -> RemotingCommand:
        """Send a request to the chosen nameserver, and to the others in turn when it does not answer.

        RemotingConnectError, naming them all, when none does; BrokerError for an unexpected code, which is final.
        """
        failures: list[RemotingError] = []
        for _ in self.addresses:
            address = self.addresses[self._chosen]
            try:
                return await self._request(address, request, expected, timeout_s=timeout_s)
            except RemotingError as failure:
                failures.append(failure)
                if self.addresses[self._chosen] == address:  # no other task has switched meanwhile
                    self._chosen = (self._chosen + 1) % len(self.addresses)
        raise RemotingConnectError("no nameserver answers: " + "; ".join(map(str, failures))) from failures[0]

    async def cluster_info(self) -> ClusterInfo:
        """Return clusters, brokers and their addresses."""
        response = await self.request(make_request(RequestCode.GET_BROKER_CLUSTER_INFO))
        return decode_body(response.body, ClusterInfo)

    async def find_route(self, topic: str) -> TopicRouteData | None:
        """Fetch the route of a topic; None when the nameserver does not know the topic."""
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        response = await self.request(
            make_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header),
            (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST),
        )
        if response.code != ResponseCode.SUCCESS:
            return None
        return decode_body(response.body, TopicRouteData)
