"""Both paths take the same messages and make the same keys of them."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.store.index.feed import IndexWork
from rocketpy.store.index.hashed_keys import HashedKeys, PackedKeys, count_keys, hashed_keys
from rocketpy.store.index.kernels import index_kernels

WORK = st.lists(
    st.tuples(
        st.sampled_from(("T", "TopicTest", "größe")),
        st.lists(st.text(max_size=40).map(str.encode), min_size=1, max_size=5),
        st.integers(0, 2**62),
        st.integers(0, 2**62),
    ),
    min_size=1,
    max_size=12,
)


@given(WORK, st.integers(1, 20), st.integers(0, 20))
def test_the_kernels_make_the_same_keys(work: list[IndexWork], count_max: int, begin: int) -> None:
    general, count = hashed_keys(work, count_max, None)
    by_kernel, count_by_kernel = hashed_keys(work, count_max, index_kernels())
    assert isinstance(general, HashedKeys)
    assert isinstance(by_kernel, PackedKeys)
    assert count == count_by_kernel
    assert general.key_count == by_kernel.key_count == sum(len(keys) for _, keys, _, _ in work[:count])
    for columns, packed in ((general, by_kernel), (general.after(begin), by_kernel.after(begin))):
        assert list(zip(*columns, strict=True)) == list(struct.iter_unpack(">iqq", packed.keys))
    assert count_keys(work, 1, None) == count_keys(work, 1, index_kernels())
