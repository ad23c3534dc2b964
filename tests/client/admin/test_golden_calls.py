"""What our calls send is, field by field, what Java's send for the same call; what Java answered is what they return.

Each recorded exchange stands alone: a scripted server answers with the recorded answer, and the call gets its arguments
from the recorded request. Left out are GET_ROUTEINFO_BY_TOPIC, which :mod:`tests.client.test_name_servers` has, and the
fields of a signature.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import attrs
import pytest
from _pytest.mark.structures import ParameterSet

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.client import open_admin_client
from rocketpy.errors import BrokerError, ClientError
from rocketpy.properties_text import read_properties
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.offset import GetConsumerStatusBody, QueryCorrectionOffsetBody, ResetOffsetBody
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.bodies.stats import QueryConsumeTimeSpanBody
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.fastjson import loads
from rocketpy.protocol.headers.query import UNIQUE_KEY_QUERY
from rocketpy.protocol.host import encode_host
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.message_id import decode_offset_msg_id, encode_offset_msg_id
from rocketpy.protocol.stored_message import encode_message
from rocketpy.remoting.connection import Connection
from tests.client.fake_cluster import FakeCluster, Scripted, open_fake_cluster
from tests.client.recorded_frames import recorded_frames

ADDED_FIELDS = ("AccessKey", "Signature", "SecurityToken", "ReqT")
"""What hooks of Java's clients add to every request."""
Fields = dict[str, str]


@attrs.frozen
class Exchange:
    """A request of Java's and what it was answered."""

    run: str
    request: RemotingCommand
    java: RemotingCommand

    @property
    def fields(self) -> Fields:
        return {name: value for name, value in (self.request.ext_fields or {}).items() if name not in ADDED_FIELDS}


@attrs.frozen
class Call:
    """The call of ours that does what a recorded request asked for."""

    admin: AdminClient
    fields: Fields
    body: bytes
    address: str

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.fields["topic"], self.fields.get("bname", "broker-a"), int(self.fields["queueId"]))


def _list(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",")


def _query(call: Call) -> Awaitable[object]:
    fields = call.fields
    query = call.admin.messages.query
    if fields[UNIQUE_KEY_QUERY] == "true":
        query = call.admin.messages.query_unique_key
    return query(
        fields["topic"],
        fields["key"],
        max_num=int(fields["maxNum"]),
        begin_timestamp=int(fields["beginTimestamp"]),
        end_timestamp=int(fields["endTimestamp"]),
    )


def _create_topic(call: Call) -> Awaitable[object]:
    fields = call.fields
    if fields["defaultTopic"] != "TBW102":
        return call.admin.topics.create_like(
            fields["defaultTopic"],
            fields["topic"],
            queue_nums=int(fields["readQueueNums"]),
            topic_sys_flag=int(fields["topicSysFlag"]),
        )
    config = TopicConfig(
        fields["topic"],
        int(fields["readQueueNums"]),
        int(fields["writeQueueNums"]),
        int(fields["perm"]),
        fields["topicFilterType"],
        int(fields["topicSysFlag"]),
        fields["order"] == "true",
    )
    return call.admin.topics.update(call.address, config)


def _account(call: Call) -> Awaitable[object]:
    fields = call.fields
    return call.admin.accounts.update(
        call.address,
        PlainAccessConfig(
            fields["accessKey"],
            fields.get("secretKey"),
            fields.get("whiteRemoteAddress"),
            fields["admin"] == "true",
            fields.get("defaultTopicPerm"),
            fields.get("defaultGroupPerm"),
            _list(fields.get("topicPerms")),
            _list(fields.get("groupPerms")),
        ),
    )


def _settings(body: bytes) -> dict[str, str]:
    return {line.key: line.value for line in read_properties(body.decode())}


def _msg_id_here(call: Call) -> str:
    """The recorded id with the address of the scripted broker in it."""
    return encode_offset_msg_id(encode_host(call.address), decode_offset_msg_id(call.fields["msgId"])[1])


