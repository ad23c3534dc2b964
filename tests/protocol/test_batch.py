"""Batch bodies, held against Java's own; hostile ones are refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.batch import BatchItem, decode_batch_body, encode_batch_body, split_batch_body
from rocketpy.protocol.message import Message
from rocketpy.protocol.properties import decode_properties, encode_properties
from tests.recorded import VECTORS

TEXTS = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=20)
MESSAGES = st.builds(
    Message,
    st.just("T"),
    st.binary(max_size=50),
    st.dictionaries(TEXTS, TEXTS, max_size=3),
    st.integers(-(2**31), 2**31 - 1),
)


@pytest.mark.parametrize("vector", VECTORS["batch_encoding"], ids=lambda vector: str(len(vector["messages"])))
def test_batches_are_those_of_java(vector: dict[str, object]) -> None:
    body = bytes.fromhex(str(vector["hex"]))
    items = decode_batch_body(body)
    for item, message in zip(items, vector["messages"], strict=True):  # type: ignore[call-overload]
        assert item.flag == message["flag"]
        assert item.body.hex() == message["body_hex"]
        assert item.properties.hex() == message["properties_text_hex"]
        assert decode_properties(item.properties.decode()) == message["properties"]
    messages = [Message("T", item.body, decode_properties(item.properties.decode()), item.flag) for item in items]
    assert encode_batch_body(messages) == body


@given(st.lists(MESSAGES, max_size=4))
def test_what_is_written_is_read_again(messages: list[Message]) -> None:
    items = decode_batch_body(encode_batch_body(messages))
    assert items == [
        BatchItem(message.flag, message.body, encode_properties(message.properties).encode()) for message in messages
    ]


@given(
    st.integers(0, 40),
    st.integers(0, 40),
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5),
    st.data(),
)
def test_items_of_equal_lengths_are_read_as_any_others(
    body_size: int, properties_size: int, flags: list[int], data: st.DataObject
) -> None:
    """They are cut all at once: an item of another length among them must not be."""
    items = [
        BatchItem(
            flag,
            data.draw(st.binary(min_size=body_size, max_size=body_size)),
            data.draw(st.binary(min_size=properties_size, max_size=properties_size)),
        )
        for flag in flags
    ]
    body = b"".join(map(encoded, items))
    assert decode_batch_body(body) == items
    columns = split_batch_body(body)
    assert list(zip(*columns, strict=True)) == items
    moved = BatchItem(5, bytes(body_size + 1), bytes(max(0, properties_size - 1)))
    for others in ([*items, moved], [moved, *items], [items[0], moved, items[-1]]):
        assert decode_batch_body(b"".join(map(encoded, others))) == others
    with pytest.raises(RemoteProtocolError, match=f"in item {len(items)} at byte {len(body)}"):
        decode_batch_body(body + b"\0")


@pytest.mark.parametrize("count", [1, 2, 999, 1000, 1001, 3000])
def test_any_number_of_items_is_read(count: int) -> None:
    item = BatchItem(7, b"body", b"a\x01b")
    assert decode_batch_body(encoded(item) * count) == [item] * count


def encoded(item: BatchItem) -> bytes:
    head = struct.pack(">iiiii", 22 + len(item.body) + len(item.properties), 0, 0, item.flag, len(item.body))
    return head + item.body + struct.pack(">h", len(item.properties)) + item.properties


def test_half_of_a_surrogate_pair_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(LocalProtocolError, match="surrogates not allowed"):
        encode_batch_body([Message("T", b"", {"name": "\ud800"})])


def test_every_cut_but_between_messages_is_refused() -> None:
    one = encode_batch_body([Message("T", b"hello", {"a": "b"})])
    for cut in range(len(one) * 3):
        if cut % len(one):
            with pytest.raises(RemoteProtocolError, match=f"in item {cut // len(one)} at byte"):
                decode_batch_body((one * 3)[:cut])
        else:
            assert len(decode_batch_body((one * 3)[:cut])) == cut // len(one)


@pytest.mark.parametrize("size", ["ffffffff", "80000000", "7fffffff", "00000006", "00000005"])
def test_a_body_size_that_leads_elsewhere_is_refused(size: str) -> None:
    with pytest.raises(RemoteProtocolError, match="in item 0 at byte 0"):
        decode_batch_body(bytes(16) + bytes.fromhex(size) + b"body" + bytes(2))


@pytest.mark.parametrize("size", ["ffff", "8000", "7fff", "0001"])
def test_a_properties_size_that_leads_elsewhere_is_refused(size: str) -> None:
    with pytest.raises(RemoteProtocolError, match="expected properties of 0 to 0 bytes"):
        decode_batch_body(bytes(20) + bytes.fromhex(size))


def test_the_first_three_numbers_are_ignored_as_the_broker_does() -> None:
    assert decode_batch_body(b"\xff" * 12 + bytes(10)) == [BatchItem(0, b"", b"")]


@given(st.binary(max_size=80))
def test_garbage_is_a_batch_or_a_clear_error(body: bytes) -> None:
    try:
        items = decode_batch_body(body)
    except RemoteProtocolError:
        return
    assert sum(22 + len(item.body) + len(item.properties) for item in items) == len(body)


def test_properties_beyond_their_length_field_are_refused() -> None:
    """Java writes a corrupt batch then."""
    fitting = Message("T", b"", {"k": "v" * 32765})
    assert len(decode_batch_body(encode_batch_body([fitting]))[0].properties) == 32767
    with pytest.raises(LocalProtocolError, match="found 32768"):
        encode_batch_body([Message("T", b"", {"k": "v" * 32766})])
