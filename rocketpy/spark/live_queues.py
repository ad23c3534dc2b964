"""Reader of the queues of a live cluster, up to the offsets captured when the read was planned.

A range is a part of one queue, ``start`` to ``end`` in queue offsets, ``end`` not included. Rule: a range yields every
message of it in order exactly once, or fails; messages that the broker has deleted meanwhile are a failure too unless
the user has said that they may be missing (``failOnDataLoss=false``). Nothing is committed: reading leaves no trace in
a consumer group's progress.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from rocketpy.errors import BrokerError, ClientError, RemotingError
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import MASTER_ID, QueueData, TopicRouteData
from rocketpy.protocol.codes import PERM_READ, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.namesrv import GetRouteInfoRequestHeader
from rocketpy.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketpy.protocol.headers.queue_bounds import (
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
)
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.protocol.sysflag import PULL_SUBSCRIPTION_FLAG
from rocketpy.spark.live.remoting import BlockingRemotingClient
from rocketpy.spark.options.read import ReadOptions

PULL_MESSAGES_MAX = 32  # a broker returns no more per pull, even if asked to
FRUITLESS_PULLS_MAX = 100
EVERYTHING = "*"


@attrs.frozen
class QueueRange:
    """Part of one queue, with the address of the broker that has it."""

    topic: str
    broker_name: str
    address: str
    queue_id: int
    start: int
    end: int


def plan_queue_ranges(options: ReadOptions) -> list[QueueRange]:
    """Query the cluster for every readable queue of the topics and its offsets; empty queues are left out."""
    queues = [queue for topic in options.topics for queue in _queues_of_topic(topic, options)]
    filled = [queue for queue in queues if queue.start < queue.end]
    messages = sum(queue.end - queue.start for queue in filled)
    size = max(1, messages // options.min_partitions) if len(filled) < options.min_partitions else messages
    return [
        attrs.evolve(queue, start=start, end=min(start + size, queue.end))
        for queue in filled
        for start in range(queue.start, queue.end, size)
    ]


def read_queue_range(part: QueueRange, options: ReadOptions) -> Iterator[MessageExt]:
    """Yield the wanted messages of a range in order."""
    position, fruitless = part.start, 0
    with _client(part.address, options) as client:
        while position < part.end:
            response = client.request(RequestCode.PULL_MESSAGE, _pull(part, position, options))
            next_position = _next_position(response, part, position, options)
            if response.code == ResponseCode.SUCCESS:
                messages = decode_messages(
                    response.body or b"", decompress=options.decompress, broker_name=part.broker_name
                )
                for message in messages:
                    if position <= message.queue_offset < part.end and options.wants(
                        part.topic, message.store_timestamp
                    ):
                        yield message
            fruitless = 0 if next_position > position else fruitless + 1
            if fruitless == FRUITLESS_PULLS_MAX:
                raise ClientError(response.code, f"no progress at {_where(part, position)}: {response.remark}")
            position = max(position, next_position)


def _client(address: str, options: ReadOptions) -> BlockingRemotingClient:
    return BlockingRemotingClient(address, timeout_s=options.request_timeout_s, credentials=options.credentials)


def _queues_of_topic(topic: str, options: ReadOptions) -> Iterator[QueueRange]:
    route = _route(topic, options)
    masters = {broker.broker_name: broker.broker_addrs.get(MASTER_ID) for broker in route.broker_datas}
    for queues in route.queue_datas:
        address = masters.get(queues.broker_name)
        if address is None:
            raise ClientError(
                ResponseCode.SYSTEM_ERROR, f"broker {queues.broker_name} of topic {topic} has no master at the moment"
            )
        if queues.perm & PERM_READ:
            yield from _queues_of_broker(topic, queues, address, options)


def _route(topic: str, options: ReadOptions) -> TopicRouteData:
    """Query the nameservers one after the other; raises the failure of the last one."""
    failure: RemotingError | BrokerError | None = None
    for name_server in options.name_servers:
        try:
            with _client(name_server, options) as client:
                header = GetRouteInfoRequestHeader(topic=topic)
                response = client.expect_success(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
            return decode_body(response.body, TopicRouteData)
        except BrokerError as error:
            if error.response_code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            failure = error
        except RemotingError as error:
            failure = error
    assert failure is not None
    raise failure


def _queues_of_broker(topic: str, queues: QueueData, address: str, options: ReadOptions) -> Iterator[QueueRange]:
    with _client(address, options) as client:
        for queue_id in range(queues.read_queue_nums):
            least = client.expect_success(
                RequestCode.GET_MIN_OFFSET, GetMinOffsetRequestHeader(topic=topic, queue_id=queue_id)
            )
            most = client.expect_success(
                RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
            )
            start = read_header(least, GetMinOffsetResponseHeader).offset
            end = read_header(most, GetMaxOffsetResponseHeader).offset
            yield QueueRange(topic, queues.broker_name, address, queue_id, start, end)


def _pull(part: QueueRange, position: int, options: ReadOptions) -> PullMessageRequestHeader:
    return PullMessageRequestHeader(
        consumer_group=options.consumer_group,
        topic=part.topic,
        queue_id=part.queue_id,
        queue_offset=position,
        max_msg_nums=PULL_MESSAGES_MAX,
        sys_flag=PULL_SUBSCRIPTION_FLAG,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=EVERYTHING,
        sub_version=0,
        expression_type="TAG",
    )


def _next_position(response: RemotingCommand, part: QueueRange, position: int, options: ReadOptions) -> int:
    """Return the offset to continue at; raise for an invalid answer, or when messages have been deleted."""
    if response.code in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY):
        return read_header(response, PullMessageResponseHeader).next_begin_offset
    if response.code != ResponseCode.PULL_OFFSET_MOVED:
        raise BrokerError(response.code, response.remark, part.address)
    moved_to = read_header(response, PullMessageResponseHeader).next_begin_offset
    if options.fail_on_data_loss:
        raise ClientError(
            response.code,
            f"messages from {_where(part, position)} are no longer there, the broker goes on at {moved_to}: "
            "they were deleted after the read was planned (failOnDataLoss=false reads what is left)",
        )
    return moved_to if moved_to > position else part.end


def _where(part: QueueRange, position: int) -> str:
    return f"topic {part.topic} broker {part.broker_name} queue {part.queue_id} offset {position}"
