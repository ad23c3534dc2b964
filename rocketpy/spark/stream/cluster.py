"""The cluster as a stream sees it: topics that come and go, and a group that shows how far the stream is.

Rule: every request here may be made twice without harm, so one that finds its kept connection closed, because the peer
has been restarted since, is made once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from rocketpy.errors import ClientError, RemotingSendRequestError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import ConsumerData, ConsumeType, HeartbeatData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.headers.client import UnregisterClientRequestHeader
from rocketpy.protocol.headers.offset import UpdateConsumerOffsetRequestHeader
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.topic_name import RETRY_PREFIX
from rocketpy.spark.live.cluster import Cluster, QueueBounds, Replicas
from rocketpy.spark.live.subscription import Subscription

CLIENT_ID = "rocketpy_spark_stream"
"""Name under which a stream appears for a moment in a group that has never had a member."""

T = TypeVar("T")


class StreamCluster:
    """A subscription in a cluster; implements ``WatchedCluster`` of :mod:`watch` and ``GroupBrokers``."""

    def __init__(self, cluster: Cluster, subscription: Subscription) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._seen_topics: set[str] = set()  # of those that the subscription names

    def subscribed_queues(self) -> Mapping[MessageQueue, Replicas]:
        """Return the readable queues with the brokers that have them.

        ``ClientError`` for a named topic that the nameserver does not know and never knew: one that it has known may be
        away with its broker. Connections over which nothing was asked since the last call are closed.
        """
        self._cluster.close_unused()
        found: dict[MessageQueue, Replicas] = {}
        for part in _by_topic(self._subscription):
            try:
                found.update(_again(lambda part=part: part.queues(self._cluster)))  # type: ignore[misc]
            except ClientError as error:
                if error.response_code != ResponseCode.TOPIC_NOT_EXIST or not self._seen_topics.issuperset(part.topics):
                    raise
        self._seen_topics.update({queue.topic for queue in found}.intersection(self._subscription.topics))
        return found

    def queue_bounds(self, queues: Mapping[MessageQueue, Replicas]) -> Mapping[MessageQueue, QueueBounds]:
        """Return what brokers have of queues."""
        return _again(lambda: self._cluster.bounds(queues))

    def is_group_known(self, group: str, replicas: Replicas) -> bool:
        """Return whether the retry topic of a group is on a broker."""
        try:
            queues = _again(lambda: self._cluster.queues(RETRY_PREFIX + group))
        except ClientError as error:
            if error.response_code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return False
        return any(queue.broker_name == replicas.broker_name for queue in queues)

    def introduce_group(self, group: str, replicas: Replicas) -> None:
        """Register a member of a group and unregister it: the broker then has the group and its retry topic."""
        member = ConsumerData(group, consume_type=ConsumeType.CONSUME_ACTIVELY.value)
        heartbeat = HeartbeatData(CLIENT_ID, consumer_data_set=[member])
        goodbye = UnregisterClientRequestHeader(client_id=CLIENT_ID, consumer_group=group)
        with self._cluster.access.connect(replicas.master) as client:
            client.expect_success(RequestCode.HEART_BEAT, None, encode_body(heartbeat))
            client.expect_success(RequestCode.UNREGISTER_CLIENT, goodbye)

    def commit_offsets(self, group: str, replicas: Replicas, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit the next queue offsets that a group will consume."""
        requests = [
            (
                RequestCode.UPDATE_CONSUMER_OFFSET,
                UpdateConsumerOffsetRequestHeader(
                    consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=queue_offset
                ),
            )
            for queue, queue_offset in sorted(offsets.items())
        ]
        _again(lambda: self._cluster.ask_master(replicas, requests))

    def close(self) -> None:
        """Close all connections; a later call opens them again."""
        self._cluster.close()


def _by_topic(subscription: Subscription) -> Iterator[Subscription]:
    """Yield the subscription topic by topic, as far as it names them."""
    if not subscription.topics:
        yield subscription
    for topic in subscription.topics:
        yield Subscription(topics=(topic,))


def _again(call: Callable[[], T]) -> T:
    try:
        return call()
    except RemotingSendRequestError:
        return call()
