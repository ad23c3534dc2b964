"""What each kind of request needs; Java's verdicts over all of them are in test_plain_permission."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.needed_permissions import needed_permissions, needs_by_code
from rocketpy.broker.acl.needs import ADMIN, ANY_ACCOUNT, Needed
from rocketpy.broker.acl.permission import PUB, SUB
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from rocketpy.protocol.bodies.lock import LockBatchRequestBody
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.headers.codec import wire_names
from rocketpy.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rocketpy.protocol.message import MessageQueue
from rocketpy.remoting.dispatch import Dispatcher
from tests.broker.acl.declared import declared, declared_needs
from tests.broker.acl.request_headers import headers_by_code


def needed(request: RemotingCommand, *, is_strict: bool, **settings: int) -> Needed:
    """Return what a request needs by the declaration of its code."""
    return needed_permissions(request, declared_needs()[request.code], is_strict=is_strict, **settings)  # type: ignore[arg-type]


HEARTBEAT = encode_body(
    HeartbeatData(
        "client",
        [ProducerData("writers")],
        [ConsumerData("readers", subscription_data_set=[SubscriptionData("orders", "*")]), ConsumerData("idle")],
    )
)
LOCK = encode_body(LockBatchRequestBody("readers", "client", [MessageQueue("orders", "b", 0)]))

TOPIC_AND_GROUP = {"topic": "orders", "consumerGroup": "readers"}
ROWS = [
    (RequestCode.SEND_MESSAGE, {"topic": "orders"}, None, {"orders": PUB}),
    (RequestCode.SEND_MESSAGE, {"topic": "%RETRY%readers"}, None, {}),
    (RequestCode.SEND_MESSAGE, {"topic": "%RETRY%readers", "group": "mine"}, None, {"%RETRY%mine": SUB}),
    (RequestCode.SEND_MESSAGE_V2, {"a": "writers", "b": "orders"}, None, {"orders": PUB}),
    (RequestCode.SEND_MESSAGE_V2, {"a": "mine", "b": "%RETRY%readers"}, None, {"%RETRY%mine": SUB}),
    (RequestCode.SEND_BATCH_MESSAGE, {"a": "writers", "b": "orders"}, None, {}),
    (RequestCode.SEND_REPLY_MESSAGE, {"topic": "orders"}, None, {}),
    (RequestCode.SEND_REPLY_MESSAGE_V2, {"b": "orders"}, None, {}),
    (RequestCode.CONSUMER_SEND_MSG_BACK, {"group": "readers"}, None, {"%RETRY%readers": SUB}),
    (RequestCode.PULL_MESSAGE, TOPIC_AND_GROUP, None, {"orders": SUB, "%RETRY%readers": SUB}),
    (RequestCode.UPDATE_CONSUMER_OFFSET, TOPIC_AND_GROUP, None, {"orders": SUB, "%RETRY%readers": SUB}),
    (RequestCode.QUERY_CONSUMER_OFFSET, TOPIC_AND_GROUP, None, {}),
    (RequestCode.QUERY_MESSAGE, {"topic": "orders", "key": "k"}, None, {"orders": SUB}),
    (RequestCode.UNREGISTER_CLIENT, {"consumerGroup": "readers"}, None, {"%RETRY%readers": SUB}),
    (RequestCode.UNREGISTER_CLIENT, {"producerGroup": "writers"}, None, {}),
    (RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "readers"}, None, {"%RETRY%readers": SUB}),
    (RequestCode.HEART_BEAT, {}, HEARTBEAT, {"%RETRY%readers": SUB, "orders": SUB, "%RETRY%idle": SUB}),
    (RequestCode.LOCK_BATCH_MQ, {}, LOCK, {}),
    (RequestCode.END_TRANSACTION, {"producerGroup": "writers"}, None, {}),
]


@pytest.mark.parametrize(("code", "fields", "body", "wanted"), ROWS)
def test_each_request_needs_what_it_needs_in_rocketmq(
    code: RequestCode, fields: dict[str, str], body: bytes | None, wanted: dict[str, int]
) -> None:
    assert needed(RemotingCommand(code, fields, body), is_strict=False) == wanted


BOTH = {"orders": SUB, "%RETRY%readers": SUB}
STRICT_ROWS = [
    (RequestCode.SEND_MESSAGE, {"topic": "%RETRY%readers"}, None, {"%RETRY%readers": SUB}),
    (RequestCode.SEND_MESSAGE_V2, {"a": "mine", "b": "%RETRY%r"}, None, {"%RETRY%mine": SUB, "%RETRY%r": SUB}),
    (RequestCode.SEND_BATCH_MESSAGE, {"a": "writers", "b": "orders"}, None, {"orders": PUB}),
    (RequestCode.SEND_REPLY_MESSAGE, {"topic": "orders"}, None, {"orders": PUB}),
    (RequestCode.SEND_REPLY_MESSAGE_V2, {"b": "orders"}, None, {"orders": PUB}),
    (RequestCode.QUERY_CONSUMER_OFFSET, TOPIC_AND_GROUP, None, {"orders": SUB, "%RETRY%readers": SUB}),
    (RequestCode.QUERY_CONSUME_QUEUE, {"topic": "orders"}, None, {"orders": SUB}),
    (RequestCode.QUERY_CONSUME_QUEUE, TOPIC_AND_GROUP, None, BOTH),
    (RequestCode.LOCK_BATCH_MQ, {}, LOCK, BOTH),
    (RequestCode.UNLOCK_BATCH_MQ, {}, LOCK, BOTH),
    (RequestCode.GET_MAX_OFFSET, {"topic": "orders"}, None, {"orders": SUB}),
    (RequestCode.GET_MAX_OFFSET, {"topic": "%RETRY%readers"}, None, {"%RETRY%readers": SUB}),
    (RequestCode.GET_CONSUME_STATS, TOPIC_AND_GROUP, None, BOTH),
    (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "readers"}, None, {"%RETRY%readers": SUB}),
    (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "readers", "topic": " "}, None, {"%RETRY%readers": SUB}),
    (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "orders", "group": "readers"}, None, BOTH),
    (RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": "orders", "group": "readers"}, None, BOTH),
    (RequestCode.END_TRANSACTION, {"producerGroup": "writers"}, None, {}),
    (RequestCode.PULL_MESSAGE, TOPIC_AND_GROUP, None, {"orders": SUB, "%RETRY%readers": SUB}),
]


@pytest.mark.parametrize(("code", "fields", "body", "wanted"), STRICT_ROWS)
def test_the_strict_form_closes_rocketmqs_holes(
    code: RequestCode, fields: dict[str, str], body: bytes | None, wanted: dict[str, int]
) -> None:
    assert needed(RemotingCommand(code, fields, body), is_strict=True) == wanted


NAMES = "K\x01v\x02INNER_MULTI_DISPATCH\x01Secret,%LMQ%bob,orders,RMQ_SYS_TRACE_TOPIC,a/b,%RETRY%g\x02DELAY\x011"
NAMING = [
    (RequestCode.SEND_MESSAGE, {"topic": "orders", "properties": NAMES}),
    (RequestCode.SEND_MESSAGE_V2, {"b": "orders", "i": NAMES}),
    (RequestCode.SEND_REPLY_MESSAGE, {"topic": "orders", "properties": NAMES}),
    (RequestCode.SEND_REPLY_MESSAGE_V2, {"b": "orders", "i": NAMES}),
]


@pytest.mark.parametrize(("code", "fields"), NAMING)
def test_with_multi_dispatch_a_message_needs_pub_on_what_it_names(code: RequestCode, fields: dict[str, str]) -> None:
    """A name that no message may have is not among them: PUB on the trace topic would need no permission at all."""
    request = RemotingCommand(code, fields, None)
    found = needed(request, is_strict=False, multi_dispatch=True)
    assert found == {"orders": PUB, "Secret": PUB}
    strict = needed(request, is_strict=True, multi_dispatch=True)
    assert strict == {"orders": PUB, "Secret": PUB, "%LMQ%bob": PUB}
    assert "Secret" not in needed(request, is_strict=True)


@pytest.mark.parametrize("code", [RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ])
@pytest.mark.parametrize("body", [None, b"", b"nonsense", b'{"clientID":', b"[]"])
def test_a_body_that_cannot_be_read_is_refused(code: RequestCode, body: bytes | None) -> None:
    """A check that cannot tell what is asked for must not allow it."""
    with pytest.raises(AclError):
        needed(RemotingCommand(code, {}, body), is_strict=True)


def test_what_changes_the_broker_needs_an_administrator() -> None:
    needs = declared_needs()
    of_rocketmq, more = {17, 25, 200, 207, 215}, {50, 51, 53, 54, 306, 316, 329}
    assert {code for code in needs if needs[code].is_admin} == of_rocketmq | more
    changes = {33, 222, 308, 309, 314, 323}
    tells_of_others = {21, 26, 28, 43, 45, 52, 201, 203, 204, 305, 307, 315, 317, 328}
    assert {code for code in needs if needs[code].is_strict_admin} == of_rocketmq | more | changes | tells_of_others


SENDS = {
    RequestCode.SEND_MESSAGE: SendMessageRequestHeader,
    RequestCode.SEND_REPLY_MESSAGE: SendMessageRequestHeader,
    RequestCode.SEND_MESSAGE_V2: SendMessageRequestHeaderV2,
    RequestCode.SEND_BATCH_MESSAGE: SendMessageRequestHeaderV2,
    RequestCode.SEND_REPLY_MESSAGE_V2: SendMessageRequestHeaderV2,
}
"""Their header is not read by ``read_header`` in the processor."""

IN_BODIES = {RequestCode.HEART_BEAT: HEARTBEAT, RequestCode.LOCK_BATCH_MQ: LOCK, RequestCode.UNLOCK_BATCH_MQ: LOCK}
"""What these name is in their body: the topic orders and the group readers."""

NAMES_NOTHING_TO_HAVE_A_RIGHT_ON = {
    "producer_group": "RocketMQ has no permissions on groups of producers",
    "default_topic": "the configuration that a new topic takes over, which the broker has chosen",
    "origin_topic": "not read: the topic of the record counts, which its processor checks",
}
OPEN_TO_ANY_ACCOUNT = {
    RequestCode.END_TRANSACTION: "its processor checks that the account has sent the half message",
    RequestCode.CHECK_CLIENT_CONFIG: "parses an expression: the answer depends on nothing but the request",
}


@pytest.mark.parametrize("code", sorted(headers_by_code()))
def test_the_strict_form_needs_rights_on_all_that_a_request_names_or_an_administrator(code: int) -> None:
    """SECURITY.md: those that name a topic or group need the rights on it, those that name neither an administrator."""
    headers = headers_by_code()[code] or tuple(SENDS[each] for each in SENDS if each == code)
    fields = {
        name: f"n-{name}"
        for header in headers
        for attribute, name in zip(attrs.fields(header), wire_names(header), strict=True)  # type: ignore[arg-type]
        if attribute.name.endswith(("topic", "group")) and attribute.name not in NAMES_NOTHING_TO_HAVE_A_RIGHT_ON
    }
    body = next((IN_BODIES[each] for each in IN_BODIES if each == code), None)
    names = set(fields.values()) if body is None else {"orders", "readers"}
    if declared_needs()[code].is_strict_admin or code in OPEN_TO_ANY_ACCOUNT:
        return
    assert names, "it names neither topic nor group, and any account may ask"
    found = needed(RemotingCommand(code, fields, body), is_strict=True)
    assert names <= {each.removeprefix("%RETRY%") for each in found}


def test_the_codes_that_any_account_may_ask_are_few() -> None:
    assert set(headers_by_code()) == set(declared_needs()), "of every code it is known what its processor reads"
    is_open = {code for code, needs in declared_needs().items() if needs == ANY_ACCOUNT}
    assert is_open == set(OPEN_TO_ANY_ACCOUNT)


def test_every_code_declares_what_it_needs() -> None:
    """None is closed by having been forgotten: what operators rely on is written down."""
    assert None not in declared().values()


def test_a_code_without_a_declaration_needs_an_administrator() -> None:
    dispatcher = Dispatcher()
    dispatcher.register(1, lambda connection, request: None)
    dispatcher.register(2, lambda connection, request: None, needs=ANY_ACCOUNT)
    assert needs_by_code(dispatcher.needs) == {1: ADMIN, 2: ANY_ACCOUNT}


@pytest.mark.parametrize("code", [RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ])
def test_a_body_that_its_processor_would_not_read_is_not_read_here_either(code: int) -> None:
    """It takes a second for what a frame may hold, and permissions are asked for before the processor is."""
    body = b'{"clientID":"c","clientId":"c","consumerGroup":"g"'.ljust(200) + b"}"
    needed(RemotingCommand(code, {}, body), is_strict=True, body_size_max=201)
    with pytest.raises(AclError, match="expected at most 200 bytes, found 201"):
        needed(RemotingCommand(code, {}, body), is_strict=True, body_size_max=200)
    with pytest.raises(AclError, match="expected standard JSON"):
        needed(RemotingCommand(code, {}, b"{a:'" + b"b" * 40_000 + b"'}"), is_strict=True)
