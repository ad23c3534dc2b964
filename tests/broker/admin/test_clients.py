"""Requests relayed to consumers: which members are asked, what is forwarded, and how responses are combined."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs
import pytest
import trio
import trio.testing

from rocketpy.broker.admin.clients import (
    RELAYS_MAX,
    RELAYS_OF_CONNECTION_MAX,
    STATUS_BYTES_MAX,
    AdminClientProcessor,
)
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.offset import (
    GetConsumerStatusBody,
    MessageQueueForC,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import LanguageCode, RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand, make_request, make_response
from rocketpy.protocol.frame import FRAME_LENGTH_MAX, HEADER_LENGTH_MAX, encode_frame
from rocketpy.protocol.headers.client import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    ResetOffsetRequestHeader,
)
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.message_id import encode_offset_msg_id
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.whole_answer import WholeAnswers
from rocketpy.runner import run_inline
from tests.broker.broker_on_bytes import BrokerOnBytes, received
from tests.broker.message_broker import open_message_broker, send
from tests.forged_record import body_posing_as_record
from tests.worst_answers import in_a_task
from tests.worst_requests import SLICE_SECONDS_MAX, longest_slice

TOPIC, GROUP = "TopicTest", "group"
QUEUES = [MessageQueue(TOPIC, "broker-a", queue_id) for queue_id in range(2)]


def join(broker: BrokerOnBytes, client_id: str = "c1", *, version: int = 407) -> Connection:
    """Let a consumer of the group be online."""
    return broker.join(GROUP, TOPIC, client_id=client_id, version=version)


def arrange(broker: BrokerOnBytes) -> None:
    """A topic of two queues with ten messages each; the group is at 4 and 6."""
    broker.tables.topics.update_topic_config(TopicConfig(TOPIC, 2, 2))
    for queue_id, offset in enumerate((4, 6)):
        broker.tables.offsets.commit_offset("p", GROUP, TOPIC, queue_id, offset)
        broker.store.max_offsets[TOPIC, queue_id] = 10
        broker.store.by_time[TOPIC, queue_id, 1000] = 5


async def asked(
    broker: BrokerOnBytes, request: RemotingCommand, consumers: dict[Connection, Callable[[RemotingCommand], object]]
) -> tuple[RemotingCommand, list[RemotingCommand]]:
    """Send a request while each consumer answers what it is asked; return the answer and the questions."""
    questions: list[RemotingCommand] = []
    answers: list[RemotingCommand] = []

    async def ask() -> None:
        answers.append(await broker.ask(request))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        for connection, respond in consumers.items():
            for question in received(connection):
                questions.append(question)
                answer = respond(question)
                if isinstance(answer, RemotingCommand):
                    connection.receive(encode_frame(attrs.evolve(answer, opaque=question.opaque)))
                    connection.serve(10)
    return answers[0], questions


# ---- 222 ------------------------------------------------------------------------------------------------------------


def reset(**fields: object) -> RemotingCommand:
    header = ResetOffsetRequestHeader(**{"topic": TOPIC, "group": GROUP, "timestamp": 1000, **fields})  # type: ignore[arg-type]
    return make_request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)


@pytest.mark.parametrize(
    ("fields", "offsets"),
    [
        ({}, [4, 5]),  # never forward
        ({"is_force": True}, [5, 5]),
        ({"timestamp": -1, "is_force": True}, [10, 10]),
        ({"timestamp": -1}, [4, 6]),
        ({"timestamp": 7, "is_force": True}, [0, 0]),
    ],
)
async def test_reset_tells_every_member_where_to_go_on(
    broker: BrokerOnBytes, fields: dict[str, object], offsets: list[int]
) -> None:
    arrange(broker)
    members = [join(broker, "c1"), join(broker, "c2")]
    table = dict(zip(QUEUES, offsets, strict=True))
    answer = await broker.ask(reset(**fields))
    assert answer.code == ResponseCode.SUCCESS
    assert decode_body(answer.body, ResetOffsetBody).offset_table == table
    for member in members:
        (order,) = received(member)
        assert (order.code, order.is_oneway) == (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, True)
        assert decode_body(order.body, ResetOffsetBody).offset_table == table
        timestamp = str(fields.get("timestamp", 1000))
        assert order.ext_fields == {"topic": TOPIC, "group": GROUP, "timestamp": timestamp, "isForce": "false"}
    assert broker.tables.offsets.query_offset(GROUP, TOPIC, 0) == 4, "members commit it, not the broker"


async def test_an_operator_that_speaks_cpp_has_members_that_read_lists(broker: BrokerOnBytes) -> None:
    arrange(broker)
    member = join(broker)
    answer = await broker.ask(attrs.evolve(reset(), language=LanguageCode.CPP))
    assert decode_body(answer.body, ResetOffsetBody).offset_table == dict(zip(QUEUES, [4, 5], strict=True))
    (order,) = received(member)
    expected = [MessageQueueForC(TOPIC, "broker-a", 0, 4), MessageQueueForC(TOPIC, "broker-a", 1, 5)]
    assert list(decode_body(order.body, ResetOffsetBodyForC).offset_table) == expected


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        (
            {"topic": "nobody"},
            ResponseCode.SYSTEM_ERROR,
            "[reset-offset] reset offset failed, no topic in this broker. topic=nobody",
        ),
        ({"group": "nobody"}, ResponseCode.SYSTEM_ERROR, "THe consumer group <nobody> not exist"),
        (
            {},
            ResponseCode.CONSUMER_NOT_ONLINE,
            "Consumer not online, so can not reset offset, Group: group Topic: TopicTest Timestamp: 1000",
        ),
    ],
    ids=["no topic", "no offsets", "not online"],
)
async def test_a_reset_of_what_is_not_there_is_refused(
    broker: BrokerOnBytes, fields: dict[str, object], code: int, remark: str
) -> None:
    arrange(broker)
    answer = await broker.ask(reset(**fields))
    assert (answer.code, answer.remark) == (code, remark)


async def test_one_member_that_is_too_old_and_none_is_notified(broker: BrokerOnBytes) -> None:
    arrange(broker)
    member = join(broker, "new")
    join(broker, "old", version=27)
    answer = await broker.ask(reset())
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "the client does not support this feature. version=V3_0_6, client old"
    assert received(member) == []


# ---- 223 ------------------------------------------------------------------------------------------------------------


def status(client: str | None = None) -> RemotingCommand:
    header = GetConsumerStatusRequestHeader(topic=TOPIC, group=GROUP, client_addr=client)
    return make_request(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)


def says(offset: int) -> Callable[[RemotingCommand], RemotingCommand]:
    body = encode_body(GetConsumerStatusBody(message_queue_table={QUEUES[0]: offset}))
    return lambda question: make_response(question, body=body)


@pytest.mark.parametrize(("named", "asked_of"), [("", ["c1", "c2"]), ("c2", ["c2"])])
async def test_status_is_asked_of_all_members_or_of_the_one_that_is_named(
    broker: BrokerOnBytes, named: str, asked_of: list[str]
) -> None:
    first, second = join(broker, "c1"), join(broker, "c2")
    answer, questions = await asked(broker, status(named), {first: says(3), second: says(4)})
    table = {"c1": {QUEUES[0]: 3}, "c2": {QUEUES[0]: 4}}
    assert decode_body(answer.body, GetConsumerStatusBody) == GetConsumerStatusBody(
        consumer_table={client_id: table[client_id] for client_id in asked_of}
    )
    assert [question.code for question in questions] == [RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT] * len(asked_of)
    assert questions[0].ext_fields == {"topic": TOPIC, "group": GROUP}


async def test_members_that_do_not_say_are_left_out(
    broker: BrokerOnBytes, autojump_clock: trio.testing.MockClock
) -> None:
    silent, refusing, talking = join(broker, "c1"), join(broker, "c2"), join(broker, "c3")
    consumers: dict[Connection, Callable[[RemotingCommand], object]] = {
        silent: lambda question: None,
        refusing: lambda question: make_response(question, ResponseCode.SYSTEM_ERROR, "no"),
        talking: says(4),
    }
    answer, _ = await asked(broker, status(), consumers)
    assert trio.current_time() == pytest.approx(5), "all were asked at the same time"
    assert list(decode_body(answer.body, GetConsumerStatusBody).consumer_table) == ["c3"]


def queues_of_java(bytes_min: int) -> bytes:
    """Return a status in the form of Java, whose keys are objects, of at least so many bytes."""
    entry = b'{"brokerName":"broker-a","queueId":%d,"topic":"TopicTest"}:%d'
    count = bytes_min // (len(entry) - 4) + 1
    return b'{"messageQueueTable":{' + b",".join(entry % (number, number) for number in range(count)) + b"}}"


async def test_a_status_beyond_its_size_is_left_out_unread(
    broker: BrokerOnBytes, caplog: pytest.LogCaptureFixture
) -> None:
    whole, beyond = queues_of_java(STATUS_BYTES_MAX * 8 // 10), queues_of_java(STATUS_BYTES_MAX + 1)
    assert len(whole) <= STATUS_BYTES_MAX
    consumers: dict[Connection, Callable[[RemotingCommand], object]] = {
        join(broker, "c1"): lambda question: make_response(question, body=whole),
        join(broker, "c2"): lambda question: make_response(question, body=beyond),
        join(broker, "c3"): lambda question: make_response(question, body=b"{"),
    }
    answer, _ = await asked(broker, status(), consumers)
    table = decode_body(answer.body, GetConsumerStatusBody).consumer_table
    assert list(table) == ["c1"]
    assert list(table["c1"].values()) == list(range(whole.count(b"queueId")))
    size = f"consumer c2 of group group returned no status: expected at most {STATUS_BYTES_MAX} bytes, found"
    assert f"{size} {len(beyond)}" in caplog.text
    assert "consumer c3 of group group returned no status: JSON" in caplog.text


async def test_statuses_of_a_group_have_a_size_together(
    broker: BrokerOnBytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit is dropped when it comes, not when all thousand members have answered."""
    body = queues_of_java(100)
    monkeypatch.setattr("rocketpy.broker.admin.clients.STATUSES_BYTES_MAX", 2 * len(body))
    answer, _ = await asked(
        broker, status(), {join(broker, f"c{n}"): lambda question: make_response(question, body=body) for n in range(5)}
    )
    assert len(decode_body(answer.body, GetConsumerStatusBody).consumer_table) == 2
    assert f"statuses of 3 consumers of group group omitted: those of a group may have {2 * len(body)} bytes" in (
        caplog.text
    )


