"""Batches: the record of each message, and that an invalid body stores nothing."""

from __future__ import annotations

import struct
import zlib

import pytest

from rocketpy.protocol.batch import encode_batch_body
from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.message import Message
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker, send
from tests.broker.send.sending import EXTRA, refused

V1, V2, BATCH = RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
CLUSTER = "CLUSTER\x01DefaultCluster"


def item(body: bytes, properties: bytes, flag: int = 0) -> bytes:
    """One message of a batch, as ``MessageDecoder.encodeMessage`` of Java writes it."""
    head = struct.pack(">iiiii", 22 + len(body) + len(properties), 0, 0, flag, len(body))
    return head + body + struct.pack(">h", len(properties)) + properties


def send_batch(body: bytes | None, properties: str | None = "WAIT\x01true", **fields: object) -> RemotingCommand:
    return send(body, **{"code": BATCH, "batch": True, "properties": properties, **fields})  # type: ignore[arg-type]


async def stored_properties(broker: MessageBroker, queue_id: int = 0) -> list[bytes]:
    """Return the text of the properties of every message of a queue."""
    records, texts = await broker.records(queue_id=queue_id), []
    while records:
        (size,) = struct.unpack_from(">i", records)
        (body_size,) = struct.unpack_from(">i", records, 84)
        begin = 88 + body_size + 1 + records[88 + body_size]
        texts.append(records[begin + 2 : size])
        records = records[size:]
    return texts


@pytest.mark.parametrize("serialize_type", list(SerializeType))
@pytest.mark.parametrize("code", [V1, V2, BATCH])
async def test_each_message_of_a_batch_is_kept(broker: MessageBroker, code: int, serialize_type: SerializeType) -> None:
    """The flag of the header decides, not the code."""
    await broker.ask(send(queue_id=1))
    messages = [
        Message(TOPIC, b"one", {"KEYS": "k1 k2", "UNIQ_KEY": "01", "WAIT": "true", "TAGS": "t"}, flag=7),
        Message(TOPIC, b"", {"UNIQ_KEY": "02", "WAIT": "true"}),
        Message(TOPIC, b"three", {"TAGS": "ü", "x": "y"}),
    ]
    body = encode_batch_body(messages)
    connection = broker.connect(("10.0.0.9", 4711))
    request = send_batch(body, code=code, serialize_type=serialize_type, queue_id=1, reconsume_times=2)
    answer = await broker.ask(request, connection)
    kept = (await broker.messages(queue_id=1))[1:]
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    assert answer.ext_fields == EXTRA | {
        "msgId": ",".join(message.offset_msg_id for message in kept),
        "queueId": "1",
        "queueOffset": "1",
    }
    assert [message.body for message in kept] == [b"one", b"", b"three"]
    assert [message.flag for message in kept] == [7, 0, 0]
    assert [message.queue_offset for message in kept] == [1, 2, 3]
    assert {(message.born_timestamp, message.born_host) for message in kept} == {(1_700_000_000_123, "10.0.0.9:4711")}
    assert {message.reconsume_times for message in kept} == {2}
    assert [message.properties for message in kept] == [
        message.properties | {"WAIT": "true", "CLUSTER": "DefaultCluster"} for message in messages
    ]


@pytest.mark.parametrize(
    ("own", "of_batch", "stored"),
    [
        (b"", None, CLUSTER),
        (b"", "WAIT\x01true", f"WAIT\x01true\x02{CLUSTER}"),
        (b"a\x01b", "WAIT\x01true", f"a\x01b\x02WAIT\x01true\x02{CLUSTER}"),
        (b"a\x01b\x02", "WAIT\x01true\x02", f"a\x01b\x02WAIT\x01true\x02{CLUSTER}"),
        (b"a\x01b", "a\x01c", f"a\x01b\x02a\x01c\x02{CLUSTER}"),
        (b"UNIQ_KEY\x0101\x02WAIT\x01true", "", f"UNIQ_KEY\x0101\x02WAIT\x01true\x02{CLUSTER}"),
        (
            b"UNIQ_KEY\x0101\x02WAIT\x01true\x02TAGS\x01t",
            "",
            f"UNIQ_KEY\x0101\x02WAIT\x01true\x02TAGS\x01t\x02{CLUSTER}",
        ),
        (b"no separator", "", f"no separator\x02{CLUSTER}"),
    ],
)
async def test_the_batchs_properties_are_appended_to_each_messages_own(
    broker: MessageBroker, own: bytes, of_batch: str | None, stored: str
) -> None:
    await broker.ask(send_batch(item(b"1", own) + item(b"2", own), of_batch))
    assert await stored_properties(broker) == [stored.encode()] * 2


