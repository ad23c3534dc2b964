"""What nameservers and brokers are asked when a read is planned: topics, routes, bounds of queues.

Rule: connections are kept until :meth:`Cluster.close`; one on which a call has failed is closed. Nothing is registered
at a broker and nothing committed: planning leaves no trace.

Masters are asked. Where the user lets slaves be read (``asks_slaves``), the first slave that answers stands in for a
master that is not there; what it has is what there is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import TypeVar

import attrs

from rocketpy.client.routes import check_route
from rocketpy.errors import BrokerError, ClientError, RemoteProtocolError, RemotingError, RequestError
from rocketpy.protocol.bodies.codec import decode_peer_body
from rocketpy.protocol.bodies.route import MASTER_ID, BrokerData, TopicList, TopicRouteData
from rocketpy.protocol.codes import PERM_READ, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.namesrv import GetRouteInfoRequestHeader
from rocketpy.protocol.headers.queue_bounds import (
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
)
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.access import ClusterAccess
from rocketpy.spark.live.remoting import BlockingRemotingClient

REQUESTS_IN_FLIGHT_MAX = 256

T = TypeVar("T")


@attrs.frozen
class QueueBounds:
    """What a broker has of a queue: offsets from ``earliest`` on, before ``latest``."""

    earliest: int
    latest: int
    is_of_slave: bool = False
    """Then the queue may be longer: the slave has followed its master so far."""


@attrs.frozen
class Replicas:
    """Brokers that have a queue: the addresses of one broker name by id (0 is the master), and who advertises them."""

    broker_name: str
    addresses: Mapping[int, str]
    advertised_by: str

    @property
    def master(self) -> str:
        """Return the master's address; ``ClientError`` if none is registered."""
        if MASTER_ID not in self.addresses:
            known = ", ".join(f"{address} (id {number})" for number, address in sorted(self.addresses.items()))
            raise ClientError(
                ResponseCode.SYSTEM_ERROR,
                f"broker {self.broker_name} has no master at the moment: nameserver {self.advertised_by} knows "
                f"{known or 'none of its addresses'} (readFrom=slave reads what a slave has)",
            )
        return self.addresses[MASTER_ID]