async def test_members_that_are_asked_at_a_time_are_bounded(
    broker_with: Callable[..., BrokerOnBytes], monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """A hundred requests to a group of ten thousand silent members would be a million tasks."""
    monkeypatch.setattr("rocketpy.broker.admin.clients.QUESTIONS_MAX", 5)
    broker = broker_with()
    for number in range(3):
        join(broker, f"c{number}")
    operator = broker.connect()
    for _ in range(2):
        operator.receive(encode_frame(status()))
    operator.serve(2)
    tasks, broker.transport.tasks = broker.transport.tasks, []
    async with trio.open_nursery() as nursery:
        for function, arguments in tasks:
            nursery.start_soon(function, *arguments)
        await trio.testing.wait_all_tasks_blocked()
        (refusal,) = received(operator)
        assert refusal.code == ResponseCode.SYSTEM_BUSY
        assert "3 questions to members of groups wait, this one has 3, the limit is 5" in (refusal.remark or "")
    assert [answer.code for answer in received(operator)] == [ResponseCode.SUCCESS]


async def test_status_of_a_group_that_is_not_online(broker: BrokerOnBytes) -> None:
    answer = await broker.ask(status())
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "No Any Consumer online in the consumer group: [group]"


async def test_status_of_a_group_with_an_old_member(broker: BrokerOnBytes) -> None:
    join(broker, "old", version=0)
    answer = await broker.ask(status())
    assert (answer.remark or "").startswith("the client does not support this feature. version=V3_0_0_SNAPSHOT")


# ---- 307 and 309 ----------------------------------------------------------------------------------------------------


def running_info(client: str = "c1", **more: str) -> RemotingCommand:
    header = GetConsumerRunningInfoRequestHeader(consumer_group=GROUP, client_id=client)
    request = make_request(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    return attrs.evolve(request, ext_fields={**(request.ext_fields or {}), **more})


async def test_running_info_is_handed_on_and_back(broker: BrokerOnBytes) -> None:
    member = join(broker)
    secrets = {"AccessKey": "admin", "Signature": "c2ln", "SecurityToken": "t"}
    answer, (question,) = await asked(
        broker,
        running_info(other="field", **secrets),
        {member: lambda question: make_response(question, ResponseCode.SYSTEM_ERROR, "why", body=b"{...}")},
    )
    assert (answer.code, answer.remark, answer.body) == (ResponseCode.SYSTEM_ERROR, "why", b"{...}")
    assert question.code == RequestCode.GET_CONSUMER_RUNNING_INFO
    fields = {"consumerGroup": GROUP, "clientId": "c1", "jstackEnable": "false", "other": "field"}
    assert question.ext_fields == fields, "who the operator is, is no consumer's affair"


async def test_a_consumer_that_does_not_answer_in_ten_seconds(
    broker: BrokerOnBytes, autojump_clock: trio.testing.MockClock
) -> None:
    member = join(broker)
    answer, _ = await asked(broker, running_info(), {member: lambda question: None})
    assert trio.current_time() == pytest.approx(10)
    assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert (answer.remark or "").startswith("consumer <group> <c1> Timeout: no answer from 127.0.0.1:")


async def test_a_consumer_that_leaves_instead_of_answering(broker: BrokerOnBytes) -> None:
    member = join(broker)
    answer, _ = await asked(broker, running_info(), {member: lambda question: member.close()})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("invoke consumer <group> <c1> Exception: the connection to ")


async def test_a_consumer_that_is_not_online(broker: BrokerOnBytes) -> None:
    for request in (running_info("c9"), running_info("c1")):
        answer = await broker.ask(request)
        client = (request.ext_fields or {})["clientId"]
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR,
            f"The Consumer <group> <{client}> not online",
        )
        join(broker, "c2")


async def test_a_consumer_that_is_too_old(broker: BrokerOnBytes) -> None:
    join(broker, version=61)
    answer = await broker.ask(running_info())
    assert answer.remark == (
        "The Consumer <c1> Version <V3_1_7> too low to finish, please upgrade it to V3_1_8_SNAPSHOT"
    )


def directly(msg_id: str | None, client: str | None = "c1") -> RemotingCommand:
    header = ConsumeMessageDirectlyResultRequestHeader(consumer_group=GROUP, client_id=client, msg_id=msg_id)
    return make_request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)


