"""What each kind of request needs; Java's verdicts over all of them are in test_plain_permission."""

from __future__ import annotations

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
from rocketpy.remoting.dispatch import Dispatcher
from tests.broker.acl.declared import declared, declared_needs


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
LOCK = encode_body(LockBatchRequestBody("readers", "client"))

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


STRICT_ROWS = [
    (RequestCode.SEND_MESSAGE, {"topic": "%RETRY%readers"}, None, {"%RETRY%readers": SUB}),
    (RequestCode.SEND_MESSAGE_V2, {"a": "mine", "b": "%RETRY%r"}, None, {"%RETRY%mine": SUB, "%RETRY%r": SUB}),
    (RequestCode.SEND_BATCH_MESSAGE, {"a": "writers", "b": "orders"}, None, {"orders": PUB}),
    (RequestCode.SEND_REPLY_MESSAGE, {"topic": "orders"}, None, {"orders": PUB}),
    (RequestCode.SEND_REPLY_MESSAGE_V2, {"b": "orders"}, None, {"orders": PUB}),
    (RequestCode.QUERY_CONSUMER_OFFSET, TOPIC_AND_GROUP, None, {"orders": SUB, "%RETRY%readers": SUB}),
    (RequestCode.QUERY_CONSUME_QUEUE, {"topic": "orders", "consumerGroup": "readers"}, None, {"orders": SUB}),
    (RequestCode.LOCK_BATCH_MQ, {}, LOCK, {"%RETRY%readers": SUB}),
    (RequestCode.UNLOCK_BATCH_MQ, {}, LOCK, {"%RETRY%readers": SUB}),
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
    changes, tells_of_others = {33, 222, 308, 309, 314, 323}, {26, 43, 52, 203, 204, 307, 315}
    assert {code for code in needs if needs[code].is_strict_admin} == of_rocketmq | more | changes | tells_of_others


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