CALLS: dict[RequestCode, Callable[[Call], Awaitable[object]]] = {
    RequestCode.QUERY_MESSAGE: _query,
    RequestCode.UPDATE_CONSUMER_OFFSET: lambda call: call.admin.offsets.commit(
        call.address, call.fields["consumerGroup"], call.queue, int(call.fields["commitOffset"])
    ),
    RequestCode.UPDATE_AND_CREATE_TOPIC: _create_topic,
    RequestCode.GET_ALL_TOPIC_CONFIG: lambda call: call.admin.topics.configs(call.address),
    RequestCode.UPDATE_BROKER_CONFIG: lambda call: call.admin.brokers.update_config(call.address, _settings(call.body)),
    RequestCode.GET_BROKER_CONFIG: lambda call: call.admin.brokers.config(call.address),
    RequestCode.GET_BROKER_RUNTIME_INFO: lambda call: call.admin.brokers.runtime_info(call.address),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: lambda call: call.admin.offsets.search_offset(
        call.queue, int(call.fields["timestamp"]), address=call.address
    ),
    RequestCode.GET_MAX_OFFSET: lambda call: call.admin.offsets.max_offset(call.queue, address=call.address),
    RequestCode.GET_MIN_OFFSET: lambda call: call.admin.offsets.min_offset(call.queue, address=call.address),
    RequestCode.GET_EARLIEST_MSG_STORETIME: lambda call: call.admin.offsets.earliest_store_time(
        call.queue, address=call.address
    ),
    RequestCode.VIEW_MESSAGE_BY_ID: lambda call: call.admin.messages.view(
        encode_offset_msg_id(encode_host(call.address), int(call.fields["offset"]))
    ),
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: _account,
    RequestCode.DELETE_ACL_CONFIG: lambda call: call.admin.accounts.delete(call.address, call.fields["accessKey"]),
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: lambda call: call.admin.accounts.version(call.address),
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: lambda call: call.admin.accounts.update_global_white_addresses(
        call.address, call.fields["globalWhiteAddrs"].split(","), acl_file=call.fields.get("aclFileFullPath")
    ),
    RequestCode.PUT_KV_CONFIG: lambda call: call.admin.name_servers.put_kv(
        call.fields["namespace"], call.fields["key"], call.fields["value"]
    ),
    RequestCode.GET_KV_CONFIG: lambda call: call.admin.name_servers.kv(call.fields["namespace"], call.fields["key"]),
    RequestCode.DELETE_KV_CONFIG: lambda call: call.admin.name_servers.delete_kv(
        call.fields["namespace"], call.fields["key"]
    ),
    RequestCode.GET_BROKER_CLUSTER_INFO: lambda call: call.admin.brokers.clusters(),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: lambda call: call.admin.groups.update(
        call.address, decode_body(call.body, SubscriptionGroupConfig)
    ),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: lambda call: call.admin.groups.configs(call.address),
    RequestCode.GET_TOPIC_STATS_INFO: lambda call: call.admin.topics.stats(call.fields["topic"]),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: lambda call: call.admin.clients.consumers(call.fields["consumerGroup"]),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: lambda call: call.admin.clients.producers(
        call.fields["producerGroup"], "AnyTopic"
    ),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: lambda call: call.admin.name_servers.wipe_write_perm(
        call.fields["brokerName"]
    ),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: lambda call: call.admin.topics.names(),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: lambda call: call.admin.groups.delete(
        call.address, call.fields["groupName"], remove_offset=call.fields["removeOffset"] == "true"
    ),
    RequestCode.GET_CONSUME_STATS: lambda call: call.admin.offsets.progress_at(
        call.address, call.fields["consumerGroup"], call.fields.get("topic")
    ),
    RequestCode.DELETE_TOPIC_IN_BROKER: lambda call: call.admin.topics.delete_in_brokers(
        [call.address], call.fields["topic"]
    ),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: lambda call: call.admin.topics.delete_in_name_servers(
        call.fields["topic"], cluster=call.fields.get("clusterName")
    ),
    RequestCode.GET_KVLIST_BY_NAMESPACE: lambda call: call.admin.name_servers.kv_list(call.fields["namespace"]),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: lambda call: call.admin.resets.reset_online(
        call.fields["topic"],
        call.fields["group"],
        int(call.fields["timestamp"]),
        is_force=call.fields["isForce"] == "true",
    ),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: lambda call: call.admin.clients.offsets(
        call.fields["topic"], call.fields["group"], call.fields.get("clientAddr")
    ),
    RequestCode.GET_TOPICS_BY_CLUSTER: lambda call: call.admin.topics.names_in_cluster(call.fields["cluster"]),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: lambda call: call.admin.topics.consumer_groups(call.fields["topic"]),
    RequestCode.QUERY_CONSUME_TIME_SPAN: lambda call: call.admin.offsets.time_spans(
        call.fields["topic"], call.fields["group"]
    ),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: lambda call: call.admin.topics.system_names(),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: lambda call: call.admin.topics.system_names(call.address),
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: lambda call: call.admin.cleaning.clean_expired_consume_queues(),
    RequestCode.GET_CONSUMER_RUNNING_INFO: lambda call: call.admin.clients.running_info(
        call.fields["consumerGroup"], call.fields["clientId"], jstack=call.fields["jstackEnable"] == "true"
    ),
    RequestCode.QUERY_CORRECTION_OFFSET: lambda call: call.admin.offsets.corrections(
        call.address,
        call.fields["topic"],
        call.fields["compareGroup"],
        filter_groups=_list(call.fields.get("filterGroups")),
    ),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: lambda call: call.admin.messages.consume_directly(
        call.fields["consumerGroup"], call.fields["clientId"], _msg_id_here(call)
    ),
    RequestCode.GET_UNIT_TOPIC_LIST: lambda call: call.admin.topics.unit_names(),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: lambda call: call.admin.topics.unit_subscribed_names(),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: lambda call: call.admin.topics.unit_subscribed_names(
        outside_unit=True
    ),
    RequestCode.CLONE_GROUP_OFFSET: lambda call: call.admin.offsets.clone(
        call.fields["srcGroup"],
        call.fields["destGroup"],
        call.fields["topic"],
        offline=call.fields["offline"] == "true",
    ),
    RequestCode.VIEW_BROKER_STATS_DATA: lambda call: call.admin.brokers.stats(
        call.address, call.fields["statsName"], call.fields["statsKey"]
    ),
    RequestCode.CLEAN_UNUSED_TOPIC: lambda call: call.admin.cleaning.clean_unused_topics(),
    RequestCode.GET_BROKER_CONSUME_STATS: lambda call: call.admin.offsets.progress_of_all(
        call.address, is_order=call.fields["isOrder"] == "true"
    ),
    RequestCode.UPDATE_NAMESRV_CONFIG: lambda call: call.admin.name_servers.update_config(_settings(call.body)),
    RequestCode.GET_NAMESRV_CONFIG: lambda call: call.admin.name_servers.config(),
    RequestCode.QUERY_CONSUME_QUEUE: lambda call: call.admin.brokers.consume_queue(
        call.address,
        call.fields["topic"],
        int(call.fields["queueId"]),
        index=int(call.fields["index"]),
        count=int(call.fields["count"]),
        group=call.fields.get("consumerGroup"),
    ),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: lambda call: call.admin.messages.resume_check(_msg_id_here(call)),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: lambda call: call.admin.name_servers.add_write_perm(
        call.fields["brokerName"]
    ),
    RequestCode.GET_ALL_PRODUCER_INFO: lambda call: call.admin.clients.all_producers(call.address),
    RequestCode.DELETE_EXPIRED_COMMITLOG: lambda call: call.admin.cleaning.delete_expired_commit_logs(),
}
"""Every request code of ``DefaultMQAdminExt`` and ``MQAdminImpl`` but that of routes."""

