"""No request of any code keeps the loop longer than 50 ms of processor time, with the worst content that we know.

Every code of a broker, found from its dispatcher, is asked with the worst texts for a JSON reader as its body, with the
worst text for each of its fields, and with bodies that are exactly what the code wants, as much of it as fits.

Slow commands run in tasks: what counts is how long one step of a task holds the loop, not how long the answer takes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import trio

from rocketpy.broker.config import BrokerConfig
from rocketpy.protocol.codes import RequestCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import HEADER_LENGTH_MAX, encode_frame
from rocketpy.remoting.connection import Connection
from tests.broker.fuzz_cases import bases_of, changed, with_field
from tests.broker.whole_broker import Whole, broker_settings, open_whole_broker
from tests.stages import TIER
from tests.worst_requests import SLICE_SECONDS_MAX, WORST_JSON, counted_slices, least_longest, worst_json

SIZES = (32_000, 65_000, 130_000, 250_000, 1_000_000, 4_000_000, *(() if TIER == "dev" else (15_000_000,)))
"""What is bounded takes longest just below its bound, so these lie just below the usual ones."""

REFUSED_SIZE = 250_000
"""No code reads JSON that is as long, so longer ones only repeat one of this size."""

FIELD_SIZE = HEADER_LENGTH_MAX - 10_000
PIECES = ("9", "a\x01b\x02", "a||", "k ", "a=b\n", "a,", "a;", "'", "(", "%", "*", "\N{ROCKET}")
"""What a field may be full of: digits, properties, tags, keys, lines, separators, openers, what is long in JSON."""

MARK = "@@@@"
PREFIX = struct.Struct(">iI")


@cache
def worst_fields() -> dict[str, str]:
    """Return the texts for a field, each as long as a header lets it be in JSON."""
    escaped_size = {piece: len(_escaped(piece)) for piece in PIECES}
    return {repr(piece): piece * (FIELD_SIZE // escaped_size[piece]) for piece in PIECES}


@cache
def _escaped(text: str) -> bytes:
    """Return a text as the JSON of a header has it."""
    return encode_frame(RemotingCommand(code=0, ext_fields={"": text})).partition(b'"":"')[2].partition(b'"')[0]


def frame_with_field(base: RemotingCommand, name: str, text: str) -> bytes:
    """Return the frame of a request with a long text as a field; to escape each anew would take most of the time."""
    base.serialize_type = SerializeType.JSON
    frame = encode_frame(changed(base, fields=with_field(base.ext_fields or {}, name, MARK)))
    header = frame[PREFIX.size :].replace(MARK.encode(), _escaped(text))
    added = PREFIX.size + len(header) - len(frame)
    return PREFIX.pack(*(length + added for length in PREFIX.unpack_from(frame))) + header


def filled(begin: str, piece: str, end: str, size: int) -> bytes:
    """Return as many numbered pieces as fit between a begin and an end, with commas between them."""
    count = max(1, (size - len(begin) - len(end)) // (len(piece) + 8))
    return (begin + ",".join(piece.replace("#", str(number)) for number in range(count)) + end).encode()


@cache
def wanted_bodies(size: int) -> dict[int, list[bytes]]:
    """Return bodies that are what a code wants, as much of it as fits."""
    subscription = '{"topic":"T#","subString":"*","tagsSet":[],"codeSet":[],"subVersion":1,"expressionType":"TAG"}'
    consumer = (
        '"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET"'
    )
    queue = '{"topic":"T","brokerName":"b","queueId":#}'
    lock = '{"consumerGroup":"g","clientId":"c","mqSet":['
    sql = '{"subscriptionData":{"topic":"T","expressionType":"SQL92","subVersion":1,"subString":"'
    return {
        RequestCode.HEART_BEAT: [
            filled('{"clientID":"c","producerDataSet":[', '{"groupName":"g#"}', '],"consumerDataSet":[]}', size),
            filled(
                '{"clientID":"c","producerDataSet":[],"consumerDataSet":[',
                f'{{"groupName":"g#",{consumer},"unitMode":false,"subscriptionDataSet":[]}}',
                "]}",
                size,
            ),
            filled(
                f'{{"clientID":"c","consumerDataSet":[{{"groupName":"g",{consumer},"subscriptionDataSet":[',
                subscription,
                "]}]}",
                size,
            ),
            filled(
                f'{{"clientID":"c","consumerDataSet":[{{"groupName":"g",{consumer},"subscriptionDataSet":[{{"topic":"T",'
                '"subString":"*","subVersion":1,"tagsSet":[',
                '"t#"',
                "]}]}]}",
                size,
            ),
        ],
        RequestCode.LOCK_BATCH_MQ: [filled(lock, queue, "]}", size)],
        RequestCode.UNLOCK_BATCH_MQ: [filled(lock, queue, "]}", size)],
        RequestCode.CHECK_CLIENT_CONFIG: [
            (sql + "a = 1 OR " * (size // 9) + 'b = 2"}}').encode(),
            (sql + "(" * size + '"}}').encode(),
            (sql + "NOT " * (size // 4) + 'a"}}').encode(),
        ],
        RequestCode.UPDATE_BROKER_CONFIG: [b"a=b\n" * (size // 4), b"a\\\n" * (size // 3), b"\\u0061" * (size // 6)],
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: [filled('{"groupName":"g"', '"a#":1', "}", size)],
    }


@cache
def _json(what: str, size: int) -> bytes:
    return worst_json(what, size) if size <= REFUSED_SIZE else _json(what, REFUSED_SIZE) * (size // REFUSED_SIZE)


@cache
def batch_bodies(size: int) -> list[bytes]:
    """Return bodies of a batch, with as many messages as it may have or more: empty, usual and odd ones."""
    empty = batch_item(b"", b"")
    usual = batch_item(b"0123456789", b"TAGS\x01A\x02KEYS\x01k\x02UNIQ_KEY\x01" + b"0" * 32 + b"\x02WAIT\x01true\x02")
    odd = batch_item(b"", (b"a\x01b\x02" * 8000)[:32_000])
    most = BrokerConfig().batch_messages_max
    return [
        *(each * min(most, max(1, size // len(each))) for each in (empty, usual, odd)),
        empty * (size // len(empty)),
        b"\x00\x00\x00\x16" * (size // 4),
    ]


def batch_item(body: bytes, properties: bytes) -> bytes:
    """Return a message as the body of a batch has it."""
    size = 22 + len(body) + len(properties)
    head = struct.pack(">iiiii", size, 0, 0, 0, len(body))
    return head + body + len(properties).to_bytes(2, "big") + properties


READS_BODIES = frozenset(
    {
        *wanted_bodies(SIZES[0]),
        *(RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE),
        *(RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2),
    }
)
"""Codes that look into their bodies; :func:`test_which_codes_read_bodies` holds the list."""


def requests_of(code: int) -> Iterator[tuple[str, bytes]]:
    """Yield the frames of the worst that is known for a code, each with what it is."""
    base = bases_of(code, "broker")[0]
    texts = list(worst_fields().items())
    for number, name in enumerate(base.ext_fields or {}):
        # In the short run each field gets a quarter of the texts, and each text many fields.
        for what, text in texts if TIER != "dev" else texts[(code + number) % 4 :: 4]:
            yield f"field {name} full of {what}", frame_with_field(base, name, text)
    if code not in READS_BODIES:
        yield "a body of the largest size", encode_frame(changed(base, body=bytes(SIZES[-1])))
        return
    for size in SIZES:
        # What is long is refused for its length alone, so a few kinds show it. In the short run each code has half.
        step = 8 if size >= REFUSED_SIZE else 2 if TIER == "dev" else 1
        for what in list(WORST_JSON)[code % step :: step]:
            yield f"body of {size} bytes: {what}", encode_frame(changed(base, body=_json(what, size)))
        wanted = batch_bodies(size) if code == RequestCode.SEND_BATCH_MESSAGE else wanted_bodies(size).get(code, [])
        for number, body in enumerate(wanted):
            yield f"body of {size} bytes as it is wanted, number {number}", encode_frame(changed(base, body=body))


async def serve(whole: Whole, connection: Connection) -> None:
    """Serve what a connection has received, slow commands and the end of the burst included."""
    with whole.dispatcher.burst:
        connection.serve(8)
    await whole.finish_tasks(connection)
    with whole.dispatcher.burst:
        pass


async def ask(whole: Whole, frame: bytes) -> None:
    """Send a frame over a connection of its own, and serve it in a task of its own."""
    connection = whole.connect()
    connection.receive(frame)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, whole, connection)
    if not connection.is_closed:
        connection.mark_closed()


async def test_which_codes_read_bodies(tmp_path: Path) -> None:
    """A code that is not in the list answers the same whatever its body is."""
    reading = set()
    async with open_whole_broker(broker_settings(tmp_path)) as whole:
        for code in whole.codes:
            base = bases_of(code, "broker")[0]
            found = set()
            for body in (b"", b"{", b"{}", b'{"a":'):
                connection = whole.connect()
                answers = await whole.ask_frame(encode_frame(changed(base, body=body)), connection)
                found.add(tuple((each.code, each.remark) for each in answers))
                if not connection.is_closed:
                    connection.mark_closed()
            if len(found) > 1:
                reading.add(code)
    assert reading <= READS_BODIES


async def test_no_request_keeps_the_loop(tmp_path: Path) -> None:
    found = []
    async with open_whole_broker(broker_settings(tmp_path, enable_property_filter=True)) as whole:
        with counted_slices() as slices:
            for code in whole.codes:
                for what, frame in requests_of(code):
                    least = await least_longest(slices, partial(ask, whole, frame))
                    if least >= SLICE_SECONDS_MAX:
                        found.append(f"code {code}, {what}: {least * 1000:.0f} ms")
        found += whole.errors.take()
    assert not found, "\n".join(found)
