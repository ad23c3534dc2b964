"""The nameservers of a client: the chosen one is asked while it answers, and then the next.

Compatibility: ``NettyRemotingClient.getAndCreateNameserverChannel`` and ``MQClientAPIImpl`` (4.9.8). A nameserver that
times out is skipped too, where Java skips only one that refuses the connection; and so is one whose answer to a
look-up is garbage or an error, while another one answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from random import Random
from typing import Protocol, TypeVar

from rocketpy.client.answers import Answers
from rocketpy.client.routes import check_route
from rocketpy.client.states import ClientStates, StateSubject
from rocketpy.errors import BrokerError, RemoteProtocolError, RemotingConnectError, RemotingError, RocketpyError
from rocketpy.protocol.bodies.codec import decode_peer_body
from rocketpy.protocol.bodies.route import ClusterInfo, TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.namesrv import GetRouteInfoRequestHeader
from rocketpy.remoting.network import split_address

T = TypeVar("T")


class Request(Protocol):
    """Sends a request to one address; BrokerError for an answer whose code is not expected, RemotingError for none."""

    async def __call__(
        self, address: str, request: RemotingCommand, expected: Collection[int] = ..., *, timeout_s: float | None = None
    ) -> RemotingCommand:
        """Return the answer."""
        ...


CODES_OF_EVERY_NAMESERVER = frozenset(
    {
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    }
)
"""A program that does not know one of them is no nameserver; brokers, in Java too, know none."""

NO_NAMESERVER = "this is a broker, name the nameserver (port 9876 by default)"
"""The usual first mistake: the address of a broker in place of that of a nameserver."""


class NameServers:
    """Asks one of several nameservers, the first of them chosen at random."""

    def __init__(
        self,
        addresses: Iterable[str],
        *,
        request: Request,
        randomness: Random,
        answers: Answers,
        states: ClientStates,
    ) -> None:
        self.addresses = list(addresses)
        """In the order in which they are tried."""
        randomness.shuffle(self.addresses)
        self._request = request
        self._answers = answers
        self._states = states
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
                response = await self._request(address, request, expected, timeout_s=timeout_s)
            except RemotingError as failure:
                failures.append(failure)
                self._leave(address, failure)
            except BrokerError as failure:
                if is_refusal_of_a_broker(failure, request.code):
                    remark = f"{NO_NAMESERVER}: {(failure.remark or '').strip()}"
                    raise BrokerError(failure.response_code, remark, failure.address) from failure
                self._states.works(StateSubject.NAME_SERVER, address)
                raise
            else:
                self._states.works(StateSubject.NAME_SERVER, address)
                return response
        found = "nameserver " if all(map(_is_malformed, self.addresses)) else "no nameserver answers: "
        raise RemotingConnectError(found + "; ".join(map(str, failures))) from failures[0]

    async def cluster_info(self, *, timeout_s: float | None = None) -> ClusterInfo:
        """Return clusters, brokers and their addresses. Errors as of :meth:`find_route`."""
        return await self._look_up(
            lambda: make_request(RequestCode.GET_BROKER_CLUSTER_INFO),
            lambda response: self._answers.body(response, ClusterInfo),
            timeout_s=timeout_s,
        )

    async def find_route(self, topic: str) -> TopicRouteData | None:
        """Fetch the route of a topic; None when the nameserver does not know the topic.

        RemotingConnectError when no nameserver answers. When those that answer refuse or answer garbage, the first
        such failure: BrokerError or RemoteProtocolError.
        """

        async def read(response: RemotingCommand) -> TopicRouteData | None:
            if response.code != ResponseCode.SUCCESS:
                return None
            return await self._answers.decoded(response.body, decode)

        def decode(body: bytes) -> TopicRouteData:
            route = decode_peer_body(body, TopicRouteData)
            check_route(topic, route)
            return route

        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        return await self._look_up(
            lambda: make_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header),
            read,
            (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST),
        )

    async def _look_up(
        self,
        make: Callable[[], RemotingCommand],
        read: Callable[[RemotingCommand], Awaitable[T]],
        expected: Collection[int] = (ResponseCode.SUCCESS,),
        *,
        timeout_s: float | None = None,
    ) -> T:
        """Return what the first nameserver answers whose answer can be read."""
        answered: BrokerError | RemoteProtocolError | None = None
        for _ in self.addresses:
            try:
                response = await self.request(make(), expected, timeout_s=timeout_s)
                address = self.addresses[self._chosen]
                try:
                    return await read(response)
                except RemoteProtocolError as failure:
                    self._leave(address, failure)
                    raise RemoteProtocolError(f"nameserver {address}: {failure}") from failure
            except (BrokerError, RemoteProtocolError) as failure:
                answered = answered or failure
                if isinstance(failure, BrokerError):
                    self._leave(failure.address, failure)
            except RemotingError:
                if answered is None:
                    raise
                break
        assert answered is not None, "there is a nameserver, and each one has answered"
        raise answered

    def _leave(self, address: str, failure: RocketpyError) -> None:
        """Choose the next nameserver, unless another task has done so meanwhile."""
        self._states.fails(StateSubject.NAME_SERVER, address, failure, is_raised=True)
        if self.addresses[self._chosen] == address:
            self._chosen = (self._chosen + 1) % len(self.addresses)


def is_refusal_of_a_broker(failure: BrokerError, code: int) -> bool:
    """Whether a refusal of a request to a nameserver shows that the address is that of a broker."""
    return failure.response_code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and code in CODES_OF_EVERY_NAMESERVER


def _is_malformed(address: str) -> bool:
    try:
        split_address(address)
    except RemotingConnectError:
        return True
    return False