BODY_OF: dict[RequestCode, Callable[[Any], object]] = {
    RequestCode.GET_BROKER_RUNTIME_INFO: KVTable,
    RequestCode.GET_KVLIST_BY_NAMESPACE: KVTable,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: lambda table: GetConsumerStatusBody(consumer_table=table),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffsetBody,
    RequestCode.QUERY_CONSUME_TIME_SPAN: QueryConsumeTimeSpanBody,
    RequestCode.QUERY_CORRECTION_OFFSET: QueryCorrectionOffsetBody,
}
"""The body of which a call returns the only field."""

NO_ERROR_HERE = {
    (RequestCode.GET_KV_CONFIG, ResponseCode.QUERY_NOT_FOUND),
    (RequestCode.GET_KVLIST_BY_NAMESPACE, ResponseCode.QUERY_NOT_FOUND),
}
"""Refusals that our calls return as nothing found."""


@cache
def exchanges_by_code() -> dict[int, list[Exchange]]:
    requests: dict[tuple[str, int, int], RemotingCommand] = {}
    found: dict[int, list[Exchange]] = {}
    for frame in recorded_frames():
        key = (frame.run, frame.connection, frame.command.opaque)
        if frame.kind == "request" and frame.sender == "client":
            requests[key] = frame.command
        elif frame.kind == "response" and key in requests:
            request = requests.pop(key)
            found.setdefault(request.code, []).append(Exchange(frame.run, request, frame.command))
    return found


def recorded() -> list[ParameterSet]:
    """Each exchange of a call, once: half of them are others again, but for their opaque."""
    found: dict[str, ParameterSet] = {}
    for code in CALLS:
        for index, exchange in enumerate(exchanges_by_code()[code]):
            if is_of_a_call(exchange):
                fields = sorted(exchange.fields.items())
                what = repr((code, fields, exchange.request.body, attrs.evolve(exchange.java, opaque=0)))
                found.setdefault(what, pytest.param(code, exchange, id=f"{code.name}-{exchange.run}-{index}"))
    return list(found.values())


