"""Every body that a Java cluster was recorded to send, and every body vector: read, and written again byte for byte.

Two things are not: texts in which Java shared one object (``$ref``) are compared by value, and so is one vector that
leaves a collection out which a nameserver always sends.
"""

from __future__ import annotations

import re
from collections import Counter

import attrs
import pytest

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.batch import decode_batch_body, encode_batch_body
from rocketpy.protocol.bodies.acl import AclConfig
from rocketpy.protocol.bodies.codec import decode_body, decode_value, encode_body, encode_pieces, encode_value
from rocketpy.protocol.bodies.connection import (
    ConsumerConnection,
    ProducerConnection,
    ProducerTableInfo,
)
from rocketpy.protocol.bodies.filter import ConsumerFilterWrapper
from rocketpy.protocol.bodies.group import (
    ConsumerOffsetSerializeWrapper,
    GetConsumerListByGroupResponseBody,
    GroupList,
    LmqConsumerOffsetSerializeWrapper,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from rocketpy.protocol.bodies.heartbeat import CheckClientRequestBody, HeartbeatData
from rocketpy.protocol.bodies.lock import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rocketpy.protocol.bodies.offset import (
    DelayOffsetSerializeWrapper,
    GetConsumerStatusBody,
    OffsetSerializeWrapper,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from rocketpy.protocol.bodies.queue import QueryConsumeQueueResponseBody
from rocketpy.protocol.bodies.route import ClusterInfo, KVTable, TopicList, TopicRouteData
from rocketpy.protocol.bodies.running import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueInfo,
)
from rocketpy.protocol.bodies.stats import (
    BrokerStatsData,
    ConsumeStats,
    ConsumeStatsList,
    QueryConsumeTimeSpanBody,
    TopicStatsTable,
)
from rocketpy.protocol.bodies.topic import DataVersion, RegisterBrokerBody, TopicConfigSerializeWrapper
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.fastjson import dumps, loads
from rocketpy.protocol.frame import decode_frame
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.protocol.properties import decode_properties
from rocketpy.protocol.stored_message import decode_messages, encode_message
from tests.recorded import BODIES, GOLDEN, RecordedFrame, recorded_frames

REQUEST_BODIES: dict[int, type] = {
    RequestCode.HEART_BEAT: HeartbeatData,
    RequestCode.CHECK_CLIENT_CONFIG: CheckClientRequestBody,
    RequestCode.LOCK_BATCH_MQ: LockBatchRequestBody,
    RequestCode.UNLOCK_BATCH_MQ: UnlockBatchRequestBody,
    RequestCode.REGISTER_BROKER: RegisterBrokerBody,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: SubscriptionGroupConfig,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: ResetOffsetBody,
    RequestCode.QUERY_DATA_VERSION: DataVersion,
}
RESPONSE_BODIES: dict[int, type] = {
    RequestCode.GET_ALL_TOPIC_CONFIG: TopicConfigSerializeWrapper,
    RequestCode.GET_BROKER_RUNTIME_INFO: KVTable,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: GetConsumerListByGroupResponseBody,
    RequestCode.LOCK_BATCH_MQ: LockBatchResponseBody,
    RequestCode.GET_ALL_CONSUMER_OFFSET: ConsumerOffsetSerializeWrapper,
    RequestCode.GET_ALL_DELAY_OFFSET: DelayOffsetSerializeWrapper,
    54: AclConfig,  # GET_BROKER_CLUSTER_ACL_CONFIG, which 4.9.8 has no more
    RequestCode.REGISTER_BROKER: KVTable,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: TopicRouteData,
    RequestCode.GET_BROKER_CLUSTER_INFO: ClusterInfo,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: SubscriptionGroupWrapper,
    RequestCode.GET_TOPIC_STATS_INFO: TopicStatsTable,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: ConsumerConnection,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: ProducerConnection,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: TopicList,
    RequestCode.GET_CONSUME_STATS: ConsumeStats,
    RequestCode.GET_KVLIST_BY_NAMESPACE: KVTable,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: GetConsumerStatusBody,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffsetBody,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: GetConsumerStatusBody,
    RequestCode.GET_TOPICS_BY_CLUSTER: TopicList,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: GroupList,
    RequestCode.QUERY_CONSUME_TIME_SPAN: QueryConsumeTimeSpanBody,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: TopicList,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: TopicList,
    RequestCode.GET_CONSUMER_RUNNING_INFO: ConsumerRunningInfo,
    RequestCode.QUERY_CORRECTION_OFFSET: QueryCorrectionOffsetBody,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: ConsumeMessageDirectlyResult,
    RequestCode.GET_UNIT_TOPIC_LIST: TopicList,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: TopicList,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: TopicList,
    RequestCode.VIEW_BROKER_STATS_DATA: BrokerStatsData,
    RequestCode.GET_BROKER_CONSUME_STATS: ConsumeStatsList,
    RequestCode.QUERY_CONSUME_QUEUE: QueryConsumeQueueResponseBody,
    RequestCode.QUERY_DATA_VERSION: DataVersion,
    RequestCode.GET_ALL_PRODUCER_INFO: ProducerTableInfo,
}
# Records (4.1 of the protocol), batches, and bodies that are plain bytes or lines of text.
RECORD_RESPONSES = {RequestCode.PULL_MESSAGE, RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID}
RECORD_REQUESTS = {RequestCode.CHECK_TRANSACTION_STATE, RequestCode.CONSUME_MESSAGE_DIRECTLY}
PLAIN = {
    *(RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_REPLY_MESSAGE),
    *(RequestCode.SEND_REPLY_MESSAGE_V2, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, RequestCode.UPDATE_BROKER_CONFIG),
    *(RequestCode.GET_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG, RequestCode.GET_NAMESRV_CONFIG),
}
INTEGER_KEYED = re.compile(rb'"brokerAddrs":\{[0-9]')

VECTOR_CLASSES: dict[str, type] = {
    "TopicRouteData": TopicRouteData,
    "TopicRouteData order+filter": TopicRouteData,
    "ClusterInfo": ClusterInfo,
    "ProcessQueueInfo": ProcessQueueInfo,
    "ConsumeStatus": ConsumeStatus,
    "ConsumerRunningInfo": ConsumerRunningInfo,
    "ConsumerRunningInfo jstack": ConsumerRunningInfo,
    "ConsumeStats": ConsumeStats,
    "TopicStatsTable": TopicStatsTable,
    "ResetOffsetBody": ResetOffsetBody,
    "ResetOffsetBodyForC": ResetOffsetBodyForC,
    "GetConsumerStatusBody": GetConsumerStatusBody,
    "ConsumerConnection": ConsumerConnection,
    "ProducerConnection": ProducerConnection,
    "HeartbeatData": HeartbeatData,
    "LockBatchRequestBody": LockBatchRequestBody,
    "LockBatchResponseBody": LockBatchResponseBody,
    "KVTable": KVTable,
    "TopicList": TopicList,
    "TopicList broker": TopicList,
    "GroupList": GroupList,
    "ConsumerOffsetSerializeWrapper": ConsumerOffsetSerializeWrapper,
    "DelayOffsetSerializeWrapper": DelayOffsetSerializeWrapper,
    "TopicConfigSerializeWrapper": TopicConfigSerializeWrapper,
    "SubscriptionGroupWrapper": SubscriptionGroupWrapper,
    "RegisterBrokerBody": RegisterBrokerBody,
    "ConsumeMessageDirectlyResult": ConsumeMessageDirectlyResult,
    "CheckClientRequestBody": CheckClientRequestBody,
    "ConsumeStatsList": ConsumeStatsList,
    "BrokerStatsData": BrokerStatsData,
    "QueryConsumeTimeSpanBody": QueryConsumeTimeSpanBody,
    "QueryCorrectionOffsetBody": QueryCorrectionOffsetBody,
    "AclConfig": AclConfig,
    "MessageQueue": MessageQueue,
    "DataVersion": DataVersion,
}
BY_VALUE = {"TopicRouteData", "GetConsumerStatusBody", "BrokerStatsData"}

FILES: dict[str, type] = {
    "topics": TopicConfigSerializeWrapper,
    "cluster-topics": TopicConfigSerializeWrapper,
    "subscriptionGroup": SubscriptionGroupWrapper,
    "cluster-subscriptionGroup": SubscriptionGroupWrapper,
    "consumerOffset": ConsumerOffsetSerializeWrapper,
    "cluster-consumerOffset": ConsumerOffsetSerializeWrapper,
    "lmqConsumerOffset": LmqConsumerOffsetSerializeWrapper,
    "delayOffset": DelayOffsetSerializeWrapper,
    "consumerFilter": ConsumerFilterWrapper,
    "client-offsets": OffsetSerializeWrapper,
}


def test_every_recorded_body_is_read_and_written_again_byte_for_byte() -> None:
    bodies = [(frame, decode_frame(frame.content).body) for frame in recorded_frames()]
    counted = Counter(_written_again(frame, body) for frame, body in bodies if body is not None)
    assert counted == {"json": 1033, "compressed": 6, "records": 121, "batch": 5, "no batch": 2, "plain": 189}


def _written_again(frame: RecordedFrame, content: bytes) -> str:
    """Read a body, write it again, compare; return its kind."""
    code, is_response = frame.request_code, frame.kind == "response"
    body_class = (RESPONSE_BODIES if is_response else REQUEST_BODIES).get(code)
    if body_class is RegisterBrokerBody and not content.startswith(b"{"):
        registration = RegisterBrokerBody.decode_compressed(content)
        assert RegisterBrokerBody.decode_compressed(registration.encode_compressed()) == registration
        return "compressed"
    if body_class is not None:
        is_standard = body_class is TopicRouteData and not INTEGER_KEYED.search(content)
        assert encode_body(decode_body(content, body_class), standard=is_standard) == content, frame
        return "json"
    if code in (RECORD_RESPONSES if is_response else RECORD_REQUESTS):
        _records_written_again(content)
        return "records"
    if code == RequestCode.SEND_BATCH_MESSAGE and content == b"x":
        with pytest.raises(RemoteProtocolError):  # sent to see what Java answers
            decode_batch_body(content)
        return "no batch"
    if code == RequestCode.SEND_BATCH_MESSAGE:
        items = decode_batch_body(content)
        messages = [Message("", item.body, decode_properties(item.properties.decode()), item.flag) for item in items]
        assert encode_batch_body(messages) == content
        return "batch"
    assert code in PLAIN, frame
    return "plain"


def _records_written_again(content: bytes) -> None:
    messages = decode_messages(content, decompress=False)
    for message in messages:
        again = encode_message(message)
        # A batch's WAIT is there twice and is written once.
        if len(again) == message.store_size:
            assert again in content
        else:
            assert attrs.evolve(decode_messages(again, decompress=False)[0], store_size=message.store_size) == message


@pytest.mark.parametrize(("name", "body_class"), list(VECTOR_CLASSES.items()), ids=list(VECTOR_CLASSES))
def test_body_vectors_of_java_are_read_and_written_again_byte_for_byte(name: str, body_class: type) -> None:
    vector = BODIES[name]
    body = decode_body(vector["compact"], body_class)
    assert decode_body(vector["pretty"], body_class) == body
    if name in BY_VALUE:
        assert decode_body(encode_body(body), body_class) == body
        assert b"".join(encode_pieces(body)) == encode_body(body)
    else:
        assert encode_body(body).decode() == vector["compact"]
        assert dumps(encode_value(body), pretty=True) == vector["pretty"]


def test_every_body_vector_is_used() -> None:
    elsewhere = {"TopicRouteData standard", "RegisterBrokerBody compressed"}
    assert set(BODIES) == set(VECTOR_CLASSES) | elsewhere


@pytest.mark.parametrize(("name", "body_class"), list(FILES.items()), ids=list(FILES))
def test_files_of_java_are_read_and_written_again_byte_for_byte(name: str, body_class: type) -> None:
    text = (GOLDEN / "config" / f"{name}.json").read_text()
    body = decode_value(loads(text), body_class)
    assert dumps(encode_value(body), pretty=True) == text


def test_the_delay_offsets_that_a_slave_keeps_are_compact() -> None:
    text = (GOLDEN / "config" / "slave-delayOffset.json").read_text()
    assert encode_body(decode_body(text, DelayOffsetSerializeWrapper)).decode() == text
