"""Helpers for tests of pulls: messages whose bodies are their tags, and access to responses."""

from __future__ import annotations

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from rocketpy.protocol.codes import LanguageCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.remoting.connection import Connection
from tests.broker.message_broker import TOPIC, MessageBroker, pull, send

COMMIT, SUSPEND, SUBSCRIPTION, LITE = 1, 2, 4, 16
LOG_FILE = "/store/commitlog/00000000000000000000"


async def send_tags(broker: MessageBroker, *tags: str, topic: str = TOPIC) -> None:
    """Send one burst of messages whose bodies are their tags."""
    frames = [encode_frame(send(tag.encode(), properties=f"TAGS\x01{tag}", topic=topic)) for tag in tags]
    await broker.ask_frames(b"".join(frames))


def subscribe(broker: MessageBroker, *subscriptions: SubscriptionData, model: str = "CLUSTERING") -> None:
    """Register a member of group G with these subscriptions."""
    channel = ClientChannelInfo(broker.connect(), "c1", LanguageCode.JAVA, 409, 0.0)
    data = ConsumerData("G", message_model=model, subscription_data_set=list(subscriptions))
    broker.tables.consumers.register_consumer(channel, data)


async def hold(broker: MessageBroker, **fields: object) -> Connection:
    """Let a pull be held and return its connection."""
    connection = broker.connect()
    request = pull(**{"sys_flag": SUBSCRIPTION | SUSPEND, **fields})  # type: ignore[arg-type]
    assert await broker.ask_all(request, connection) == []
    assert connection.deferred_count == 1
    assert broker.hold.statistics().held >= 1
    return connection


def bodies(answer: RemotingCommand) -> list[str]:
    return [(message.body or b"").decode() for message in decode_messages(answer.body or b"")]


def offsets(answer: RemotingCommand) -> tuple[int, int, int]:
    """Return the next, minimum and maximum offset of a response."""
    fields = answer.ext_fields or {}
    assert fields["suggestWhichBrokerId"] == "0"
    return int(fields["nextBeginOffset"]), int(fields["minOffset"]), int(fields["maxOffset"])