def is_of_a_call(exchange: Exchange) -> bool:
    """Whether a client asked, and its signature was taken; a few are probes of the recorder, without fields."""
    if (exchange.java.remark or "").startswith("org.apache.rocketmq.acl"):
        return False
    code = exchange.request.code
    if code == RequestCode.QUERY_MESSAGE and UNIQUE_KEY_QUERY not in exchange.fields:
        return False
    return bool(exchange.fields) or not any(each.fields for each in exchanges_by_code()[code])


def answering(exchange: Exchange) -> Callable[[Connection, RemotingCommand], RemotingCommand]:
    def processor(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        java = exchange.java
        answer = make_response(request, java.code, java.remark, body=java.body)
        answer.ext_fields = java.ext_fields
        return answer

    return processor


def serve(cluster: FakeCluster, code: RequestCode, exchange: Exchange) -> Scripted:
    """Let the servers answer as Java's; return the one that the request goes to."""
    fields = exchange.fields
    for server in (cluster.name_server, cluster.broker):
        server.register(code, answering(exchange))
    groups = [fields[name] for name in ("consumerGroup", "srcGroup") if name in fields]
    for topic in ["AnyTopic", *filter(None, [fields.get("topic"), fields.get("defaultTopic")])]:
        cluster.add_topic(topic)
    for group in groups:
        cluster.add_topic(f"%RETRY%{group}")
    if "msgId" in fields:
        _, physical_offset = decode_offset_msg_id(fields["msgId"])
        message = MessageExt("T", b"x", store_host=cluster.broker.address, physical_offset=physical_offset)
        record = encode_message(message)
        cluster.broker.answer(RequestCode.VIEW_MESSAGE_BY_ID, record)
    return cluster.broker


def as_value(body: bytes | None) -> object:
    """JSON as a value, since the order of keys is nobody's promise; other bodies as they are."""
    return loads(body) if body and body.startswith(b"{") else body or None


@pytest.mark.parametrize(("code", "exchange"), recorded())
async def test_a_call_sends_what_java_sends_and_reads_what_java_answered(code: RequestCode, exchange: Exchange) -> None:
    async with open_fake_cluster() as cluster, open_admin_client(cluster.address) as admin:
        serve(cluster, code, exchange)
        expected = dict(exchange.fields)
        call = Call(admin, expected, exchange.request.body or b"", cluster.broker.address)
        failure: BrokerError | ClientError | None = None
        result: object = None
        try:
            result = await CALLS[code](call)
        except (BrokerError, ClientError) as raised:
            failure = raised
        asked = cluster.broker.asked(code) or cluster.name_server.asked(code)
    if "msgId" in expected:
        expected["msgId"] = _msg_id_here(call)
    assert (asked[0].ext_fields or {}) == expected
    assert as_value(asked[0].body) == as_value(exchange.request.body)
    if exchange.java.code == ResponseCode.SUCCESS:
        assert failure is None or _finds_nothing(code, failure)
        assert_read(code, result, exchange.java, cluster)
    elif (code, exchange.java.code) in NO_ERROR_HERE:
        assert (failure, bool(result)) == (None, False)
    else:
        assert failure is not None
        is_not_found = (code, exchange.java.code) == (RequestCode.QUERY_MESSAGE, ResponseCode.QUERY_NOT_FOUND)
        assert failure.response_code == (ResponseCode.NO_MESSAGE if is_not_found else exchange.java.code)


def assert_read(code: RequestCode, result: Any, java: RemotingCommand, cluster: FakeCluster) -> None:
    """A result has all of the answer: its body, its field, or the address of the server that has answered."""
    if isinstance(result, dict) and list(result) == [cluster.address]:
        result = result[cluster.address]
    body = java.body or b""
    if code in (RequestCode.GET_BROKER_CONFIG, RequestCode.GET_NAMESRV_CONFIG):
        assert result == _settings(body)
    elif code in BODY_OF or (attrs.has(type(result)) and body.startswith(b"{")):
        assert as_value(encode_body(BODY_OF.get(code, lambda body: body)(result))) == as_value(body)
    elif isinstance(result, list) and body:
        (names,) = (each for each in loads(body).values() if isinstance(each, list))
        assert result == sorted(names)
    elif isinstance(result, list):
        assert result == [cluster.broker.address]
    elif isinstance(result, int | str):
        assert [str(result)] == list((java.ext_fields or {}).values())


def _finds_nothing(code: RequestCode, failure: BrokerError | ClientError) -> bool:
    """Java's calls raise too when what they are answered is empty."""
    return code == RequestCode.QUERY_MESSAGE and failure.response_code == ResponseCode.NO_MESSAGE


def test_there_is_an_exchange_of_every_code() -> None:
    assert {code for code in CALLS if not exchanges_by_code().get(code)} == set()
    assert len(recorded()) > 200
