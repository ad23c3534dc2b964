"""Every frame that a Java cluster was recorded to send: read, written again byte for byte, its header class rebuilt.

Whole frames are identical, JSON and binary, with one exception that is counted here: a Java client with a hook (access
control) writes the fields of its two most frequent headers twice in a binary frame; those are compared by value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from rocketpy.errors import RequestError
from rocketpy.protocol.codes import LanguageCode, RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import decode_frame, encode_frame
from rocketpy.protocol.headers import (
    admin,
    client,
    namesrv,
    offset,
    pull,
    query,
    queue_bounds,
    registration,
    send,
    topic,
)
from rocketpy.protocol.headers.codec import read_header, wire_names, write_header
from tests.recorded import VECTORS, RecordedFrame, recorded_frames

FRAMES = 4413
WRITTEN_TWICE = {RequestCode.PULL_MESSAGE: 38, RequestCode.SEND_MESSAGE_V2: 4, RequestCode.SEND_BATCH_MESSAGE: 2}

WITHOUT_FIELDS = "error-missing-fields"  # requests sent without ext fields, to see what Java answers

# Ext fields that hooks and the look-up by unique key add beside the header class.
HOOK_FIELDS = {"AccessKey", "Signature", "SecurityToken", "ReqT", query.UNIQUE_KEY_QUERY}
# Ext fields of an answer to a send beside its header class.
SEND_RESPONSE_FIELDS = {"MSG_REGION", "TRACE_ON"}

REQUEST_HEADERS: dict[int, type] = {
    RequestCode.SEND_MESSAGE: send.SendMessageRequestHeader,
    RequestCode.PULL_MESSAGE: pull.PullMessageRequestHeader,
    RequestCode.QUERY_MESSAGE: query.QueryMessageRequestHeader,
    RequestCode.QUERY_CONSUMER_OFFSET: offset.QueryConsumerOffsetRequestHeader,
    RequestCode.UPDATE_CONSUMER_OFFSET: offset.UpdateConsumerOffsetRequestHeader,
    RequestCode.UPDATE_AND_CREATE_TOPIC: topic.CreateTopicRequestHeader,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: queue_bounds.SearchOffsetRequestHeader,
    RequestCode.GET_MAX_OFFSET: queue_bounds.GetMaxOffsetRequestHeader,
    RequestCode.GET_MIN_OFFSET: queue_bounds.GetMinOffsetRequestHeader,
    RequestCode.GET_EARLIEST_MSG_STORETIME: queue_bounds.GetEarliestMsgStoretimeRequestHeader,
    RequestCode.VIEW_MESSAGE_BY_ID: query.ViewMessageRequestHeader,
    RequestCode.UNREGISTER_CLIENT: client.UnregisterClientRequestHeader,
    RequestCode.CONSUMER_SEND_MSG_BACK: send.ConsumerSendMsgBackRequestHeader,
    RequestCode.END_TRANSACTION: send.EndTransactionRequestHeader,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: client.GetConsumerListByGroupRequestHeader,
    RequestCode.CHECK_TRANSACTION_STATE: send.CheckTransactionStateRequestHeader,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: client.NotifyConsumerIdsChangedRequestHeader,
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: admin.CreateAccessConfigRequestHeader,
    RequestCode.DELETE_ACL_CONFIG: admin.DeleteAccessConfigRequestHeader,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: admin.UpdateGlobalWhiteAddrsConfigRequestHeader,
    RequestCode.PUT_KV_CONFIG: namesrv.PutKVConfigRequestHeader,
    RequestCode.GET_KV_CONFIG: namesrv.GetKVConfigRequestHeader,
    RequestCode.DELETE_KV_CONFIG: namesrv.DeleteKVConfigRequestHeader,
    RequestCode.REGISTER_BROKER: registration.RegisterBrokerRequestHeader,
    RequestCode.UNREGISTER_BROKER: registration.UnRegisterBrokerRequestHeader,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: namesrv.GetRouteInfoRequestHeader,
    RequestCode.GET_TOPIC_STATS_INFO: topic.GetTopicStatsInfoRequestHeader,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: admin.GetConsumerConnectionListRequestHeader,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: admin.GetProducerConnectionListRequestHeader,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: namesrv.WipeWritePermOfBrokerRequestHeader,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: admin.DeleteSubscriptionGroupRequestHeader,
    RequestCode.GET_CONSUME_STATS: admin.GetConsumeStatsRequestHeader,
    RequestCode.DELETE_TOPIC_IN_BROKER: topic.DeleteTopicRequestHeader,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: namesrv.DeleteTopicFromNamesrvRequestHeader,
    RequestCode.GET_KVLIST_BY_NAMESPACE: namesrv.GetKVListByNamespaceRequestHeader,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: client.ResetOffsetRequestHeader,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: client.GetConsumerStatusRequestHeader,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: client.ResetOffsetRequestHeader,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: client.GetConsumerStatusRequestHeader,
    RequestCode.GET_TOPICS_BY_CLUSTER: namesrv.GetTopicsByClusterRequestHeader,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: topic.QueryTopicConsumeByWhoRequestHeader,
    RequestCode.QUERY_CONSUME_TIME_SPAN: topic.QueryConsumeTimeSpanRequestHeader,
    RequestCode.GET_CONSUMER_RUNNING_INFO: client.GetConsumerRunningInfoRequestHeader,
    RequestCode.QUERY_CORRECTION_OFFSET: admin.QueryCorrectionOffsetHeader,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: client.ConsumeMessageDirectlyResultRequestHeader,
    RequestCode.SEND_MESSAGE_V2: send.SendMessageRequestHeaderV2,
    RequestCode.CLONE_GROUP_OFFSET: admin.CloneGroupOffsetRequestHeader,
    RequestCode.VIEW_BROKER_STATS_DATA: admin.ViewBrokerStatsDataRequestHeader,
    RequestCode.GET_BROKER_CONSUME_STATS: admin.GetConsumeStatsInBrokerHeader,
    RequestCode.SEND_BATCH_MESSAGE: send.SendMessageRequestHeaderV2,
    RequestCode.QUERY_CONSUME_QUEUE: query.QueryConsumeQueueRequestHeader,
    RequestCode.QUERY_DATA_VERSION: registration.QueryDataVersionRequestHeader,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: send.ResumeCheckHalfMessageRequestHeader,
    RequestCode.SEND_REPLY_MESSAGE: send.SendMessageRequestHeader,
    RequestCode.SEND_REPLY_MESSAGE_V2: send.SendMessageRequestHeaderV2,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: send.ReplyMessageRequestHeader,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: namesrv.AddWritePermOfBrokerRequestHeader,
    RequestCode.GET_ALL_PRODUCER_INFO: admin.GetAllProducerInfoRequestHeader,
}

RESPONSE_HEADERS: dict[int, type] = {
    RequestCode.SEND_MESSAGE: send.SendMessageResponseHeader,
    RequestCode.PULL_MESSAGE: pull.PullMessageResponseHeader,
    RequestCode.QUERY_MESSAGE: query.QueryMessageResponseHeader,
    RequestCode.QUERY_CONSUMER_OFFSET: offset.QueryConsumerOffsetResponseHeader,
    RequestCode.GET_BROKER_CONFIG: admin.GetBrokerConfigResponseHeader,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: queue_bounds.SearchOffsetResponseHeader,
    RequestCode.GET_MAX_OFFSET: queue_bounds.GetMaxOffsetResponseHeader,
    RequestCode.GET_MIN_OFFSET: queue_bounds.GetMinOffsetResponseHeader,
    RequestCode.GET_EARLIEST_MSG_STORETIME: queue_bounds.GetEarliestMsgStoretimeResponseHeader,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: admin.GetBrokerAclConfigResponseHeader,
    RequestCode.GET_KV_CONFIG: namesrv.GetKVConfigResponseHeader,
    RequestCode.REGISTER_BROKER: registration.RegisterBrokerResponseHeader,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: namesrv.WipeWritePermOfBrokerResponseHeader,
    RequestCode.SEND_MESSAGE_V2: send.SendMessageResponseHeader,
    RequestCode.SEND_BATCH_MESSAGE: send.SendMessageResponseHeader,
    RequestCode.QUERY_DATA_VERSION: registration.QueryDataVersionResponseHeader,
    RequestCode.SEND_REPLY_MESSAGE: send.SendMessageResponseHeader,
    RequestCode.SEND_REPLY_MESSAGE_V2: send.SendMessageResponseHeader,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: namesrv.AddWritePermOfBrokerResponseHeader,
}
SEND_CODES = {
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
}


def requests() -> Iterator[tuple[RecordedFrame, RemotingCommand]]:
    return ((each, decode_frame(each.content)) for each in recorded_frames() if each.kind != "response")


def responses() -> Iterator[tuple[RecordedFrame, RemotingCommand]]:
    return ((each, decode_frame(each.content)) for each in recorded_frames() if each.kind == "response")


def test_every_frame_decodes_to_what_was_recorded_of_it() -> None:
    assert len(recorded_frames()) == FRAMES
    for row in recorded_frames():
        command = decode_frame(row.content)
        assert command.code == row.code
        assert command.serialize_type.name == row.serialize
        assert command.is_response == (row.kind == "response")
        assert command.is_oneway == (row.kind == "oneway")
        assert command.language == LanguageCode.JAVA
        assert command.version == 407
        if row.code_name is not None and row.code != 54:  # 54 exists in 4.9.7 only
            names = ResponseCode if command.is_response else RequestCode
            assert names(row.code).name == row.code_name


def test_every_frame_is_written_again_byte_for_byte() -> None:
    written_twice: Counter[int] = Counter()
    for row in recorded_frames():
        command = decode_frame(row.content)
        again = encode_frame(command)
        if again != row.content:
            written_twice[row.code] += 1
            assert command.serialize_type == SerializeType.ROCKETMQ
            assert len(again) < len(row.content)
            assert decode_frame(again) == command
    assert written_twice == WRITTEN_TWICE


def test_every_request_header_is_read_and_written_again() -> None:
    with_header: set[int] = set()
    for row, command in requests():
        fields = {name: text for name, text in (command.ext_fields or {}).items() if name not in HOOK_FIELDS}
        header_class = REQUEST_HEADERS.get(row.code)
        if header_class is None:
            assert fields == {}, row
            continue
        if row.scenario == WITHOUT_FIELDS:
            with pytest.raises(RequestError, match=rf"^CODE: 1  DESC: {header_class.__name__}\.\w+: expected"):
                read_header(command, header_class)
            continue
        with_header.add(row.code)
        assert write_header(read_header(command, header_class)) == fields, row
    assert with_header == set(REQUEST_HEADERS)


def test_every_response_header_is_read_and_written_again() -> None:
    """An answer has either all fields of its header class or none: refusals carry none, or are refused later."""
    with_header: set[int] = set()
    for row, command in responses():
        own = SEND_RESPONSE_FIELDS if row.request_code in SEND_CODES else set()
        fields = {name: text for name, text in (command.ext_fields or {}).items() if name not in own}
        if not fields:
            continue
        header_class = RESPONSE_HEADERS[row.request_code]
        with_header.add(row.request_code)
        assert write_header(read_header(command, header_class)) == fields, row
    assert with_header == set(RESPONSE_HEADERS)


def test_send_and_pull_headers_are_written_in_the_order_of_java() -> None:
    """Java writes these two classes field by field into a binary frame, all others in the order of its HashMap."""
    same = 0
    for row, command in requests():
        if row.code in WRITTEN_TWICE and command.serialize_type == SerializeType.ROCKETMQ:
            fields = command.ext_fields or {}
            if row.scenario != WITHOUT_FIELDS and not HOOK_FIELDS & fields.keys():
                assert list(write_header(read_header(command, REQUEST_HEADERS[row.code]))) == list(fields)
                same += 1
    assert same == 80


def test_vectors_of_whole_frames() -> None:
    for vector in VECTORS["command_headers"]:
        frame = bytes.fromhex(vector["frame_hex"])
        command = decode_frame(frame)
        # Java's binary reader makes null of an empty value; here it stays what the peer sent.
        fields = vector["ext_fields"] and {name: text or "" for name, text in vector["ext_fields"].items()}
        assert command == RemotingCommand(
            code=vector["code"],
            ext_fields=fields,
            body=None if vector["body_hex"] is None else bytes.fromhex(vector["body_hex"]),
            remark=vector["remark"],
            opaque=vector["opaque"],
            flag=vector["flag"],
            language=LanguageCode[vector["language"]],
            version=vector["version"],
            serialize_type=SerializeType[vector["serialize"]],
        )
        assert encode_frame(command) == frame


def test_no_header_class_is_left_out() -> None:
    """A class that no recorded frame shows is listed here, so that a new one cannot hide."""
    shown = {*REQUEST_HEADERS.values(), *RESPONSE_HEADERS.values()}
    families = (admin, client, namesrv, offset, pull, query, send, topic)
    declared = {
        item
        for family in families
        for item in vars(family).values()
        if isinstance(item, type) and item.__module__ == family.__name__
    }
    without_fields = {item for item in declared if not wire_names(item)}
    assert {item.__name__ for item in declared - shown - without_fields} == {
        "CheckTransactionStateResponseHeader",
        "CompareRecordRequestHeader",  # ours
        "CompareRecordResponseHeader",  # ours
        "RegisterFilterServerRequestHeader",
        "RegisterFilterServerResponseHeader",
        "RegisterMessageFilterClassRequestHeader",
        "RegisterOrderTopicRequestHeader",
        "UpdateConsumerOffsetResponseHeader",  # RocketMQ's has no field
    }
