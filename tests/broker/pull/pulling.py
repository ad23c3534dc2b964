"""Helpers for tests of pulls: messages whose bodies are their tags, and access to responses."""

from __future__ import annotations

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from rocketpy.protocol.codes import LanguageCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.stored_message import decode_messages
from tests.broker.message_broker import TOPIC, MessageBroker, send

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


def bodies(answer: RemotingCommand) -> list[str]:
    return [(message.body or b"").decode() for message in decode_messages(answer.body or b"")]


def offsets(answer: RemotingCommand) -> tuple[int, int, int]:
    """Return the next, minimum and maximum offset of a response."""
    fields = answer.ext_fields or {}
    assert fields["suggestWhichBrokerId"] == "0"
    return int(fields["nextBeginOffset"]), int(fields["minOffset"]), int(fields["maxOffset"])
