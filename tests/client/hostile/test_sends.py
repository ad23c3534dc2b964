"""Brokers that answer sends with garbage, late, twice or not at all: a typed error or another broker, in time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import Client, open_client
from rocketpy.client.producer.producer import Producer
from rocketpy.errors import (
    ClientError,
    RemoteProtocolError,
    RemotingError,
    RemotingSendRequestError,
    RemotingTimeoutError,
)
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.remoting.connection import Connection
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import Spoil
from tests.client.hostile.conftest import World

SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
Send = Callable[[Producer], Awaitable[object]]


def of_sends(change: Callable[[Connection, RemotingCommand], RemotingCommand | bytes | None]) -> Spoil:
    def spoil(
        connection: Connection, request: RemotingCommand, answer: RemotingCommand
    ) -> RemotingCommand | bytes | None:
        return change(connection, answer) if request.code in SENDS else answer

    return spoil


def with_fields(**changed: str | None) -> Spoil:
    def change(connection: Connection, answer: RemotingCommand) -> RemotingCommand:
        fields = {**(answer.ext_fields or {}), **changed}
        answer.ext_fields = {name: value for name, value in fields.items() if value is not None}
        return answer

    return of_sends(change)


def without_fields(connection: Connection, answer: RemotingCommand) -> RemotingCommand:
    answer.ext_fields = None
    return answer


async def _batched(producer: Producer) -> object:
    async with producer.batching() as batching:
        return await batching.send(Message(TOPIC, b"x"))


async def _nowait(producer: Producer) -> object:
    return await producer.send_nowait(Message(TOPIC, b"x"))


WAYS: dict[str, Send] = {
    "send": lambda producer: producer.send(Message(TOPIC, b"x")),
    "send to a queue": lambda producer: producer.send(Message(TOPIC, b"x"), queue=QUEUE),
    "send_nowait": _nowait,
    "send_batch": lambda producer: producer.send_batch([Message(TOPIC, b"x"), Message(TOPIC, b"y")]),
    "batching": _batched,
}

NONSENSE: dict[str, Spoil] = {
    "no fields": of_sends(without_fields),
    "no queue id": with_fields(queueId=None),
    "no offset": with_fields(queueOffset=None),
    "no message id": with_fields(msgId=None),
    "a queue id that is text": with_fields(queueId="zero"),
    "a negative queue id": with_fields(queueId="-1"),
    "an offset beyond int64": with_fields(queueOffset="9" * 30),
    "an offset without end": with_fields(queueOffset="9" * 5000),
    "a negative offset": with_fields(queueOffset="-1"),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("spoil", NONSENSE.values(), ids=NONSENSE.keys())
async def test_an_answer_that_does_not_say_where_is_a_protocol_error(
    world: World, autojump_clock: MockClock, spoil: Spoil, way: Send, producer: Producer
) -> None:
    """The message may be stored, so it is not sent again."""
    for broker in world.cluster.brokers:
        broker.spoil = spoil
    with pytest.raises(RemoteProtocolError) as caught:
        await way(producer)
    assert len(str(caught.value)) < 500
    assert sum(len(broker.asked(code)) for broker in world.cluster.brokers for code in SENDS) == 1
    for broker in world.cluster.brokers:
        broker.behave()
    await way(producer)


async def test_a_message_id_that_is_none_loses_only_the_verdict(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, client: Client
) -> None:
    """The broker will ask what became of the transaction."""
    for broker in world.cluster.brokers:
        broker.spoil = with_fields(msgId="nonsense")

    async def check(half: object) -> None:
        return None

    async with (
        client.transaction_producer("p", check=check) as producer,
        producer.transaction(Message(TOPIC, b"x")) as transaction,
    ):
        await transaction.commit()
    assert "was not sent" in caplog.text


# ---- frames --------------------------------------------------------------------------------------------------------


def twice(connection: Connection, answer: RemotingCommand) -> bytes:
    return encode_frame(answer) * 2


def other_opaque(connection: Connection, answer: RemotingCommand) -> RemotingCommand:
    answer.opaque += 12345
    return answer


def hang_up(connection: Connection, answer: RemotingCommand) -> None:
    frame = encode_frame(answer)
    connection.reply_frame(frame[: len(frame) // 2])
    connection.flush()
    trio.lowlevel.current_trio_token().run_sync_soon(connection.close)


def silence(connection: Connection, answer: RemotingCommand) -> None:
    return None


def garbage(connection: Connection, answer: RemotingCommand) -> bytes:
    return b"\x00\x00\x00\x08\x00\x00\x00\x04{no}"


FRAMES: dict[str, tuple[Callable[..., RemotingCommand | bytes | None], type[Exception]]] = {
    "the opaque of no request": (other_opaque, RemotingTimeoutError),
    "half an answer": (hang_up, RemotingSendRequestError),
    "silence": (silence, RemotingTimeoutError),
    "garbage": (garbage, RemotingSendRequestError),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize(("change", "error"), FRAMES.values(), ids=FRAMES.keys())
async def test_a_broker_that_does_not_answer_costs_the_time_of_a_send_and_no_more(
    world: World,
    autojump_clock: MockClock,
    change: Callable[..., RemotingCommand | bytes | None],
    error: type[Exception],
    way: Send,
    producer: Producer,
) -> None:
    for broker in world.cluster.brokers:
        broker.spoil = of_sends(change)
    begun = trio.current_time()
    with pytest.raises(RemotingError) as caught:
        await way(producer)
    assert isinstance(caught.value, error)
    assert trio.current_time() - begun <= 3.1
    for broker in world.cluster.brokers:
        broker.behave()
    await way(producer)


@pytest.mark.parametrize("change", [each for each, _ in FRAMES.values()], ids=FRAMES.keys())
async def test_one_bad_broker_does_not_keep_messages_from_the_other(
    world: World, autojump_clock: MockClock, change: Callable[..., RemotingCommand | bytes | None], producer: Producer
) -> None:
    world.cluster.brokers[0].spoil = of_sends(change)
    for _ in range(8):
        result = await producer.send(Message(TOPIC, b"x"), timeout_s=6.0)
        assert result.message_queue.broker_name == "broker-b"


async def test_a_second_answer_and_one_for_another_request_are_dropped(
    world: World, autojump_clock: MockClock, producer: Producer
) -> None:
    for broker in world.cluster.brokers:
        broker.spoil = of_sends(twice)
    pending = [producer.send_nowait(Message(TOPIC, b"%d" % number)) for number in range(50)]
    results = [await each for each in pending]
    assert len({(each.message_queue, each.queue_offset) for each in results}) == 50


async def test_a_broker_that_trickles_is_given_the_time_of_the_request(world: World, autojump_clock: MockClock) -> None:
    """One byte a second: each is traffic, but no answer."""
    broker = world.cluster.broker
    async with trio.open_nursery() as nursery:

        async def trickle(connection: Connection, frame: bytes) -> None:
            for byte in frame:
                connection.reply_frame(bytes((byte,)))
                connection.flush()
                await trio.sleep(1)

        def slowly(connection: Connection, answer: RemotingCommand) -> None:
            nursery.start_soon(trickle, connection, encode_frame(answer))

        async with (
            open_client(world.address, environment=world.environment) as client,
            client.producer("p") as producer,
        ):
            await producer.send(Message(TOPIC, b"x"), queue=QUEUE)
            await trio.sleep(1)  # the heartbeat is answered too
            broker.spoil = of_sends(slowly)
            begun = trio.current_time()
            with pytest.raises(RemotingTimeoutError):
                await producer.send(Message(TOPIC, b"x"), queue=QUEUE, timeout_s=5.0)
            assert trio.current_time() - begun == pytest.approx(5.0, abs=0.1)
        nursery.cancel_scope.cancel()


# ---- request-reply -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("silent", ["name server", "heartbeats", "sends", "nothing"])
async def test_a_request_ends_in_its_time_whatever_does_not_answer(
    world: World, autojump_clock: MockClock, silent: str, producer: Producer
) -> None:
    """Also the look-up of the route and the heartbeat that go before it count."""
    if silent == "name server":
        world.cluster.name_server.be_silent(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    for broker in world.cluster.brokers:
        if silent == "heartbeats":
            broker.be_silent(RequestCode.HEART_BEAT)
        elif silent == "sends":
            broker.be_silent(RequestCode.SEND_MESSAGE_V2)
    begun = trio.current_time()
    with pytest.raises(ClientError) as caught:
        await producer.request(Message(TOPIC, b"x"), timeout_s=1.0)
    assert trio.current_time() - begun == pytest.approx(1.0, abs=0.1)
    assert caught.value.response_code == {"name server": 10005, "sends": -1}.get(silent, 10006)