async def test_properties_that_are_no_text_are_kept_as_they_are(broker: MessageBroker) -> None:
    own = b"UNIQ_KEY\x01\xff\xfe\x02WAIT\x01true\x02TAGS\x01\xff"
    assert (await broker.ask(send_batch(item(b"1", own)))).code == ResponseCode.SUCCESS
    (stored,) = await stored_properties(broker)
    assert stored == own + b"\x02WAIT\x01true\x02" + CLUSTER.encode()
    assert (await broker.messages())[0].properties["TAGS"] == "\ufffd"


async def test_the_batch_flag_decides_and_not_the_code(broker: MessageBroker) -> None:
    """Compatibility: as observed of RocketMQ, 320 without the flag keeps the bytes as one body."""
    body = item(b"1", b"") + item(b"2", b"")
    assert (await broker.ask(send(body, code=BATCH, batch=False))).code == ResponseCode.SUCCESS
    assert [message.body for message in await broker.messages()] == [body]


async def test_a_batch_may_leave_the_queue_to_the_broker(broker: MessageBroker) -> None:
    answer = await broker.ask(send_batch(item(b"1", b"") + item(b"2", b""), queue_id=-1))
    queue_id = int((answer.ext_fields or {})["queueId"])
    assert len(await broker.messages(queue_id=queue_id)) == 2


async def test_a_batch_into_a_topic_of_several_tags_is_marked(broker: MessageBroker) -> None:
    broker.add_topic("Multi", topic_filter_type="MULTI_TAG")
    await broker.ask(send_batch(item(b"1", b""), topic="Multi"))
    assert (await broker.messages("Multi"))[0].sys_flag == 2


async def test_a_retry_topic_has_no_dead_letters_for_a_batch(broker: MessageBroker) -> None:
    await broker.ask(send_batch(item(b"1", b""), topic="%RETRY%g", reconsume_times=99))
    assert len(await broker.messages("%RETRY%g")) == 1


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [None, b""])
async def test_an_empty_batch_is_refused(broker: MessageBroker, body: bytes | None) -> None:
    answer = await refused(broker, send_batch(body))
    assert (answer.code, answer.remark) == (13, "the batch body holds no message, expected at least one")


async def test_every_truncation_of_a_batch_is_refused_whole(broker: MessageBroker) -> None:
    first = item(b"first", b"a\x01b")
    body = first + item(b"second", b"c\x01d")
    for size in range(1, len(body)):
        if size == len(first):
            continue
        answer = await refused(broker, send_batch(body[:size]))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith("the batch body is malformed: batch: expected ")
    assert await broker.messages() == []


@pytest.mark.parametrize(
    "body",
    [
        struct.pack(">iiiii", 22, 0, 0, 0, -1) + b"\0\0",
        struct.pack(">iiiii", 22, 0, 0, 0, 2**31 - 1) + b"\0\0",
        struct.pack(">iiiiih", 22, 0, 0, 0, 0, -1),
        struct.pack(">iiiiih", 22, 0, 0, 0, 0, 32_767),
        item(b"1", b"") + b"\0",
    ],
)
async def test_lengths_that_cannot_be_are_refused(broker: MessageBroker, body: bytes) -> None:
    assert (await refused(broker, send_batch(body))).code == ResponseCode.SYSTEM_ERROR


async def test_what_a_batch_says_of_its_sizes_and_sums_is_ignored(broker: MessageBroker) -> None:
    """Compatibility: the broker trusts the two inner lengths only."""
    body = struct.pack(">iiiii", -5, 123, 456, 7, 1) + b"x" + struct.pack(">h", 3) + b"a\x01b"
    assert (await broker.ask(send_batch(body))).code == ResponseCode.SUCCESS
    (message,) = await broker.messages()
    assert (message.body, message.flag) == (b"x", 7)


async def test_a_batch_out_of_bounds_keeps_nothing(broker: MessageBroker) -> None:
    ok = item(b"1", b"a\x01b")
    too_long = await refused(broker, send_batch(ok + item(b"2", b"a\x01" + b"x" * 32_740)))
    assert too_long.code == ResponseCode.MESSAGE_ILLEGAL
    assert (too_long.remark or "").endswith("and properties of 32775B")
    too_large = await refused(broker, send_batch(ok + item(b"x" * 131_072, b"")))
    assert too_large.code == ResponseCode.MESSAGE_ILLEGAL
    assert "limit 131072B" in (too_large.remark or "")
    nul = await refused(broker, send_batch(ok + item(b"2", b"a longer one\x01\0")))
    assert (nul.remark or "").endswith("with a NUL among them")