MSG_ID = encode_offset_msg_id(bytes(8), 645)


async def test_a_record_in_a_body_is_given_to_no_consumer() -> None:
    """A client that may ask a consumer to consume could forge the message, as of any topic."""
    async with open_message_broker() as broker:
        processor = AdminClientProcessor(
            config=broker.tables.config,
            topic_config_manager=broker.tables.topics,
            consumer_manager=broker.tables.consumers,
            consumer_offset_manager=broker.tables.offsets,
            store=broker.store,
            whole_answers=WholeAnswers(),
            run_blocking=run_inline,
        )
        body, forged = body_posing_as_record(broker.stored_bytes, topic=TOPIC)
        await broker.ask(send(body))
        for place, remark in (
            (forged, "can not find message by the offset"),
            (0, "The Consumer <group> <c1> not online"),
        ):
            with pytest.raises(RequestError, match=remark):
                msg_id = encode_offset_msg_id(bytes(8), place)
                await processor.process_consume_message_directly(broker.connect(), directly(msg_id))


@pytest.mark.parametrize(
    ("request_", "remark"),
    [
        (directly(MSG_ID), "can not find message by the offset, 645"),
        (directly("no hex"), "ConsumeMessageDirectlyResultRequestHeader.msgId: "),
        (directly(None), "ConsumeMessageDirectlyResultRequestHeader.msgId: "),
    ],
)
async def test_consume_directly_of_a_message_that_is_not_there(
    broker: BrokerOnBytes, request_: RemotingCommand, remark: str
) -> None:
    join(broker)
    answer = await broker.ask(request_)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith(remark)


