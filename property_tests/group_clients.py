"""A small broker for machines about consumers, and what producers and consumers ask of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from property_tests.small_broker import ASYNC, BROKER, small_broker
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.connection import ConsumerConnection
from rocketpy.protocol.bodies.group import GetConsumerListByGroupResponseBody
from rocketpy.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from rocketpy.protocol.bodies.lock import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.admin import GetConsumerConnectionListRequestHeader
from rocketpy.protocol.headers.client import GetConsumerListByGroupRequestHeader, UnregisterClientRequestHeader
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.offset import (
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketpy.protocol.headers.pull import PullMessageRequestHeader
from rocketpy.protocol.headers.send import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
)
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.protocol.sysflag import PULL_COMMIT_OFFSET_FLAG, PULL_SUBSCRIPTION_FLAG
from rocketpy.store.config import FlushDiskType
from rocketpy.testing.broker_world import BrokerWorld, Client

GROUP, TOPIC = "G", "T"
OFFSETS_SECONDS = 2
LOCK_SECONDS = 30


def make_world(flush: FlushDiskType = ASYNC, *, sector_size: int = 512, queue_nums: int = 1) -> BrokerWorld:
    """Return a world with a broker that has never been started."""
    return small_broker(
        flush,
        sector_size=sector_size,
        broker={
            "flush_consumer_offset_interval": OFFSETS_SECONDS * 1000,
            "lock_max_live_time": LOCK_SECONDS * 1000,
            "default_topic_queue_nums": queue_nums,
        },
        store={
            "mapped_file_size_consume_queue": 20 * 100,
            "message_index_enable": False,
            "message_delay_level": "1s 2s 4s 8s",
        },
    )


# ---- what clients ask -----------------------------------------------------------------------------------------------


def heartbeat(
    client_id: str, topics: Sequence[str], version: int, group: str = GROUP, *, producer_group: str | None = None
) -> RemotingCommand:
    """A consumer is there, and wants these topics; it may be a producer too."""
    subscriptions = [SubscriptionData(topic, sub_version=version) for topic in topics]
    consumer = ConsumerData(group, subscription_data_set=subscriptions)
    producers = [] if producer_group is None else [ProducerData(producer_group)]
    body = HeartbeatData(client_id, producers, [consumer])
    return make_request(RequestCode.HEART_BEAT, body=encode_body(body))


def unregister(client_id: str, group: str = GROUP) -> RemotingCommand:
    """A consumer leaves."""
    header = UnregisterClientRequestHeader(client_id=client_id, consumer_group=group)
    return make_request(RequestCode.UNREGISTER_CLIENT, header)


def members(client: Client, group: str = GROUP) -> list[str]:
    """Return the members of a group as the broker names them."""
    header = GetConsumerListByGroupRequestHeader(group)
    answer = client.ask(make_request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header))
    assert answer is not None
    if answer.code != ResponseCode.SUCCESS:
        return []
    return sorted(decode_body(answer.body or b"", GetConsumerListByGroupResponseBody).consumer_id_list)


def subscribed(client: Client, group: str = GROUP) -> set[str]:
    """Return the topics that a group wants, as the broker tells operators; none for a group that is not online."""
    header = GetConsumerConnectionListRequestHeader(group)
    answer = client.ask(make_request(RequestCode.GET_CONSUMER_CONNECTION_LIST, header))
    assert answer is not None
    if answer.code != ResponseCode.SUCCESS:
        return set()
    return set(decode_body(answer.body or b"", ConsumerConnection).subscription_table)


def queues_of(topic: str, queue_ids: Iterable[int]) -> list[MessageQueue]:
    """Return queues of the broker."""
    return [MessageQueue(topic, BROKER, queue_id) for queue_id in queue_ids]


def lock(client: Client, client_id: str, queue_ids: Iterable[int], topic: str = TOPIC) -> set[int]:
    """Ask for queues; return those that the broker says are held."""
    body = LockBatchRequestBody(GROUP, client_id, queues_of(topic, queue_ids))
    answer = client.ask(make_request(RequestCode.LOCK_BATCH_MQ, body=encode_body(body)))
    assert answer is not None
    held = decode_body(answer.body or b"", LockBatchResponseBody).lock_ok_mq_set
    return {queue.queue_id for queue in held}


def unlock(client: Client, client_id: str, queue_ids: Iterable[int], topic: str = TOPIC) -> None:
    """Give queues back."""
    body = UnlockBatchRequestBody(GROUP, client_id, queues_of(topic, queue_ids))
    client.ask(make_request(RequestCode.UNLOCK_BATCH_MQ, body=encode_body(body)))


def send(
    body: bytes,
    *,
    topic: str = TOPIC,
    queue_id: int = 0,
    queue_nums: int = 1,
    sys_flag: int = 0,
    born_timestamp_ms: int = 0,
    properties: str = "WAIT\x01true",
) -> RemotingCommand:
    """A producer of the group P sends a message; the topic is made if there is none."""
    header = SendMessageRequestHeader(
        producer_group="P",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=queue_nums,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp=born_timestamp_ms,
        flag=0,
        properties=properties,
        reconsume_times=0,
    )
    return make_request(RequestCode.SEND_MESSAGE_V2, SendMessageRequestHeaderV2.from_v1(header), body)


def pull(
    queue_offset: int,
    *,
    topic: str = TOPIC,
    queue_id: int = 0,
    count: int = 32,
    commit_offset: int | None = None,
    subscription: str = "*",
) -> RemotingCommand:
    """A consumer asks for messages, and may say how far it is."""
    header = PullMessageRequestHeader(
        consumer_group=GROUP,
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        max_msg_nums=count,
        sys_flag=PULL_SUBSCRIPTION_FLAG | (0 if commit_offset is None else PULL_COMMIT_OFFSET_FLAG),
        commit_offset=commit_offset or 0,
        suspend_timeout_millis=0,
        subscription=subscription,
        sub_version=0,
        expression_type="TAG",
    )
    return make_request(RequestCode.PULL_MESSAGE, header)


def pulled(answer: RemotingCommand | None) -> list[MessageExt]:
    """Return the messages of an answer to a pull."""
    assert answer is not None
    return decode_messages(answer.body or b"") if answer.code == ResponseCode.SUCCESS else []


def commit(consumer_offset: int, *, topic: str = TOPIC, queue_id: int = 0) -> RemotingCommand:
    """A consumer says how far it is."""
    header = UpdateConsumerOffsetRequestHeader(
        consumer_group=GROUP, topic=topic, queue_id=queue_id, commit_offset=consumer_offset
    )
    return make_request(RequestCode.UPDATE_CONSUMER_OFFSET, header)


def query_offset(client: Client, *, topic: str = TOPIC, queue_id: int = 0) -> int:
    """Return where the group goes on in a queue; 0 when the broker does not know."""
    header = QueryConsumerOffsetRequestHeader(consumer_group=GROUP, topic=topic, queue_id=queue_id)
    answer = client.ask(make_request(RequestCode.QUERY_CONSUMER_OFFSET, header))
    assert answer is not None
    if answer.code != ResponseCode.SUCCESS:
        return 0
    return read_header(answer, QueryConsumerOffsetResponseHeader).offset
