"""Arrow columns from records of any content, against the decoder that takes one record at a time.

Records are made of bytes, not by the encoder of messages: topics and properties of any bytes, any flags, numbers at
their limits, bodies that hold records. Then some bytes are spoiled, and the walk must stop where the plain one stops.
"""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, RemoteProtocolError, StoreError
from rocketpy.protocol.compression import CompressionType, compress
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from rocketpy.protocol.stored_message import PROPERTIES_SIZE, body_crc, encode_blank, encode_message, pack_record_head
from rocketpy.spark.columns import batch
from rocketpy.spark.columns.batch import record_batch, record_batches
from rocketpy.spark.columns.records import RecordBlock, Stop, check_records, find_records
from rocketpy.spark.filters import ALL, MessageFilter, Range
from rocketpy.spark.schema import COLUMNS, TIMESTAMP_MS_MAX, projection, spark_schema
from tests.spark.columns.oracle import find_slowly, rows_of

NAMES = [column.name for column in COLUMNS]
BASE = 4096
PACKED = [compress(b"x" * 300, kind) for kind in CompressionType]
RECORD = encode_message(MessageExt("fake", b"fake", {"TAGS": "fake"}))
LIMITS = [0, 1, -1, TIMESTAMP_MS_MAX, TIMESTAMP_MS_MAX + 1, 2**63 - 1, -(2**63), 1_700_000_000_000]

int32s = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]) | st.integers(-(2**31), 2**31 - 1)
int64s = st.sampled_from(LIMITS) | st.integers(-(2**63), 2**63 - 1)
hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20) | st.just(b"\x0a\0\0\1\0\0\x2a\x9f")
words = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "A", "B", "k1 k2", " ", "grün", "", "TAG", "\0"]).map(str.encode)
pieces = words | st.sampled_from([NAME_VALUE_SEPARATOR.encode(), PROPERTY_SEPARATOR.encode(), b"\xff", b"\xc3"])
entries = st.tuples(words, st.sampled_from([b"\1", b"\1", b"\1", b"", b"\1\1"]), words).map(b"".join)
texts = st.lists(entries, max_size=5).map(b"\2".join) | st.lists(pieces, max_size=20).map(b"".join)
topics = st.sampled_from([b"T", b"U", b"T\xff", "grün".encode(), b"", b"t" * 127]) | st.binary(max_size=127)
bodies = st.sampled_from([b"", RECORD, RECORD[8:] + RECORD, *PACKED, PACKED[0][:-3]]) | st.binary(max_size=40)
sys_flags = st.sampled_from([0, 1, 4, 8, 12, 0x101, 0x201, 0x301, 0x701]) | int32s


