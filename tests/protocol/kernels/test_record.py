"""Records and units by the kernel are those of ``stored_message`` and ``layout``, and what does not fit is refused."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.kernels.record import FIELD_ERRORS, RecordWriter
from rocketpy.protocol.stored_message import pack_record_head
from rocketpy.store.layout import UNIT

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
ADDRESS = st.binary(min_size=8, max_size=8)
NUMBERS = {
    "queue_id": INT32,
    "flag": INT32,
    "queue_offset": INT64,
    "physical_offset": INT64,
    "sys_flag": INT32.map(lambda flags: flags & ~0x30),  # addresses of 4 bytes
    "born_timestamp": INT64,
    "store_timestamp": INT64,
    "reconsume_times": INT32,
    "prepared_transaction_offset": INT64,
}
USUAL: dict[str, Any] = dict.fromkeys(NUMBERS, 1) | {
    "body": b"body",
    "tail": b"\4tail\0\3",
    "properties": b"a\1b",
    "born_host": b"12345678",
}
_WRITER = RecordWriter(b"87654321")


@given(
    store_host=ADDRESS,
    given=st.fixed_dictionaries(
        {**NUMBERS, "body": st.binary(), "tail": st.binary(), "properties": st.binary(), "born_host": ADDRESS}
    ),
)
def test_records_are_those_of_the_general_path(store_host: bytes, given: dict[str, Any]) -> None:
    body, tail, properties = given["body"], given["tail"], given["properties"]
    head = pack_record_head(
        88 + len(body) + len(tail) + len(properties),
        crc32(body) & 0x7FFFFFFF,
        *(given[name] for name in ("queue_id", "flag", "queue_offset", "physical_offset", "sys_flag")),
        *(given["born_timestamp"], given["born_host"], given["store_timestamp"], store_host),
        *(given["reconsume_times"], given["prepared_transaction_offset"], len(body)),
    )
    writer = RecordWriter(store_host)
    for _ in range(2):
        assert writer.record(**given) == head + body + tail + properties


@given(INT64, INT32, INT64)
def test_units_are_those_of_the_layout(physical_offset: int, size: int, tags_code: int) -> None:
    assert _WRITER.unit(physical_offset, size, tags_code) == UNIT.pack(physical_offset, size, tags_code)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_does_not_fit_is_refused(name: str) -> None:
    bits = 63 if NUMBERS[name] is INT64 else 31
    for value in (2**bits, -(2**bits) - 1, 2**100):
        with pytest.raises(FIELD_ERRORS):
            _WRITER.record(**USUAL | {name: value})
    assert _WRITER.record(**USUAL)[88:] == b"body\4tail\0\3a\1b"


def test_a_unit_that_does_not_fit_is_refused() -> None:
    for numbers in ((2**63, 1, 1), (1, 2**31, 1), (1, 1, -(2**63) - 1)):
        with pytest.raises(FIELD_ERRORS):
            _WRITER.unit(*numbers)
