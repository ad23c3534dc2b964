"""What a stream asks nameservers and brokers, over connections that are kept between the batches.

Rule: a connection on which a call has failed is closed, and the next call opens another one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import attrs

from rocketpy.errors import BrokerError, ClientError, RemoteProtocolError, RemotingError, RemotingSendRequestError
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.heartbeat import ConsumerData, ConsumeType, HeartbeatData
from rocketpy.protocol.bodies.route import MASTER_ID, TopicRouteData
from rocketpy.protocol.codes import PERM_READ, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.headers.client import UnregisterClientRequestHeader
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.namesrv import GetRouteInfoRequestHeader
from rocketpy.protocol.headers.offset import UpdateConsumerOffsetRequestHeader
from rocketpy.protocol.headers.queue_bounds import (
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
)
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.topic_name import RETRY_PREFIX
from rocketpy.spark.live.remoting import BlockingRemotingClient
from rocketpy.spark.stream.losses import QueueBounds

CLIENT_ID = "rocketpy_spark_stream"
"""Name under which a stream appears for a moment in a group that has never had a member."""

Connect = Callable[[str], BlockingRemotingClient]


@attrs.define(eq=False)
class LiveCluster:
    """A cluster behind nameservers; implements ``Cluster`` of :mod:`watch` and ``GroupBrokers``."""

    _connect: Connect = attrs.field(alias="connect")
    _name_servers: tuple[str, ...] = attrs.field(alias="name_servers")
    _topics: tuple[str, ...] = attrs.field(alias="topics")
    _seen_topics: set[str] = attrs.field(factory=set, init=False)
    _clients: dict[str, BlockingRemotingClient] = attrs.field(factory=dict, init=False)

    def subscribed_queues(self) -> Mapping[MessageQueue, str]:
        """Return the readable queues with the addresses of their masters.

        ``ClientError`` for a topic that the nameserver does not know and never knew: one that it has known may be away
        with its broker.
        """
        found: dict[MessageQueue, str] = {}
        for topic in self._topics:
            route = self._route(topic)
            if route is not None:
                self._seen_topics.add(topic)
                found.update(_queues_of_route(topic, route))
            elif topic not in self._seen_topics:
                raise ClientError(
                    ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} is not known to {', '.join(self._name_servers)}"
                )
        return found

    def queue_bounds(self, address: str, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, QueueBounds]:
        """Return what one broker has of queues."""
        return {queue: self._bounds(address, queue) for queue in queues}

    def is_group_known(self, group: str, address: str) -> bool:
        """Return whether the retry topic of a group is on the broker at an address."""
        route = self._route(RETRY_PREFIX + group)
        return route is not None and any(address in each.broker_addrs.values() for each in route.broker_datas)

    def introduce_group(self, group: str, address: str) -> None:
        """Register a member of a group and unregister it: the broker then has the group and its retry topic."""
        member = ConsumerData(group, consume_type=ConsumeType.CONSUME_ACTIVELY.value)
        heartbeat = HeartbeatData(CLIENT_ID, consumer_data_set=[member])
        self._ask(address, RequestCode.HEART_BEAT, body=encode_body(heartbeat))
        self._ask(
            address,
            RequestCode.UNREGISTER_CLIENT,
            UnregisterClientRequestHeader(client_id=CLIENT_ID, consumer_group=group),
        )

    def commit_offset(self, group: str, address: str, queue: MessageQueue, queue_offset: int) -> None:
        """Commit the next queue offset that a group will consume."""
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=queue_offset
        )
        self._ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    def close(self) -> None:
        """Close all connections; a later call opens them again."""
        while self._clients:
            self._clients.popitem()[1].close()

    def _bounds(self, address: str, queue: MessageQueue) -> QueueBounds:
        earliest = self._ask(
            address, RequestCode.GET_MIN_OFFSET, GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
        )
        latest = self._ask(
            address, RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
        )
        least = max(0, read_header(earliest, GetMinOffsetResponseHeader).offset)
        return QueueBounds(least, max(least, read_header(latest, GetMaxOffsetResponseHeader).offset))

    def _route(self, topic: str) -> TopicRouteData | None:
        """Return the route that the first nameserver which answers has; None if it does not know the topic."""
        failure: RemotingError | None = None
        for address in self._name_servers:
            try:
                response = self._ask(
                    address, RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic=topic)
                )
            except RemotingError as error:
                failure = error
            except BrokerError as error:
                if error.response_code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                return None
            else:
                return decode_body(response.body, TopicRouteData)
        assert failure is not None
        raise failure

    def _ask(self, address: str, code: int, header: object = None, *, body: bytes | None = None) -> RemotingCommand:
        if address in self._clients:
            try:
                return self._ask_connected(address, code, header, body)
            except RemotingSendRequestError:
                pass  # the peer was restarted meanwhile; no request here does harm if it is made twice
        self._clients[address] = self._connect(address)
        return self._ask_connected(address, code, header, body)

    def _ask_connected(self, address: str, code: int, header: object, body: bytes | None) -> RemotingCommand:
        client = self._clients[address]
        try:
            return client.expect_success(code, header, body)
        except (RemotingError, RemoteProtocolError):
            del self._clients[address]
            client.close()
            raise


def _queues_of_route(topic: str, route: TopicRouteData) -> Mapping[MessageQueue, str]:
    masters = {broker.broker_name: broker.broker_addrs.get(MASTER_ID) for broker in route.broker_datas}
    found: dict[MessageQueue, str] = {}
    for queues in route.queue_datas:
        address = masters.get(queues.broker_name)
        if address is not None and queues.perm & PERM_READ:
            for queue_id in range(queues.read_queue_nums):
                found[MessageQueue(topic, queues.broker_name, queue_id)] = address
    return found
