"""Hashes by the burst are those of ``String.hashCode``, one by one."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.java_hash import index_key_hash
from rocketpy.store.index.hash import CHUNK, hash_index_key, hash_index_keys

GOLDEN = Path(__file__).parents[2] / "golden"


def plain(topics: list[str], keys: list[bytes]) -> list[int]:
    return [
        index_key_hash(f"{topic}#{key.decode('utf-8', 'replace')}") for topic, key in zip(topics, keys, strict=True)
    ]


@pytest.mark.parametrize("length", [0, 1, 2, 15, 16, 17, 31, 32, 33, 56, 63, 64, 65, 100, 127, 128, 129, 500])
def test_keys_of_one_length(length: int) -> None:
    choices = random.Random(length)
    keys = [bytes(choices.randrange(1, 128) for _ in range(length)) for _ in range(CHUNK + 1)]
    expected = plain(["TopicTest"] * len(keys), keys)
    for count in (0, 1, 2, 63, CHUNK, CHUNK + 1):
        assert hash_index_keys(["TopicTest"] * count, keys[:count]) == expected[:count]


@pytest.mark.parametrize("length", [31, 32, 33, 56, 100, 129])
@pytest.mark.parametrize("same", [0, 10, 40])
def test_keys_that_begin_alike(length: int, same: int) -> None:
    """The beginning is hashed once only if it is that of all keys."""
    keys = [(b"7F000001" * 20)[:same] + b"%012d" % number for number in range(300)]
    keys = [key.rjust(length, b"x") for key in keys]
    for changed in (b"x" * length, b"y" + keys[7][1:], "ö".encode() + keys[7][2:], keys[7][:-2] + "ö".encode()):
        some = [*keys[:7], changed, *keys[8:]]
        assert hash_index_keys(["TopicTest"] * 300, some) == plain(["TopicTest"] * 300, some)
    assert hash_index_keys(["TopicTest"] * 300, keys) == plain(["TopicTest"] * 300, keys)


@pytest.mark.parametrize("length", [*range(30, 42), 56, 57, 128, 136])
def test_keys_that_differ_in_their_ends_only(length: int) -> None:
    choices = random.Random(length)
    for tail, top in itertools.product((0, 1, 7, 8, 9, 15, 16, 17), (0x7F, 0x80)):  # with the second some are not ASCII
        head = bytes(choices.randrange(1, 128) for _ in range(length - tail))
        keys = [head + bytes(choices.randrange(1, top + 1) for _ in range(tail)) for _ in range(40)]
        assert hash_index_keys(["TopicTest"] * 40, keys) == plain(["TopicTest"] * 40, keys)


def test_the_largest_bytes_overflow_no_lane() -> None:
    for length in (8, 16, 32, 64, 128):
        keys = [b"\x7f" * length] * CHUNK
        assert hash_index_keys(["t"] * CHUNK, keys) == plain(["t"], keys[:1]) * CHUNK


def test_the_hash_that_has_no_absolute_value_is_zero() -> None:
    """``polygenelubricants`` hashes to Integer.MIN_VALUE; so does a topic and key of which it is the sum."""
    found = None
    for number in range(200):
        key = _key_for(-(1 << 31), f"topic{number}#")
        if key is not None:
            found = number, key
            break
    assert found is not None
    number, key = found
    assert index_key_hash(f"topic{number}#" + key.decode()) == 0
    assert hash_index_keys([f"topic{number}"], [key]) == [0]
    assert hash_index_keys([f"topic{number}", "other"], [key, b"x"])[0] == 0


def _key_for(wanted: int, prefix: str) -> bytes | None:
    """Return seven printable characters that give the wanted hash after a prefix, if a greedy search finds them."""
    value = 0
    for character in prefix:
        value = (value * 31 + ord(character)) & 0xFFFF_FFFF
    rest = (wanted - value * 31**7) & 0xFFFF_FFFF
    rest += 79 * sum(31**power for power in range(7)) // (1 << 32) * (1 << 32)  # about the middle of what is possible
    digits = []
    for power in reversed(range(7)):
        digit = max(48, min(126, (rest - 48 * sum(31**lower for lower in range(power))) // 31**power))
        digits.append(digit)
        rest -= digit * 31**power
    return bytes(digits) if rest == 0 else None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["TopicTest", "%RETRY%g", "订单", "a"]),
            st.text(max_size=40) | st.text(alphabet="0123456789ABCDEF", max_size=200),
        ),
        max_size=80,
    )
)
def test_any_mixture(pairs: list[tuple[str, str]]) -> None:
    topics = [topic for topic, _ in pairs]
    keys = [key.encode() for _, key in pairs]
    assert hash_index_keys(topics, keys) == plain(topics, keys)


def test_bytes_that_are_no_text_are_replaced() -> None:
    keys = [b"\xff\xfe", b"abc"]
    assert hash_index_keys(["t", "t"], keys) == plain(["t", "t"], keys)


def test_java_says_the_same() -> None:
    strings = json.loads((GOLDEN / "vectors.json").read_text())["strings"]
    hashes = {bytes.fromhex(each["utf16_hex"]): each["index_key_hash"] for each in strings if each["string"]}
    checked = 0
    for encoded, expected in hashes.items():
        topic, mark, key = encoded.decode("utf-16-be", "surrogatepass").partition("#")
        if mark:
            assert hash_index_keys([topic], [key.encode("utf-8")]) == [expected]
            assert hash_index_key(topic, key) == expected
            checked += 1
    assert checked