async def test_how_many_messages_a_batch_may_have_is_a_setting(broker: MessageBroker) -> None:
    """It is stored in one step, which blocks the event loop."""
    for body in (item(b"", b"") * 10_001, item(b"", b"") * 10_000 + item(b"unlike the others", b"")):
        answer = await refused(broker, send_batch(body))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert answer.remark == "the batch body holds more than 10000 messages, the limit that batchMessagesMax sets"
    async with open_message_broker(batch_messages_max=5) as other:
        assert (await refused(other, send_batch(item(b"", b"") * 6))).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await other.ask(send_batch(item(b"", b"") * 5))).code == ResponseCode.SUCCESS


async def test_properties_of_a_batch_do_not_fill_memory(broker: MessageBroker) -> None:
    """Each message gets those of the whole batch: a frame of some MB would become gigabytes, before it is refused."""
    shared = "a\x01" + "x" * 30_000
    answer = await refused(broker, send_batch(item(b"", b"") * 10_000, shared))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert answer.remark == (
        "the batch is too large: 10000 messages with 30025 bytes of properties of the whole batch each, the limit is "
        "12582912 bytes"
    )


async def test_a_body_is_never_decompressed(broker: MessageBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decompression bomb stays compressed; only its consumer decompresses it."""
    monkeypatch.setattr("zlib.decompress", None)
    monkeypatch.setattr("zlib.decompressobj", None)
    bomb = zlib.compress(b"\0" * (1 << 24))
    assert (await broker.ask(send(bomb, sys_flag=1))).code == ResponseCode.SUCCESS
    assert (await broker.ask(send_batch(item(bomb, b"") * 3, sys_flag=1))).code == ResponseCode.SUCCESS
    assert [message.body for message in await broker.messages()] == [bomb] * 4


@pytest.mark.parametrize("properties", ["TRAN_MSG\x01true", "DELAY\x011", "WAIT\x01true\x02DELAY\x01" + "9" * 5000])
async def test_a_batch_is_neither_delayed_nor_a_transaction(broker: MessageBroker, properties: str) -> None:
    answer = await refused(broker, send_batch(item(b"1", b""), properties))
    assert answer.code in (ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SYSTEM_ERROR)
    assert properties.rpartition("\x02")[2].partition("\x01")[0] in (answer.remark or "")


@pytest.mark.parametrize(
    ("own", "of_batch"), [(b"INNER_MULTI_QUEUE_OFFSET\x010", ""), (b"", "INNER_MULTI_QUEUE_OFFSET\x010")]
)
async def test_a_property_that_recovery_trusts_is_not_taken(broker: MessageBroker, own: bytes, of_batch: str) -> None:
    answer = await refused(broker, send_batch(item(b"1", b"") + item(b"2", own), of_batch))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert (await broker.ask(send_batch(item(b"INNER_MULTI_QUEUE_OFFSET", b"")))).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("own", "of_batch"),
    [(b"TRAN_PREPARED_QUEUE_OFFSET\x010\x02a\x01b", ""), (b"", "TRAN_PREPARED_QUEUE_OFFSET\x010")],
)
async def test_the_brokers_word_is_taken_away(broker: MessageBroker, own: bytes, of_batch: str) -> None:
    await broker.ask(send_batch(item(b"1", b"c\x01d") + item(b"2", own), of_batch))
    first, second = await broker.messages()
    assert (first.properties["c"], second.body) == ("d", b"2")
    assert second.properties.get("a", "b") == "b"
    assert "TRAN_PREPARED_QUEUE_OFFSET" not in {*first.properties, *second.properties}
    assert (await broker.ask(send_batch(item(b"3", b""), sys_flag=8))).code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_batch_of_prepared_messages_is_refused(broker: MessageBroker) -> None:
    assert (await refused(broker, send_batch(item(b"1", b""), sys_flag=4))).code == ResponseCode.MESSAGE_ILLEGAL


async def test_the_checks_of_a_batch_are_those_of_a_message(broker: MessageBroker) -> None:
    assert (await refused(broker, send_batch(item(b"1", b""), topic="x" * 128))).code == ResponseCode.SYSTEM_ERROR
    assert (await refused(broker, send_batch(item(b"1", b""), topic="SELF_TEST_TOPIC"))).code == 16
    assert "queueId[4]" in ((await refused(broker, send_batch(item(b"1", b""), queue_id=4))).remark or "")
