"""Replies to requests: pushed to the requester, stored, and answered with the result of the push."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.broker.send.request_reply import WAITING_FOR_ONE_MAX
from rocketpy.protocol.codes import LanguageCode, RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import ReplyMessageRequestHeader
from rocketpy.protocol.properties import decode_properties
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.connection import Connection
from rocketpy.store.config import FlushDiskType
from rocketpy.store.results import PutMessageStatus
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker, send
from tests.broker.send.sending import EXTRA

V1, V2 = RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2
TO_C1 = "REPLY_TO_CLIENT\x01c1\x02CORRELATION_ID\x01x"


def reply(body: bytes | None = b"the reply", *, code: int = V2, **fields: object) -> RemotingCommand:
    if code == V2:
        request = send(body, **({"properties": TO_C1} | fields))  # type: ignore[arg-type]
    else:
        request = send(body, code=RequestCode.SEND_MESSAGE, **({"properties": TO_C1} | fields))  # type: ignore[arg-type]
    request.code = code
    return request


def requester(broker: MessageBroker, limits: ConnectionLimits | None = None) -> Connection:
    """A producer that waits for replies as client c1."""
    channel = broker.connect(("10.0.0.9", 777), limits)
    broker.tables.producers.register_producer("P", ClientChannelInfo(channel, "c1", LanguageCode.JAVA, 409, 0.0))
    return channel


async def ask(
    broker: MessageBroker, request: RemotingCommand, channel: Connection | None, taken: int = ResponseCode.SUCCESS
) -> tuple[RemotingCommand, list[RemotingCommand]]:
    """Send a reply; return the answer and what the requester got, which it answers with a code."""
    replier = broker.connect(("10.0.0.8", 888))
    pushes: list[RemotingCommand] = []
    async with trio.open_nursery() as nursery:
        broker.serve(encode_frame(request), replier)
        nursery.start_soon(broker.run_tasks)
        await trio.testing.wait_all_tasks_blocked()
        if channel is not None:
            pushes = received(channel)
            for push in pushes:
                broker.serve(encode_frame(make_response(push, taken, "because")), channel)
    (answer,) = received(replier)
    return answer, pushes


@pytest.mark.parametrize("serialize_type", list(SerializeType))
@pytest.mark.parametrize("code", [V1, V2])
async def test_a_reply_is_pushed_and_stored(broker: MessageBroker, code: int, serialize_type: SerializeType) -> None:
    broker.tables.clock.advance_ms(5)
    request = reply(code=code, serialize_type=serialize_type, sys_flag=1, flag=3, queue_id=2)
    answer, (push,) = await ask(broker, request, requester(broker))
    assert (push.code, push.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"the reply")
    now_ms = broker.tables.clock.timestamp_ms()
    header = read_header(push, ReplyMessageRequestHeader)
    assert (header.born_host, header.store_host, header.store_timestamp) == ("10.0.0.8:888", "127.0.0.1:10911", now_ms)
    assert (header.producer_group, header.topic, header.queue_id) == ("P", TOPIC, 2)
    assert (header.sys_flag, header.flag, header.born_timestamp) == (1, 3, 1_700_000_000_123)
    pushed = decode_properties(header.properties or "")
    assert pushed == {"PUSH_REPLY_TIME": str(now_ms), "REPLY_TO_CLIENT": "c1", "CORRELATION_ID": "x"}
    (stored,) = await broker.messages(queue_id=2)
    assert (stored.body, stored.sys_flag, stored.flag) == (b"the reply", 1, 3)
    assert stored.properties == {"REPLY_TO_CLIENT": "c1", "CORRELATION_ID": "x"}
    assert (answer.code, answer.remark, answer.opaque) == (ResponseCode.SUCCESS, None, 7)
    assert answer.serialize_type is serialize_type
    assert answer.ext_fields == EXTRA | {
        "msgId": "7F00000100002A9F0000000000000000", "queueId": "2", "queueOffset": "0"
    }  # fmt: skip


async def test_a_stored_reply_does_not_have_the_brokers_word(broker: MessageBroker) -> None:
    properties = "REPLY_TO_CLIENT\x01c1\x02TRAN_PREPARED_QUEUE_OFFSET\x010"
    await ask(broker, reply(properties=properties, sys_flag=9), requester(broker))
    (stored,) = await broker.messages()
    assert (stored.sys_flag, stored.properties) == (1, {"REPLY_TO_CLIENT": "c1"})


async def test_a_reply_need_not_be_stored() -> None:
    async with open_message_broker(store_reply_message_enable=False) as broker:
        answer, _ = await ask(broker, reply(queue_id=3), requester(broker))
        assert answer.ext_fields == EXTRA | {"msgId": "0", "queueId": "3", "queueOffset": "0"}
        assert broker.stored_bytes == 0
        answer, _ = await ask(broker, reply(properties="a\x01b"), None)
        assert (answer.code, answer.ext_fields) == (ResponseCode.SYSTEM_ERROR, EXTRA)


@pytest.mark.parametrize(
    ("properties", "remark"),
    [
        ("a\x01b", "reply message properties[REPLY_TO_CLIENT] is null"),
        ("REPLY_TO_CLIENT\x01nobody", "push reply message fail, channel of <nobody> not found."),
        ("REPLY_TO_CLIENT\x01" + "n" * 300, f"push reply message fail, channel of <{'n' * 255}...> not found."),
    ],
)
async def test_a_reply_without_a_requester_is_stored_and_its_remark_says_so(
    broker: MessageBroker, properties: str, remark: str
) -> None:
    answer, _ = await ask(broker, reply(properties=properties), None)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert (answer.ext_fields or {})["queueOffset"] == "0"
    assert len(await broker.messages()) == 1


async def test_a_requester_may_refuse(broker: MessageBroker) -> None:
    answer, _ = await ask(broker, reply(), requester(broker), taken=ResponseCode.SYSTEM_ERROR)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "push reply message to c1fail. it answered code 1: because"


async def test_a_requester_that_is_silent_is_given_up(
    broker: MessageBroker, autojump_clock: trio.testing.MockClock
) -> None:
    requester(broker)
    began = trio.current_time()
    answer, _ = await ask(broker, reply(), None)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("push reply message to c1fail. no answer from 10.0.0.9:777")
    assert trio.current_time() - began == 10


async def test_a_requester_that_disconnects_fails_the_push(broker: MessageBroker) -> None:
    channel = requester(broker)
    replier = broker.connect()
    async with trio.open_nursery() as nursery:
        broker.serve(encode_frame(reply()), replier)
        nursery.start_soon(broker.run_tasks)
        await trio.testing.wait_all_tasks_blocked()
        channel.close()
    (answer,) = received(replier)
    assert (answer.remark or "").startswith("push reply message to c1fail. the connection to 10.0.0.9:777 ended")


async def test_a_refused_copy_changes_nothing_of_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    async with open_message_broker(put_status=PutMessageStatus.MESSAGE_ILLEGAL) as broker:
        answer, _ = await ask(broker, reply(), requester(broker))
    assert answer.code == ResponseCode.SUCCESS
    assert (answer.ext_fields or {})["msgId"] == "0"
    assert "a reply for topic TopicTest is not stored: MESSAGE_ILLEGAL" in caplog.text


@pytest.mark.parametrize(("wait", "waits"), [("true", True), ("false", False)])
async def test_under_sync_flush_an_answer_waits_for_the_disk(wait: str, waits: bool) -> None:
    async with open_message_broker(store={"flush_disk_type": FlushDiskType.SYNC_FLUSH}) as broker:
        waited_for: list[int] = []
        wait_stored = broker.store.wait_stored
        broker.store.wait_stored = lambda end, callback: (waited_for.append(end), wait_stored(end, callback))[0]  # type: ignore[method-assign, assignment, func-returns-value]
        answer, _ = await ask(broker, reply(properties=f"{TO_C1}\x02WAIT\x01{wait}"), requester(broker))
        assert answer.code == ResponseCode.SUCCESS
        assert waited_for == ([broker.stored_bytes] if waits else [])
        await broker.settle()
        assert broker.store.durable_offset == broker.stored_bytes
        (stored,) = await broker.messages()
        assert stored.properties["WAIT"] == wait


async def test_the_checks_are_those_of_a_send(broker: MessageBroker) -> None:
    for fields, code in (
        ({"topic": ""}, ResponseCode.SYSTEM_ERROR),
        ({"topic": "SELF_TEST_TOPIC"}, ResponseCode.NO_PERMISSION),
        ({"topic": "New", "default_topic": "No"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 4}, ResponseCode.SYSTEM_ERROR),
        ({"properties": "INNER_MULTI_QUEUE_OFFSET\x010"}, ResponseCode.MESSAGE_ILLEGAL),
        ({"properties": "DELAY\x01soon"}, ResponseCode.SYSTEM_ERROR),
    ):
        answer, _ = await ask(broker, reply(**fields), None)
        assert answer.code == code, fields
        assert answer.remark
        assert answer.ext_fields == EXTRA
    assert broker.stored_bytes == 0


async def test_a_oneway_reply_is_pushed_and_not_answered(broker: MessageBroker) -> None:
    channel = requester(broker)
    request = reply(oneway=True)
    replier = broker.connect()
    async with trio.open_nursery() as nursery:
        broker.serve(encode_frame(request), replier)
        nursery.start_soon(broker.run_tasks)
        await trio.testing.wait_all_tasks_blocked()
        (push,) = received(channel)
        broker.serve(encode_frame(make_response(push)), channel)
    assert received(replier) == []


async def test_replies_that_wait_for_one_requester_are_bounded(
    broker: MessageBroker, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """They are tasks, and a requester that never answers must not use up those of the others."""
    caplog.set_level(logging.ERROR)
    requester(broker)
    replier = broker.connect()
    for _ in range(WAITING_FOR_ONE_MAX + 1):
        broker.serve(encode_frame(reply()), replier)
    tasks, broker.transport.tasks = broker.transport.tasks, []
    async with trio.open_nursery() as nursery:
        for function, arguments in tasks:
            nursery.start_soon(function, *arguments)
        await trio.testing.wait_all_tasks_blocked()
        (refusal,) = received(replier)
        assert refusal.code == ResponseCode.SYSTEM_BUSY
        assert (refusal.remark or "").startswith("[OVERLOAD]system busy, start flow control for a while: 128 replies")
    assert len(received(replier)) == WAITING_FOR_ONE_MAX
    answer, _ = await ask(broker, reply(properties="a\x01b"), None)
    assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_replies_that_wait_hold_a_bounded_number_of_bytes(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """A requester that takes replies and does not acknowledge them had the broker keep 128 of 16 MiB each."""
    monkeypatch.setattr("rocketpy.broker.send.request_reply.REPLY_BYTES_MAX", 8000)
    async with open_message_broker() as broker:
        requester(broker)
        replier = broker.connect(("10.0.0.8", 888))
        for _ in range(9):
            broker.serve(encode_frame(reply(bytes(1000))), replier)
        tasks, broker.transport.tasks = broker.transport.tasks, []
        async with trio.open_nursery() as nursery:
            for function, arguments in tasks:
                nursery.start_soon(function, *arguments)
            await trio.testing.wait_all_tasks_blocked()
            (refusal,) = received(replier)
            assert refusal.code == ResponseCode.SYSTEM_BUSY
            assert "8000 bytes of replies wait, this one has 1000" in (refusal.remark or "")
        assert len(received(replier)) == 8, "nothing was acknowledged in time"