async def test_consume_directly_without_a_consumer(broker: BrokerOnBytes) -> None:
    broker.store.records[645] = b"record"
    answer = await broker.ask(directly(MSG_ID, None))
    assert answer.remark == "The Consumer <group> <null> not online"


# ---- how many ask at once -------------------------------------------------------------------------------------------


async def test_requests_that_wait_for_a_consumer_are_bounded_by_connection_and_in_all(
    broker: BrokerOnBytes, autojump_clock: trio.testing.MockClock
) -> None:
    """A consumer that never answers used to block the tasks of all cold pulls and commands for ten seconds."""
    member = join(broker)
    header = GetConsumerRunningInfoRequestHeader(consumer_group=GROUP, client_id="c1", jstack_enable=False)
    operators = [broker.connect() for _ in range(RELAYS_MAX // RELAYS_OF_CONNECTION_MAX + 1)]

    async def ask(operator: Connection, count: int, codes: list[int]) -> None:
        for _ in range(count):
            operator.receive(encode_frame(make_request(RequestCode.GET_CONSUMER_RUNNING_INFO, header)))
        operator.serve(count)
        tasks, broker.transport.tasks = broker.transport.tasks, []
        for function, arguments in tasks:
            nursery.start_soon(function, *arguments)
        await trio.testing.wait_all_tasks_blocked()
        codes += [answer.code for answer in received(operator)]

    codes: list[int] = []
    async with trio.open_nursery() as nursery:
        await ask(operators[0], RELAYS_OF_CONNECTION_MAX + 5, codes)
        assert codes == [ResponseCode.SYSTEM_BUSY] * 5
        codes.clear()
        for operator in operators[1:]:
            await ask(operator, RELAYS_OF_CONNECTION_MAX, codes)
        assert codes == [ResponseCode.SYSTEM_BUSY] * RELAYS_OF_CONNECTION_MAX
        assert len(received(member)) == RELAYS_MAX
    codes = [answer.code for operator in operators for answer in received(operator)]
    assert codes == [ResponseCode.CONSUME_MSG_TIMEOUT] * RELAYS_MAX
    _, questions = await asked(
        broker, make_request(RequestCode.GET_CONSUMER_RUNNING_INFO, header), {member: make_response}
    )
    assert len(questions) == 1


async def test_messages_that_wait_for_consumers_hold_a_bounded_number_of_bytes(
    broker_with: Callable[..., BrokerOnBytes], monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """A request of some bytes has the broker keep a message, as long as the consumer does not answer."""
    monkeypatch.setattr("rocketpy.broker.admin.clients.DIRECT_BYTES_MAX", 3000)
    broker = broker_with()
    join(broker)
    broker.store.records[645] = bytes(1000)
    operator = broker.connect()
    for _ in range(4):
        operator.receive(encode_frame(directly(MSG_ID)))
    operator.serve(4)
    tasks, broker.transport.tasks = broker.transport.tasks, []
    async with trio.open_nursery() as nursery:
        for function, arguments in tasks:
            nursery.start_soon(function, *arguments)
        await trio.testing.wait_all_tasks_blocked()
        (refusal,) = received(operator)
        assert refusal.code == ResponseCode.SYSTEM_BUSY
        assert "3000 bytes of messages that consumers are to consume at once wait" in (refusal.remark or "")
    assert [answer.code for answer in received(operator)] == [ResponseCode.CONSUME_MSG_TIMEOUT] * 3


async def test_an_answer_of_a_consumer_is_not_handed_on_where_there_is_no_room(
    broker: BrokerOnBytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handed on it would have a connection closed, maybe another's, for what a consumer answers."""
    member, asked_for = join(broker), []

    def has_room(size: int) -> bool:
        asked_for.append(size)
        return size <= 1000

    monkeypatch.setattr(broker.transport, "has_room", has_room)
    for size, code in ((1000, ResponseCode.SUCCESS), (1001, ResponseCode.SYSTEM_BUSY)):
        answer, _ = await asked(
            broker, running_info(), {member: lambda question, size=size: make_response(question, body=bytes(size))}
        )
        assert (answer.code, len(answer.body or b"")) == (code, size if code == ResponseCode.SUCCESS else 0)
    assert asked_for == [1000, 1001]


@pytest.mark.parametrize(
    "worst",
    [
        RemotingCommand(0, body=bytes(FRAME_LENGTH_MAX - HEADER_LENGTH_MAX)),
        RemotingCommand(
            0, ext_fields={"a": "\x01" * (HEADER_LENGTH_MAX - 1000)}, serialize_type=SerializeType.ROCKETMQ
        ),
        RemotingCommand(0, ext_fields={f"{n}": "" for n in range(1000)}, serialize_type=SerializeType.ROCKETMQ),
        RemotingCommand(1, remark="\x01" * (HEADER_LENGTH_MAX - 1000), serialize_type=SerializeType.ROCKETMQ),
    ],
    ids=["a body", "a field", "fields", "a remark"],
)
async def test_no_answer_that_is_handed_on_keeps_the_loop(broker: BrokerOnBytes, worst: RemotingCommand) -> None:
    member = join(broker)

    async def relay() -> None:
        answer, _ = await asked(broker, running_info(), {member: lambda question: attrs.evolve(worst, flag=1)})
        assert len(answer.remark or "") < 9000

    assert await longest_slice(partial(in_a_task, relay)) < SLICE_SECONDS_MAX
