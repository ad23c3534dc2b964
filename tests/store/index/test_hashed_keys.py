"""Both paths take the same messages and make the same keys of them."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.store.index.feed import IndexWork
from rocketpy.store.index.hashed_keys import HashedKeys, PackedKeys, count_keys, hashed_keys
from rocketpy.store.index.kernels import KEY_SIZE, index_kernels

NUMBERS = st.integers(0, 2**62)
PACKED = st.lists(st.tuples(st.integers(0, 2**31 - 1), NUMBERS, NUMBERS), min_size=1, max_size=5).map(
    lambda keys: b"".join(struct.pack(">iqq", *key) for key in keys)
)
KEYS = st.one_of(st.lists(st.text(max_size=40).map(str.encode), min_size=1, max_size=5), PACKED)
WORK = st.lists(
    st.tuples(st.sampled_from(("T", "TopicTest", "größe")), KEYS, NUMBERS, NUMBERS), min_size=1, max_size=12
)


def key_count(work: IndexWork) -> int:
    return len(work[1]) // KEY_SIZE if isinstance(work[1], bytes) else len(work[1])


@given(WORK, st.integers(1, 20), st.integers(0, 20))
def test_the_kernels_make_the_same_keys(work: list[IndexWork], count_max: int, begin: int) -> None:
    """Of the keys of a batch the general path makes one group by itself."""
    general, count = hashed_keys(work, count_max, None)
    by_kernel, count_by_kernel = hashed_keys(work[:count], count_max, index_kernels())
    everything, message_count = hashed_keys(work, count_max, index_kernels())
    assert everything.key_count == sum(map(key_count, work[:message_count]))
    assert message_count == len(work) or count_max <= everything.key_count
    assert everything.key_count - key_count(work[message_count - 1]) < count_max
    assert isinstance(everything, PackedKeys)
    assert everything.keys.startswith(by_kernel.packed())
    assert isinstance(general, HashedKeys)
    assert isinstance(by_kernel, PackedKeys)
    assert count == count_by_kernel
    assert general.key_count == by_kernel.key_count == sum(map(key_count, work[:count]))
    for columns, packed in ((general, by_kernel), (general.after(begin), by_kernel.after(begin))):
        assert list(zip(*columns, strict=True)) == list(struct.iter_unpack(">iqq", packed.keys))
    assert count_keys(work, 1, None) == count_keys(work, 1, index_kernels())


def key(physical_offset: int, key_hash: int, timestamp_ms: int = 7) -> tuple[int, int, int]:
    return key_hash, physical_offset, timestamp_ms


MESSAGES = st.lists(
    st.tuples(st.integers(1, 3), st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(0, 2)), min_size=1
)


@given(MESSAGES)
def test_a_message_has_one_entry_for_each_hash_on_both_paths(messages: list[tuple[int, list[int], int]]) -> None:
    keys: list[tuple[int, int, int]] = []
    expected: list[tuple[int, int, int]] = []
    offset = 0
    for size, hashes, timestamp_ms in messages:
        offset += size
        keys += [key(offset, each, timestamp_ms) for each in hashes]
        expected += [key(offset, each, timestamp_ms) for each in dict.fromkeys(hashes)]
    columns = HashedKeys(*zip(*keys, strict=True))
    packed = PackedKeys(columns.packed(), index_kernels())
    assert list(zip(*columns.distinct(), strict=True)) == expected
    assert list(struct.iter_unpack(">iqq", packed.distinct().keys)) == expected


def test_keys_that_differ_stay_the_same_objects() -> None:
    columns = HashedKeys([1, 2, 1], [100, 100, 200], [7, 7, 7])
    packed = PackedKeys(columns.packed(), index_kernels())
    assert columns.distinct() is columns
    assert packed.distinct().keys is packed.keys
