"""What is put into a store to compare it with Java's: a script of puts, made by Hypothesis, played to either of them.

A script is plain values, so that one that finds a difference shrinks to something that can be read.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import attrs
from hypothesis import strategies as st

from rocketpy.clock import Clock
from rocketpy.protocol.batch import encode_batch_body
from rocketpy.protocol.compression import CompressionType, compress, compressed_sys_flag
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.message import Message
from rocketpy.protocol.properties import encode_properties, index_keys_of
from rocketpy.protocol.stored_message import decode_message
from rocketpy.store.append.batch import MessageBatch
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus
from tests.interop.java_store import JavaStores, KeyQuestion, StoreView, TimeQuestion
from tests.interop.our_store import STORE_HOST

BORN_V4 = bytes((10, 0, 0, 1)) + (40_000).to_bytes(4, "big")
BORN_V6 = bytes.fromhex("20010db8000000000000000000000001") + (40_001).to_bytes(4, "big")
STORE_V6 = bytes.fromhex("20010db80000000000000000000000fe") + (10_911).to_bytes(4, "big")
BORN_MS = 1_600_000_000_000
PREPARED, COMMITTED, ROLLED_BACK = 0x4, 0x8, 0xC
MULTI_TAGS = 0x2
_WITHOUT_UNIT = 0x4


@attrs.frozen
class Item:
    """One message of a put. The body is stored as it is, compressed by its sender."""

    body: bytes
    properties: Mapping[str, str]
    flag: int = 0

    @property
    def text(self) -> str:
        """The properties as they are stored."""
        return encode_properties(self.properties)


@attrs.frozen
class Put:
    """A put of one message, or of several as a batch, and how much later than the one before it is."""

    topic: str
    queue_id: int
    items: tuple[Item, ...]
    is_batch: bool = False
    sys_flag: int = 0
    born_host: bytes = BORN_V4
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    later_ms: int = 0
    ends_burst: bool = False


@attrs.frozen
class Stored:
    """A message that a store has taken, and where; ``queue_offset`` is None for what no queue has."""

    put: Put
    item: Item
    physical_offset: int
    queue_offset: int | None


class PlayClock(Clock, Protocol):
    """A clock that the test advances."""

    def advance_ms(self, milliseconds: int) -> None:
        """Let time pass, if it can be made to."""
        ...


# ---- playing a script -----------------------------------------------------------------------------------------------


def play_to_ours(store: MessageStore, clock: PlayClock, script: Sequence[Put]) -> list[Stored]:
    """Put everything into our store; the last burst is ended."""
    stored: list[Stored] = []
    for put in script:
        clock.advance_ms(put.later_ms)
        common = (put.sys_flag, BORN_MS, put.born_host, put.reconsume_times)
        records = [
            (
                item.flag,
                item.body,
                item.text.encode(),
                tags_code(item.properties.get("TAGS")),
                index_keys_of(item.properties),
            )
            for item in put.items
        ]
        if put.is_batch:
            status, places, first = store.put_batch(put.topic, put.queue_id, MessageBatch.of(records), *common)
        else:
            ((flag, body, text, code, keys),) = records
            status, place, first = store.put(
                put.topic, put.queue_id, body, text, code, keys, flag, *common, put.prepared_transaction_offset
            )
            places = [place]
        assert status is PutMessageStatus.PUT_OK, (put.topic, put.queue_id, status)
        stored += _stored(put, places, first)
        if put.ends_burst:
            store.end_burst()
    store.end_burst()
    return stored


def play_to_java(java: JavaStores, root: Path, script: Sequence[Put], store_host: bytes = STORE_HOST) -> list[Stored]:
    """Put everything into a store that Java has open."""
    stored: list[Stored] = []
    singles: list[Put] = []

    def put_singles() -> None:
        if singles:
            answers = java.put(root, [_described(each, each.items[0], store_host) for each in singles])
            for each, answer in zip(singles, answers, strict=True):
                stored.extend(_answered(each, answer, store_host))
            singles.clear()

    for put in script:
        if not put.is_batch:
            singles.append(put)
            continue
        put_singles()
        messages = [Message(put.topic, item.body, dict(item.properties), item.flag) for item in put.items]
        described = _described(put, put.items[0], store_host)
        (answer,) = java.put(root, [described], batch=encode_batch_body(messages))
        stored += _answered(put, answer, store_host)
    put_singles()
    return stored


def _described(put: Put, item: Item, store_host: bytes) -> dict[str, object]:
    return {
        "topic": put.topic,
        "queueId": put.queue_id,
        "flag": item.flag,
        "sysFlag": put.sys_flag,
        "body": base64.b64encode(item.body).decode(),
        "properties": item.text,
        "bornTimestamp": BORN_MS,
        "bornHost": base64.b64encode(put.born_host).decode(),
        "storeHost": base64.b64encode(store_host).decode(),
        "reconsumeTimes": put.reconsume_times,
        "preparedTransactionOffset": put.prepared_transaction_offset,
    }


def _answered(put: Put, answer: object, store_host: bytes) -> list[Stored]:
    assert isinstance(answer, dict)
    assert answer["status"] == "PUT_OK", (put.topic, put.queue_id, answer)
    place = answer["physicalOffset"]
    places = []
    for item in put.items:
        places.append(place)
        place += record_size(put, item, store_host)
    return _stored(put, places, answer["queueOffset"])


def _stored(put: Put, places: Sequence[int], first_queue_offset: int) -> list[Stored]:
    return [
        Stored(put, item, place, None if put.sys_flag & _WITHOUT_UNIT else first_queue_offset + index)
        for index, (item, place) in enumerate(zip(put.items, places, strict=True))
    ]


def record_size(put: Put, item: Item, store_host: bytes = STORE_HOST) -> int:
    """Return how many bytes of log a message takes."""
    fixed_size = 75 + len(put.born_host) + len(store_host)
    return fixed_size + len(item.body) + len(put.topic.encode()) + len(item.text.encode())


# ---- what must be found ---------------------------------------------------------------------------------------------


def check_messages(view: StoreView, stored: Sequence[Stored]) -> None:
    """Every message is in its queue, in order and once, as it was put; and nothing else is."""
    expected: dict[tuple[str, int], list[Stored]] = {}
    for each in stored:
        if each.queue_offset is not None:
            expected.setdefault((each.put.topic, each.put.queue_id), []).append(each)
    assert view.queues.keys() == expected.keys()
    for name, queue in view.queues.items():
        of_queue = expected[name]
        assert (queue.min_offset, queue.max_offset) == (0, len(of_queue)), name
        assert len(queue.records) == len(of_queue), name
        for record, each in zip(queue.records, of_queue, strict=True):
            check_record(record, each)


def check_record(record: bytes, stored: Stored) -> None:
    """A record says what was put."""
    message = decode_message(record, decompress=False, check_crc=True)
    put = stored.put
    found = (
        message.topic, message.queue_id, message.queue_offset, message.physical_offset, message.body,
        message.properties, message.flag, message.sys_flag & 0xF0F, message.born_timestamp, message.reconsume_times,
        message.prepared_transaction_offset,
    )  # fmt: skip
    properties = {name: value for name, value in stored.item.properties.items() if value}
    assert found == (
        put.topic, put.queue_id, stored.queue_offset, stored.physical_offset, stored.item.body,
        properties, stored.item.flag, put.sys_flag, BORN_MS, put.reconsume_times,
        put.prepared_transaction_offset,
    ), stored  # fmt: skip


def expected_of_key(stored: Sequence[Stored], question: KeyQuestion) -> tuple[int, ...]:
    """Return where the newest messages with a key are, in the order of the log, as long as no hash is shared.

    A message that has a key twice has two entries; both count for the most that is wanted, and it is answered once.
    """
    places = [
        each.physical_offset
        for each in stored
        if each.put.topic == question.topic and each.put.sys_flag & ROLLED_BACK != ROLLED_BACK
        for key in keys_of(each.item)
        if key == question.key
    ]
    return tuple(dict.fromkeys(places[-question.max_num :]))


def keys_of(item: Item) -> list[str]:
    """Return the keys that a message is found by; a property without a value is none."""
    return [key.decode() for key in index_keys_of({name: value for name, value in item.properties.items() if value})]


def key_questions(stored: Sequence[Stored], count_max: int = 40) -> list[KeyQuestion]:
    """Return questions for keys that were put, and for some that were not."""
    asked = dict.fromkeys(KeyQuestion(each.put.topic, key) for each in stored for key in keys_of(each.item))
    step = max(1, len(asked) // count_max)
    some = list(asked)[::step]
    return [*some, *(attrs.evolve(each, max_num=1) for each in some[:3]), KeyQuestion("TopicTest", "absent")]


def time_questions(view: StoreView, per_queue: int = 6) -> list[TimeQuestion]:
    """Return questions for times at, between and around those of each queue's messages."""
    asked = []
    for (topic, queue_id), queue in list(view.queues.items())[:12]:
        times = [decode_message(record, decompress=False).store_timestamp for record in queue.records]
        step = max(1, len(times) // per_queue)
        around = {times[0] - 5_000, times[-1] + 5_000}
        for each in times[::step]:
            around |= {each - 1, each, each + 1, each + 700}
        asked += [TimeQuestion(topic, queue_id, each) for each in sorted(around)]
    return asked


# ---- the scripts ----------------------------------------------------------------------------------------------------

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\1\2"), min_size=1, max_size=20)
_NAME = st.text(st.characters(codec="utf-8", exclude_characters="\0\1\2"), min_size=1, max_size=8)
_TAGS = st.sampled_from([None, "", "TagA", "TagB", "polygenelubricants", "订单", "😀", "TagA || TagB"])
_KEY = st.sampled_from(["k", "key1", "größe", "订单", "polygenelubricants", "shared", "a,b", "\t", ""]) | _NAME
_TOPICS = st.sampled_from(
    [
        "TopicTest",
        "%RETRY%group",
        "%DLQ%group",
        "a" * 127,
        "größe",
        "订" * 42,
        "with space",
        "-",
        "RMQ_SYS_TRANS_HALF_TOPIC",
    ]
)
_COMPRESSIONS = st.sampled_from([None, None, None, 0, *CompressionType])
_TYPES = st.sampled_from([0, 0, 0, 0, PREPARED, COMMITTED, ROLLED_BACK])


@st.composite
def _properties(draw: st.DrawFn) -> dict[str, str]:
    properties = draw(st.dictionaries(_NAME.filter(lambda name: name not in _RESERVED), _TEXT, max_size=3))
    tags = draw(_TAGS)
    if tags is not None:
        properties["TAGS"] = tags
    keys = draw(st.lists(_KEY, max_size=4))
    if keys:
        properties["KEYS"] = " ".join(keys)
    if draw(st.booleans()):
        properties["UNIQ_KEY"] = f"7F00000100002A9F18B4{draw(st.integers(0, 500)):012X}"
    return properties


# Names by which the store itself acts: delay, multi-dispatch, and WAIT, which some writers leave out of the record.
_RESERVED = frozenset({"TAGS", "KEYS", "UNIQ_KEY", "DELAY", "WAIT", "INNER_MULTI_DISPATCH"})


@st.composite
def _items(draw: st.DrawFn, compression: int | None) -> Item:
    body = draw(st.binary(max_size=40) | st.builds(lambda text, times: text * times, st.binary(max_size=9), _TIMES))
    if compression is not None:
        body = compress(body, CompressionType(compression or CompressionType.ZLIB))
    return Item(body, draw(_properties()), draw(st.sampled_from([0, 1, -1, (1 << 31) - 1])))


_TIMES = st.integers(1, 400)


@st.composite
def puts(draw: st.DrawFn) -> Put:
    """Make one put."""
    is_batch = draw(st.integers(0, 3)) == 0
    compression = draw(_COMPRESSIONS)
    sys_flag = draw(st.sampled_from([0, MULTI_TAGS])) | (0 if is_batch else draw(_TYPES))
    if compression is not None:
        sys_flag = compressed_sys_flag(sys_flag, CompressionType(compression)) if compression else sys_flag | 1
    return Put(
        topic=draw(_TOPICS),
        queue_id=draw(st.integers(0, 2)),
        items=tuple(draw(st.lists(_items(compression), min_size=1, max_size=8 if is_batch else 1))),
        is_batch=is_batch,
        sys_flag=sys_flag,
        born_host=draw(st.sampled_from([BORN_V4, BORN_V6])),
        reconsume_times=draw(st.sampled_from([0, 1, 16])),
        prepared_transaction_offset=0 if is_batch else draw(st.sampled_from([0, 12_345_678_901])),
        later_ms=draw(st.sampled_from([0, 1, 40, 1_000, 61_000])),
        ends_burst=draw(st.booleans()),
    )


scripts = st.lists(puts(), min_size=1, max_size=30)
"""Scripts of up to thirty puts."""


def broad_script(count: int) -> list[Put]:
    """Return a fixed script: puts of all kinds over hundreds of queues, one of them long, and many log files."""
    choices = random.Random(1)
    script: list[Put] = []
    for number in range(count):
        is_batch = number % 7 == 0
        properties = {"UNIQ_KEY": f"7F00000100002A9F18B4{number:012X}", "n": str(number)}
        if number % 3:
            properties["KEYS"] = " ".join(["shared", f"key{number}", "größe"][: number % 4 + 1])
        if number % 5:
            properties["TAGS"] = f"Tag{number % 7}"
        properties["text"] = choices.choice(("plain", "größe", "订单 😀", "x" * 300))
        item = Item(b"body %d " % number * (1 + number * 7 % 400 * (number % 9 == 0)), properties, 5)
        is_long = number % 2 == 0
        script.append(
            Put(
                topic="TopicTest" if is_long else choices.choice(("%RETRY%group", "a" * 127, "订单")),
                queue_id=0 if is_long else choices.randrange(100),
                items=(attrs.evolve(item, body=b"x"), item, attrs.evolve(item, flag=6)) if is_batch else (item,),
                is_batch=is_batch,
                born_host=choices.choice((BORN_V4, BORN_V6)),
                reconsume_times=2,
                later_ms=choices.randrange(300),
                ends_burst=choices.randrange(3) == 0,
            )
        )
    return script