class Cluster:
    """A cluster behind nameservers. Calls raise ``RemotingError``, ``BrokerError`` or ``ClientError``."""

    def __init__(self, access: ClusterAccess, *, asks_slaves: bool = False) -> None:
        self.access = access
        self._asks_slaves = asks_slaves
        self._clients: dict[str, BlockingRemotingClient] = {}
        self._used: set[str] = set()  # addresses that were asked since the last close_unused

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; a later call opens them again."""
        while self._clients:
            self._clients.popitem()[1].close()

    def close_unused(self) -> None:
        """Close the connections over which nothing was asked since the last call: their peers have gone, maybe."""
        for address in self._clients.keys() - self._used:
            self._clients.pop(address).close()
        self._used.clear()

    def topics(self) -> list[str]:
        """Return the names of all topics, sorted."""
        response, address = self._ask_name_servers(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None)
        return sorted(_read_body(response, TopicList, address).topic_list)

    def queues(self, topic: str) -> dict[MessageQueue, Replicas]:
        """Return the readable queues of a topic; ``ClientError`` if no nameserver knows it."""
        try:
            response, address = self._ask_name_servers(
                RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic=topic)
            )
        except BrokerError as error:
            if error.response_code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            raise ClientError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic {topic} is not known to nameserver {', '.join(self.access.name_servers)}: there is none of "
                "this name, or its brokers are not registered",
            ) from error
        route = _read_body(response, TopicRouteData, address)
        try:
            check_route(topic, route)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"{address}: {error}") from error
        return _readable_queues(topic, route, address)

    def bounds(self, queues: Mapping[MessageQueue, Replicas]) -> dict[MessageQueue, QueueBounds]:
        """Return the bounds of queues, as their masters have them, or slaves in place of masters."""
        found: dict[MessageQueue, QueueBounds] = {}
        for replicas, those in _by_replicas(queues):
            address, answers = self.ask_broker(
                replicas,
                [
                    request
                    for queue in those
                    for request in (
                        (
                            RequestCode.GET_MIN_OFFSET,
                            GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id),
                        ),
                        (
                            RequestCode.GET_MAX_OFFSET,
                            GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id),
                        ),
                    )
                ],
            )
            for queue, earliest, latest in zip(those, answers[::2], answers[1::2], strict=True):
                least = max(0, read_answer(earliest, GetMinOffsetResponseHeader, address).offset)
                most = read_answer(latest, GetMaxOffsetResponseHeader, address).offset
                is_of_slave = address != replicas.addresses.get(MASTER_ID)
                found[queue] = QueueBounds(least, max(least, most), is_of_slave)
        return found

    def ask_broker(
        self, replicas: Replicas, requests: Collection[tuple[int, object]]
    ) -> tuple[str, list[RemotingCommand]]:
        """Send requests to a broker, many in flight; return its address and the answers in order, all SUCCESS."""
        address, answers = self.ask_broker_anything(replicas, requests)
        return address, [self._clients[address].succeeded(answer) for answer in answers]

    def ask_master(self, replicas: Replicas, requests: Collection[tuple[int, object]]) -> list[RemotingCommand]:
        """Send requests to a master, and to no slave in its place; return the answers in order, all SUCCESS."""
        return [
            self._clients[replicas.master].succeeded(each) for each in self._ask(replicas, replicas.master, requests)
        ]

    def ask_broker_anything(
        self, replicas: Replicas, requests: Collection[tuple[int, object]]
    ) -> tuple[str, list[RemotingCommand]]:
        """Send requests to a broker; return its address and the answers in order, whatever their response codes."""
        if not self._asks_slaves:
            return replicas.master, self._ask(replicas, replicas.master, requests)
        failure: RemotingError | RemoteProtocolError | None = None
        for _, address in sorted(replicas.addresses.items()):  # the master first
            try:
                return address, self._ask(replicas, address, requests)
            except (RemotingError, RemoteProtocolError) as error:
                failure = failure or error
        if failure is None:
            raise ClientError(
                ResponseCode.SYSTEM_ERROR,
                f"broker {replicas.broker_name}: nameserver {replicas.advertised_by} knows none of its addresses",
            )
        raise failure

    def _ask(self, replicas: Replicas, address: str, requests: Collection[tuple[int, object]]) -> list[RemotingCommand]:
        if address not in self._clients:
            self._clients[address] = self.access.connect_broker(replicas.broker_name, address, replicas.advertised_by)
        self._used.add(address)
        client = self._clients[address]
        answers: list[RemotingCommand] = []
        opaques: list[int] = []
        try:
            for code, header in requests:
                opaques.append(client.send(code, header))
                if len(opaques) - len(answers) == REQUESTS_IN_FLIGHT_MAX:
                    answers.append(client.receive(opaques[len(answers)]))
            answers += [client.receive(opaque) for opaque in opaques[len(answers) :]]
        except (RemotingError, RemoteProtocolError):
            self._clients.pop(address).close()
            raise
        return answers

    def _ask_name_servers(self, code: int, header: object | None) -> tuple[RemotingCommand, str]:
        """Ask one after the other; return the first answer, and whose it is.

        A nameserver that does not know a topic is not the last word, another one may. Raises the failure of the last.
        """
        failure: RemotingError | RemoteProtocolError | BrokerError | None = None
        for address in self.access.name_servers:
            try:
                if address not in self._clients:
                    self._clients[address] = self.access.connect_name_server(address)
                self._used.add(address)
                return self._clients[address].expect_success(code, header), address
            except BrokerError as error:
                if error.response_code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                failure = error
            except (RemotingError, RemoteProtocolError) as error:
                if address in self._clients:
                    self._clients.pop(address).close()
                failure = failure if isinstance(failure, BrokerError) else error
        assert failure is not None, "there is at least one nameserver"
        raise failure


def read_answer(answer: RemotingCommand, header_class: type[T], address: str) -> T:
    """Return the header of an answer; ``RemoteProtocolError`` names the peer that has sent no such header."""
    try:
        return read_header(answer, header_class)
    except RequestError as error:
        raise RemoteProtocolError(f"{address}: {error.remark}") from error


def _read_body(answer: RemotingCommand, body_class: type[T], address: str) -> T:
    try:
        return decode_peer_body(answer.body, body_class)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"{address}: {error}") from error


def _readable_queues(topic: str, route: TopicRouteData, name_server: str) -> dict[MessageQueue, Replicas]:
    brokers = {broker.broker_name: broker for broker in route.broker_datas}
    found: dict[MessageQueue, Replicas] = {}
    for queues in route.queue_datas:
        if queues.perm & PERM_READ:
            addresses = brokers.get(queues.broker_name, BrokerData()).broker_addrs
            replicas = Replicas(queues.broker_name, dict(sorted(addresses.items())), name_server)
            for queue_id in range(queues.read_queue_nums):
                found[MessageQueue(topic, queues.broker_name, queue_id)] = replicas
    return found


def _by_replicas(queues: Mapping[MessageQueue, Replicas]) -> Iterable[tuple[Replicas, list[MessageQueue]]]:
    groups: dict[object, tuple[Replicas, list[MessageQueue]]] = {}
    for queue, replicas in sorted(queues.items(), key=lambda each: each[0]):
        key = (replicas.broker_name, *replicas.addresses.items())
        groups.setdefault(key, (replicas, []))[1].append(queue)
    return groups.values()
