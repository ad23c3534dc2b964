"""The head of an answer by the kernel is, byte for byte, what the generic encoder writes before a body."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.broker.pull.answers import FoundHead, encode_found_answer
from rocketpy.store.read.plain_read import PlainRead

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)


@given(INT32, INT64, INT64, INT64, INT64, st.integers(0, 99))
@example(0, 0, 0, 0, 0, 0)
@example(-(2**31), -(2**63), -(2**63), -(2**63), -(2**63), 0)
def test_heads_are_those_of_the_generic_encoder(
    opaque: int, broker_id: int, next_begin: int, minimum: int, maximum: int, size: int
) -> None:
    body = b"x" * size
    expected = encode_found_answer(opaque, PlainRead(next_begin, minimum, maximum, body, 1, size), broker_id)
    for has_kernel in (False, True):
        head = FoundHead(has_kernel=has_kernel)
        head.opaque, head.broker_id = opaque, broker_id
        found = head.of(next_begin, minimum, maximum, size)
        assert found is not None
        assert found + body == expected
