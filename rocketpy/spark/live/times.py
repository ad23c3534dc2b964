"""First message of a queue that was stored at a time or later: an exact search, which begins at the broker's answer.

SEARCH_OFFSET_BY_TIMESTAMP returns the *nearest* message, maybe an earlier one, and of several of the same time any. So
its answer is where to look first; the store times of messages around it decide. In a queue that has grown evenly, that
takes two or three pulls of one message.

Rule: the store times of a queue never decrease. Where a broker's clock was set back they do, and the boundary is one of
several; :data:`CLOCK_MARGIN_MS` is how much the caller should widen a range whose rows are compared once more.
"""

from __future__ import annotations

from rocketpy.errors import BrokerError, ClientError, RemoteProtocolError, RequestError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.headers.pull import PullMessageRequestHeader
from rocketpy.protocol.headers.queue_bounds import SearchOffsetRequestHeader, SearchOffsetResponseHeader
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.stored_message import decode_message
from rocketpy.protocol.sysflag import PULL_SUBSCRIPTION_FLAG
from rocketpy.spark.live.cluster import Cluster, QueueBounds, Replicas, read_answer
from rocketpy.spark.live.positions import name_of

CLOCK_MARGIN_MS = 5_000

_PROBES_MAX = 200  # a search in 2**63 messages takes 126


class TimeSearch:
    """Searches in the queues of one cluster."""

    def __init__(self, cluster: Cluster, *, consumer_group: str) -> None:
        self._cluster = cluster
        self._consumer_group = consumer_group

    def first_from(self, queue: MessageQueue, replicas: Replicas, bounds: QueueBounds, timestamp_ms: int) -> int:
        """Return the queue offset of the first message stored at a time or later; ``bounds.latest`` without one."""
        if bounds.earliest >= bounds.latest:
            return bounds.latest
        probe = min(max(self._nearest(queue, replicas, timestamp_ms), bounds.earliest), bounds.latest - 1)
        before, found, step = bounds.earliest - 1, bounds.latest, 1  # earlier; at that time or later, or the end
        for _ in range(_PROBES_MAX):
            if self._stored_ms(queue, replicas, probe) < timestamp_ms:
                before = probe
                probe = min(probe + step, found - 1)
            else:
                found = probe
                probe = max(probe - step, before + 1)
            if before + 1 == found:
                return found
            step *= 2
            if bounds.earliest <= before and found < bounds.latest:  # between the two: halve
                probe = (before + found) // 2
        raise ClientError(ResponseCode.SYSTEM_ERROR, f"{name_of(queue)}: no end of the search for time {timestamp_ms}")

    def _nearest(self, queue: MessageQueue, replicas: Replicas, timestamp_ms: int) -> int:
        header = SearchOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
        address, [answer] = self._cluster.ask_broker(replicas, [(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)])
        return read_answer(answer, SearchOffsetResponseHeader, address).offset

    def _stored_ms(self, queue: MessageQueue, replicas: Replicas, queue_offset: int) -> int:
        """Return the store time of a message; one that is no longer there is earlier than any."""
        header = PullMessageRequestHeader(
            consumer_group=self._consumer_group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=queue_offset,
            max_msg_nums=1,
            sys_flag=PULL_SUBSCRIPTION_FLAG,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
        )
        address, [answer] = self._cluster.ask_broker_anything(replicas, [(RequestCode.PULL_MESSAGE, header)])
        if answer.code in (ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY):
            return -1
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, f"{name_of(queue)} offset {queue_offset}: {answer.remark}", address)
        try:
            return decode_message(answer.body or b"", decompress=False).store_timestamp
        except (RemoteProtocolError, RequestError, IndexError) as error:
            raise RemoteProtocolError(
                f"{address}: expected the message at offset {queue_offset} of {name_of(queue)}: {error}"
            ) from error
