"""The kernel of batches does what columns do, or declines: the same records, units, tags, keys and ids."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.broker.send.answers import SendAnswers
from rocketpy.broker.send.properties import stored_batch
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.batch import BatchColumns, split_batch_body
from rocketpy.protocol.kernels import batch as kernel
from rocketpy.store.append.batch import SharedFields, measured_records, shared_head
from rocketpy.store.index.feed import IndexWork
from rocketpy.store.index.hash import hash_before_key
from rocketpy.store.index.hashed_keys import hashed_keys

COUNT_MAX = 50
TIMESTAMP_MS = 1_700_000_000_001
SUFFIX = b"WAIT\x01true\x02CLUSTER\x01c"
KEY = "7F0000010000A1B2C3D40123456789AB"
HOSTS = st.sampled_from([b"\x7f\0\0\1\0\0\x20\x20", bytes(16) + b"\0\0\x20\x20"])

NAMES = st.sampled_from(
    ["UNIQ_KEY", "KEYS", "TAGS", "WAIT", "a", "", "KEY", "TAGS ", "UNIQ_KEYS", "INNER_MULTI_QUEUE_OFFSET", "TRAN"]
)
VALUES = st.one_of(
    st.sampled_from(["", "t", "true", "k1  k2", " ", KEY, KEY[:7], KEY[:8], KEY[:9], "ü", "a\x01b", "nul\0", "\x7f"]),
    st.text(st.characters(max_codepoint=0x80), max_size=20),
)
ENTRIES = st.one_of(
    st.tuples(NAMES, VALUES).map("\x01".join),
    st.sampled_from(["", "\x01", "UNIQ_KEY", "UNIQ_KEY\x01", "KEYS\x01", "TAGS\x01", "TAGS\x01\x01", "KEYS"]),
)
TEXTS = st.one_of(
    st.lists(ENTRIES, max_size=5).map("\x02".join),
    st.sampled_from(
        [
            f"UNIQ_KEY\x01{KEY}\x02WAIT\x01true",
            f"KEYS\x01k1 k2\x02UNIQ_KEY\x01{KEY}\x02WAIT\x01true\x02TAGS\x01t",
            f"UNIQ_KEY\x01{KEY}\x02WAIT\x01true\x02",
            "KEYS\x01" + " ".join(map(str, range(127))) + "\x02UNIQ_KEY\x01u",
            "KEYS\x01" + " ".join(map(str, range(128))) + "\x02UNIQ_KEY\x01u",
            "KEYS\x01" + " ".join(map(str, range(200))),
            "UNIQ_KEY\x01u\x02WAIT\x01true\x02TAGS\x01polygenelubricants",
        ]
    ),
).map(str.encode)
INTS = st.integers(-(2**31), 2**31 - 1)
LIES = st.sampled_from([b"\xff", b"\x80", b"\x7f", b"\0", b"\1"])
ITEMS = st.tuples(INTS, st.binary(max_size=30), st.one_of(TEXTS, st.binary(max_size=12)))


def item(flag: int, body: bytes, text: bytes) -> bytes:
    """An item of a batch; what its size, magic and CRC say is never read."""
    return struct.pack(">iiiii", 7, 8, 9, flag, len(body)) + body + struct.pack(">h", len(text)) + text


def body_of(items: Sequence[tuple[int, bytes, bytes]]) -> bytes:
    return b"".join(item(*each) for each in items)


def columns_of(body: bytes) -> BatchColumns | None:
    """What the general path reads; None if it refuses the body."""
    try:
        columns = split_batch_body(body, count_max=COUNT_MAX)
    except RemoteProtocolError:
        return None
    return columns if columns.bodies else None


def assert_same(body: bytes, shared: SharedFields, topic: str = "Tü", suffix: bytes = SUFFIX) -> bool:
    """Read and write a body by both; return whether the kernel took it."""
    columns, items = columns_of(body), kernel.read_batch(body, len(suffix), COUNT_MAX)
    if items is None:
        return False
    assert columns is not None, "the general path refuses what the kernel takes"
    batch = stored_batch(columns, suffix, suffix_has_no_tags_or_keys=True)
    assert not any(b"\0" in text for text in batch.properties)
    assert list(batch.tags_codes) == items.tags_codes
    assert items.count == len(batch.bodies)
    assert items.bodies_size == sum(map(len, batch.bodies))
    assert items.texts_size == sum(map(len, batch.properties))
    assert items.longest_text == max(map(len, batch.properties))
    if items.longest_text >= 1 << 15:
        return True

    queue = _Queue(topic)
    head = shared_head(shared, 0, 0, TIMESTAMP_MS)
    named = bytes((len(topic.encode()),)) + topic.encode()
    arguments = (head, named, suffix, 1 << 40, queue.next_offset)
    records, units, keys, physical_offsets = items.records(*arguments, hash_before_key(topic), TIMESTAMP_MS)
    offsets, unit_of_each, content = measured_records(batch, topic, shared).written(1 << 40, queue, TIMESTAMP_MS)
    assert (physical_offsets, units, records) == (offsets, b"".join(unit_of_each), content)
    assert keys == packed_keys(topic, batch.keys, offsets)
    assert items.records(*arguments, -1, TIMESTAMP_MS) == (records, units, b"", offsets)
    return True


def packed_keys(topic: str, keys: Sequence[Sequence[bytes]], offsets: Sequence[int]) -> bytes:
    """The keys of messages as the index takes them, hashed by the general path."""
    work: list[IndexWork] = [
        (topic, of_one, offset, TIMESTAMP_MS) for of_one, offset in zip(keys, offsets, strict=True) if of_one
    ]
    return hashed_keys(work, 1 << 30, None)[0].packed() if work else b""


class _Queue:
    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.tails: dict[int, bytes] = {}
        self.next_offset = (1 << 33) + 5


def shared_fields(host: bytes = b"\x7f\0\0\1\0\0\x20\x20") -> SharedFields:
    return SharedFields(3, 1, 1_700_000_000_000, host, b"\x0a\0\0\1\0\0\x20\x20", 2)


@given(items=st.lists(ITEMS, min_size=1, max_size=6), host=HOSTS, suffix=st.sampled_from([SUFFIX, b"CLUSTER\x01c"]))
@example(items=[(0, b"x", b"")] * 2, host=bytes(8), suffix=SUFFIX)
@example(items=[(0, b"", b"UNIQ_KEY\x01u\x02TAGS\x01\xc3\xbc")], host=bytes(8), suffix=SUFFIX)
def test_what_the_kernel_takes_is_stored_as_by_columns(
    items: list[tuple[int, bytes, bytes]], host: bytes, suffix: bytes
) -> None:
    assert_same(body_of(items), shared_fields(host), suffix=suffix)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\x02",
        b"a",
        b"UNIQ_KEY\x01" + KEY.encode() + b"\x02WAIT\x01true",
        b"UNIQ_KEY\x01" + KEY.encode() + b"\x02WAIT\x01true\x02",
        b"KEYS\x01k1 k2\x02UNIQ_KEY\x01u\x02WAIT\x01true\x02TAGS\x01t",
        b"price\x0112\x02color\x01\xc3\xbc\x02UNIQ_KEY\x01u",
        b"UNIQ_KEY\x01",
        b"KEYS\x01 \x02TAGS\x01x",
        b"KEYS\x01" + b" ".join(b"%d" % number for number in range(128)),
        b"a\x01" + bytes(range(3, 256)),
    ],
)
def test_it_takes_ordinary_texts(text: bytes) -> None:
    assert assert_same(item(7, b"body", text) * 3, shared_fields())


@pytest.mark.parametrize(
    "text",
    [
        b"a\x01nul\0",
        b"\0",
        b"UNIQ_KEY\x01a\0",
        b"UNIQ_KEY\x01a\x02UNIQ_KEY\x01b",
        b"TAGS\x01a\x02TAGS\x01b",
        b"KEYS\x01a\x02KEYS\x01b",
        b"UNIQ_KEY\x01\x02UNIQ_KEY\x01b",
        b"UNIQ_KEY\x01a\x01b",
        b"TAGS\x01\xc3\xbc",
        b"TRAN_PREPARED_QUEUE_OFFSET\x015",
        b"UNIQ_KEY\x01a\x02INNER_MULTI_QUEUE_OFFSET\x015\x02TAGS\x01t",
        b"KEYS\x01" + b" ".join(b"%d" % number for number in range(129)),
    ],
)
def test_it_declines_texts_that_the_general_path_is_for(text: bytes) -> None:
    for body in (item(7, b"b", text), item(7, b"b", b"") + item(7, b"b", text)):
        assert kernel.read_batch(body, 0, COUNT_MAX) is None


@given(
    items=st.lists(ITEMS, min_size=1, max_size=4),
    cut=st.integers(0, 200),
    lies=st.lists(st.tuples(st.integers(0, 200), LIES), max_size=3),
)
def test_bodies_whose_lengths_lie_are_declined_or_read_as_by_columns(
    items: list[tuple[int, bytes, bytes]], cut: int, lies: list[tuple[int, bytes]]
) -> None:
    body = bytearray(body_of(items))
    for position, value in lies:
        body[position % len(body) : position % len(body) + 1] = value
    assert_same(bytes(body[: len(body) - cut]), shared_fields())


@given(st.binary(max_size=200))
def test_any_bytes_are_declined_or_read_as_by_columns(body: bytes) -> None:
    assert_same(body, shared_fields())


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 1000, 5])
def test_a_body_length_that_lies_is_declined(size: int) -> None:
    body = struct.pack(">iiiii", 0, 0, 0, 0, size) + b"1234" + struct.pack(">h", 0)
    assert kernel.read_batch(body, 0, COUNT_MAX) is None
    assert columns_of(body) is None


@pytest.mark.parametrize("size", [-1, -(2**15), 2**15 - 1, 5])
def test_a_text_length_that_lies_is_declined(size: int) -> None:
    body = struct.pack(">iiiii", 0, 0, 0, 0, 4) + b"1234" + struct.pack(">h", size) + b"1234"
    assert kernel.read_batch(body, 0, COUNT_MAX) is None
    assert columns_of(body) is None


def test_a_body_without_items_is_declined() -> None:
    assert kernel.read_batch(b"", 0, COUNT_MAX) is None


def test_as_many_items_are_read_as_are_allowed() -> None:
    one = item(0, b"x", b"")
    items = kernel.read_batch(one * COUNT_MAX, 0, COUNT_MAX)
    assert items is not None
    assert items.count == COUNT_MAX
    assert kernel.read_batch(one * (COUNT_MAX + 1), 0, COUNT_MAX) is None


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=5), HOSTS)
def test_message_ids_are_those_of_the_answers(physical_offsets: list[int], host: bytes) -> None:
    answers = SendAnswers(region_id="r", trace_on=True, store_host=host, message_size_max=1, message_ids=None)
    expected = answers.batch_msg_id(physical_offsets)
    assert kernel.message_ids(host.hex().upper().encode(), physical_offsets).decode() == expected