@st.composite
def records(draw: st.DrawFn) -> tuple[int, bytes, bytes]:
    """A consistent record in two parts, before and after its physical offset; and how long it is."""
    born, store = draw(hosts), draw(hosts)
    body, topic, properties = draw(bodies), draw(topics), draw(texts)
    tail = bytes((len(topic),)) + topic + PROPERTIES_SIZE.pack(len(properties)) + properties
    head_size = 72 + len(born) + len(store)
    size = head_size + len(body) + len(tail)
    head = pack_record_head(
        size,
        body_crc(body),
        draw(int32s),
        draw(int32s),
        draw(int64s),
        0,
        draw(sys_flags),
        draw(int64s),
        born,
        draw(int64s),
        store,
        draw(int32s),
        draw(int64s),
        len(body),
    )
    return size, head[:28], head[36:] + body + tail


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Records back to back, each with its physical offset."""
    content = b""
    for _, before, after in draw(st.lists(records(), max_size=6)):
        content += before + (BASE + len(content)).to_bytes(8, "big") + after
    return content


ranges = st.just(ALL) | st.builds(
    Range, st.none() | st.sampled_from(LIMITS) | st.just(2**70), st.none() | st.sampled_from(LIMITS) | st.just(-(2**70))
)


def sets(*values: object) -> st.SearchStrategy[frozenset[object] | None]:
    return st.none() | st.frozensets(st.sampled_from(values))


filters = st.builds(
    MessageFilter,
    topics=sets("T", "U", "T\ufffd", "grün", ""),
    queue_ids=sets(0, 1, -1, 2**40),
    store_timestamps_ms=ranges,
    born_timestamps_ms=ranges,
    queue_offsets=ranges,
    physical_offsets=ranges,
    tags=sets("A", "B", "A\ufffd", ""),
    keys=sets("A", "k1", "k2", "", " "),
)


def rows(made: list) -> list[dict[str, object]]:
    found = []
    for each in made:
        each.validate(full=True)
        for name in {"born_timestamp", "store_timestamp"} & set(each.schema.names):
            at = each.schema.get_field_index(name)
            each = each.set_column(at, name, each.column(at).cast("int64"))
        found += each.to_pylist()
    return found


@given(
    logs(),
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True) | st.just(NAMES),
    st.just(MessageFilter()) | filters,
    st.booleans(),
    st.sampled_from([1, 200, 2**20]),
)
def test_columns_are_what_the_decoder_makes_of_each_record(
    content: bytes, names: list[str], wants: MessageFilter, decompress: bool, bytes_max: int
) -> None:
    starts, _, _ = find_slowly(content, 0, len(content), None, check_crc=False)
    block = find_records(content, check_crc=False, path="/f", file_base_offset=BASE).block
    assert block.starts.tolist() == starts
    columns = projection(spark_schema(names))
    needs_bodies = decompress and not {"body", "body_size"}.isdisjoint(names)
    how = {"wants": wants, "broker_name": "b"}
    try:
        expected = rows_of(block, names, decompress=needs_bodies, **how)
    except (RemoteProtocolError, LocalProtocolError):
        with pytest.raises(StoreError, match="decompress=false"):
            record_batch(block, columns, **how)
        return
    assert rows([record_batch(block, columns, decompress=decompress, **how)]) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "BATCH_BYTES_MAX", bytes_max)
        assert rows(list(record_batches(block, columns, decompress=decompress, **how))) == expected


spoilings = st.lists(
    st.tuples(
        st.integers(0, 2000),
        st.sampled_from([b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", RECORD[:8], RECORD])
        | st.binary(max_size=4),
    ),
    max_size=3,
)
tails = st.sampled_from([b"", bytes(100), encode_blank(100) + bytes(92), encode_blank(-1), RECORD[:60], b"\xda\xa3"])


@given(logs(), tails, spoilings, st.booleans(), st.booleans(), st.integers(0, 900))
@example(b"", encode_blank(100) + bytes(92), [], True, True, 900)
def test_a_walk_stops_where_the_plain_one_stops(
    content: bytes, tail: bytes, spoiled: list[tuple[int, bytes]], knows_base: bool, check_crc: bool, end: int
) -> None:
    for place, replacement in spoiled:
        at = place % (len(content) + 1)
        content = content[:at] + replacement + content[at + len(replacement) :]
    content += tail
    base = BASE if knows_base else None
    end = min(end, len(content))
    starts, position, stop = find_slowly(content, 0, end, base, check_crc=check_crc)
    found = find_records(content, end=end, base_offset=base, check_crc=check_crc)
    assert (found.block.starts.tolist(), found.end, found.stop) == (starts, position, stop)
    assert bool(found.why) == (stop in (Stop.NOTHING, Stop.DAMAGED))


@given(logs(), spoilings, st.lists(st.tuples(st.integers(-5, 700), st.integers(-5, 400)), max_size=5))
def test_whatever_units_claim_only_records_are_valid(
    content: bytes, spoiled: list[tuple[int, bytes]], claims: list[tuple[int, int]]
) -> None:
    for place, replacement in spoiled:
        at = place % (len(content) + 1)
        content = content[:at] + replacement + content[at + len(replacement) :]
    found = find_records(content).block
    units = sorted([*zip(found.starts.tolist(), found.sizes.tolist(), strict=True), *claims])
    starts, sizes = (np.array([unit[at] for unit in units], np.int64) for at in (0, 1))
    valid, invalid = check_records(RecordBlock(content, starts, sizes))
    assert len(valid) + len(invalid) == len(units)
    assert all(why for _, why in invalid)
    ends = (valid.starts + valid.sizes).tolist()
    for start, end in zip(valid.starts.tolist(), ends, strict=True):
        assert find_slowly(content[:end], start, end, None, check_crc=True) == ([start], end, Stop.END)
    rows([record_batch(valid, projection(spark_schema(NAMES)), decompress=False)])
