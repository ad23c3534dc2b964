"""A batch becomes the same bytes as its messages one by one, whatever they are like."""

from __future__ import annotations

import struct

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketpy.store.append.batch import (
    AlikeRecords,
    BatchRecord,
    MessageBatch,
    MixedRecords,
    SharedFields,
    measured_records,
    tail_for,
)
from rocketpy.store.index.feed import IndexWork
from rocketpy.store.index.hashed_keys import hashed_keys
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import BORN_HOST, BORN_HOST_V6, STORE_HOST, STORE_HOST_V6, Parts, Place

INT = st.integers(-(2**31), 2**31 - 1)
BODIES = st.one_of(st.binary(max_size=12), st.just(b""), st.just(b"12345678"), st.just(b"87654321"))
TEXTS = st.one_of(
    st.text(max_size=12).filter(lambda text: "\0" not in text),
    st.sampled_from(["", "UNIQ_KEY\x01aaaa\x02WAIT\x01true", "UNIQ_KEY\x01bbbb\x02WAIT\x01true", "a\x01\U0001f680"]),
)
RECORDS = st.tuples(
    INT,
    BODIES,
    TEXTS.map(str.encode),
    st.integers(-(2**63), 2**63 - 1),
    st.lists(st.binary(max_size=3), max_size=2).map(tuple),
)
ALIKE = st.tuples(st.integers(0, 300), st.integers(0, 300)).flatmap(
    lambda sizes: st.lists(
        st.tuples(
            INT,
            st.binary(min_size=sizes[0], max_size=sizes[0]),
            st.text("abc\x01\x02", min_size=sizes[1], max_size=sizes[1]).map(str.encode),
            st.integers(-(2**31), 2**31 - 1),
            st.just((b"k",)),
        ),
        min_size=1,
        max_size=6,
    )
)


def parts_with(store_host: bytes) -> Parts:
    parts = Parts(Place(SimDisk(), "/store"), store_host=store_host, log_file_size=1 << 16)
    parts.put(b"before", "Tü", 3)
    return parts


def contents(parts: Parts) -> object:
    """Everything that puts have changed."""
    parts.appender.end_burst()
    counts = parts.appender.counts
    keys = all_keys(parts.index_work)
    return parts.place.files(parts.place.root), keys, parts.arrivals, counts.put_count, counts.put_bytes


def all_keys(work: list[IndexWork]) -> list[tuple[int, ...]]:
    """Hash, physical offset and timestamp of each key, of messages and of batches that the kernel has read."""
    found: list[tuple[int, ...]] = []
    while work:
        keys, message_count = hashed_keys(work, 1000, None)
        found += struct.iter_unpack(">iqq", keys.packed())
        work = work[message_count:]
    return found


@given(
    records=st.one_of(st.lists(RECORDS, min_size=1, max_size=6), ALIKE),
    sys_flag=st.sampled_from([0, 1, 0x32]),
    born_timestamp=st.integers(0, 2**63 - 1),
    born_host=st.sampled_from([BORN_HOST, BORN_HOST_V6]),
    store_host=st.sampled_from([STORE_HOST, STORE_HOST_V6]),
    reconsume_times=INT,
)
@example([(0, b"", b"", 0, ())] * 3, 0, 0, BORN_HOST, STORE_HOST, 0)
@example([(7, b"x" * 128, b"a\x01b", 5, (b"k",))] * 32, 0, 1, BORN_HOST_V6, STORE_HOST, 2)
@settings(deadline=None)
def test_a_batch_is_stored_as_its_messages_one_by_one(
    records: list[BatchRecord],
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_host: bytes,
    reconsume_times: int,
) -> None:
    batch, singles = parts_with(store_host), parts_with(store_host)
    status, places, queue_offset = batch.appender.put_batch(
        "Tü", 3, MessageBatch.of(records), sys_flag, born_timestamp, born_host, reconsume_times
    )
    assert (status, queue_offset) == (PutMessageStatus.PUT_OK, 1)
    expected = [
        singles.appender.put(
            "Tü", 3, body, properties, code, keys, flag, sys_flag, born_timestamp, born_host, reconsume_times
        )
        for flag, body, properties, code, keys in records
    ]
    assert [
        (PutMessageStatus.PUT_OK, *each) for each in zip(places, range(1, len(places) + 1), strict=True)
    ] == expected
    assert contents(batch) == contents(singles)


@pytest.mark.parametrize("is_alike", [True, False])
@pytest.mark.parametrize("field", ["flag", "tags_code", "born_timestamp", "reconsume_times"])
def test_a_number_that_does_not_fit_refuses_the_batch(field: str, is_alike: bool) -> None:
    parts = parts_with(STORE_HOST)
    wrong = {field: 1 << 63}
    records: list[BatchRecord] = [
        (0, b"1", b"", 0, ()),
        (wrong.get("flag", 0), b"2" if is_alike else b"longer", b"", wrong.get("tags_code", 0), ()),
    ]
    before = parts.appender.wrote_offset
    status, places, _ = parts.appender.put_batch(
        "Tü", 3, MessageBatch.of(records), 0, wrong.get("born_timestamp", 0), BORN_HOST, wrong.get("reconsume_times", 0)
    )
    assert (status, places) == (PutMessageStatus.MESSAGE_ILLEGAL, [])
    assert parts.appender.wrote_offset == before
    parts.put(b"after", "Tü", 3)
    parts.appender.end_burst()
    assert parts.bodies("Tü", 3) == [b"before", b"after"]


def test_messages_are_alike_when_their_lengths_are() -> None:
    one: BatchRecord = (0, b"body", b"a\x01b", 0, ())
    longer_body: BatchRecord = (0, b"body ", b"a\x01b", 0, ())
    longer_properties: BatchRecord = (0, b"body", b"a\x01bc", 0, ())
    as_long_together: BatchRecord = (0, b"bod", b"a\x01bc", 0, ())
    assert isinstance(measured([one]), AlikeRecords)
    assert isinstance(measured([one] * 1000), AlikeRecords)
    assert isinstance(measured([one] * 1001), MixedRecords), "their struct would be cached"
    for other in (longer_body, longer_properties, as_long_together):
        records = measured([one, other])
        assert isinstance(records, MixedRecords)
        assert records.longest_properties == max(one[2], other[2], key=len)


def measured(records: list[BatchRecord]) -> AlikeRecords | MixedRecords:
    return measured_records(MessageBatch.of(records), "T", SharedFields(0, 0, 0, BORN_HOST, STORE_HOST, 0))


def test_no_messages_are_a_batch_of_none() -> None:
    assert MessageBatch.of([]) == MessageBatch((), (), (), (), ())


@attrs.define
class Queue:
    topic: str
    tails: dict[int, bytes] = attrs.Factory(dict)


def test_a_tail_is_topic_and_size_and_is_cached() -> None:
    queue = Queue("ü")
    assert tail_for(queue, 258) == b"\x02\xc3\xbc\x01\x02"
    assert tail_for(queue, 258) is queue.tails[258]


def test_what_is_cached_is_bounded() -> None:
    queue = Queue("T")
    for size in range(2000):
        assert tail_for(queue, size)[-2:] == size.to_bytes(2, "big")
        assert len(queue.tails) <= 512
