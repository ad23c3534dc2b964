"""Records as Arrow batches, compared with the slow decoder: records of a Java broker's stores, and odd ones."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import pyarrow as pa

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import encode_message
from rocketpy.spark.columns import batch
from rocketpy.spark.columns.batch import record_batch, record_batches
from rocketpy.spark.columns.bodies import BadBodies
from rocketpy.spark.columns.records import RecordBlock, find_records
from rocketpy.spark.filters import EVERYTHING, MessageFilter
from rocketpy.spark.schema import COLUMNS, projection, spark_schema
from tests.spark.columns.oracle import rows_of
from tests.store.golden_store import unpack_store

NAMES = [column.name for column in COLUMNS]
STORES = ["store-clean", "store-crash", "store-torn", "store-ipv6", "store-ext", "store-multi"]


def message(physical_offset: int = 0, body: bytes = b"body", **changes: object) -> MessageExt:
    fields: dict[str, object] = {
        "topic": "T",
        "properties": {"UNIQ_KEY": "U1", "KEYS": "k1 k2", "TAGS": "A", "colour": "grün"},
        "flag": 5,
        "queue_id": 3,
        "queue_offset": 7,
        "born_timestamp": 1_700_000_000_123,
        "born_host": "10.0.0.1:5000",
        "store_timestamp": 1_700_000_000_456,
        "store_host": "10.0.0.2:10911",
        "reconsume_times": 2,
        "prepared_transaction_offset": 77,
    }
    return MessageExt(body=body, physical_offset=physical_offset, **(fields | changes))  # type: ignore[arg-type]


def block_of(*messages: MessageExt) -> RecordBlock:
    content = b"".join(map(encode_message, messages))
    block = find_records(content, path="/store/commitlog/00000000000000000512", file_base_offset=512).block
    assert len(block) == len(messages)
    return block


def plain_rows(batch: pa.RecordBatch) -> list[dict[str, object]]:
    """Rows with timestamps as numbers: Python's datetime ends before Arrow's."""
    batch.validate(full=True)
    for name in ("born_timestamp", "store_timestamp"):
        if name in batch.schema.names:
            at = batch.schema.get_field_index(name)
            batch = batch.set_column(at, name, batch.column(at).cast(pa.int64()))
    rows: list[dict[str, object]] = batch.to_pylist()
    return rows


def assert_same(block: RecordBlock, names: list[str], wants: MessageFilter = EVERYTHING, **how: object) -> None:
    columns = projection(spark_schema(names))
    made = record_batch(block, columns, wants=wants, **how)  # type: ignore[arg-type]
    assert made.schema.equals(columns, check_metadata=True)
    assert plain_rows(made) == rows_of(block, names, wants=wants, **how)  # type: ignore[arg-type]


def golden_blocks(name: str, tmp_path: Path) -> list[RecordBlock]:
    unpack_store(name, tmp_path)
    blocks = []
    for path in sorted(tmp_path.rglob("commitlog/*")):
        base = int(path.name)
        found = find_records(path.read_bytes(), base_offset=base, path=str(path), file_base_offset=base)
        blocks.append(found.block)
    return blocks


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("decompress", [True, False])
def test_every_record_of_a_java_store_is_the_same_as_decoded_one_by_one(
    name: str, decompress: bool, tmp_path: Path
) -> None:
    blocks = golden_blocks(name, tmp_path)
    assert sum(map(len, blocks)) > 10
    for block in blocks:
        assert_same(block, NAMES, decompress=decompress)


def test_every_field_arrives_under_its_name() -> None:
    [row] = record_batch(block_of(message(1024)), projection(spark_schema(NAMES)), broker_name="broker-a").to_pylist()
    assert row.pop("born_timestamp").isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert row.pop("store_timestamp").isoformat() == "2023-11-14T22:13:20.456000+00:00"
    assert row == {
        "topic": "T",
        "queue_id": 3,
        "queue_offset": 7,
        "physical_offset": 1024,
        "message_id": "0A00000200002A9F0000000000000400",
        "unique_key": "U1",
        "keys": "k1 k2",
        "tags": "A",
        "body": b"body",
        "body_size": 4,
        "properties": [("UNIQ_KEY", "U1"), ("KEYS", "k1 k2"), ("TAGS", "A"), ("colour", "grün")],
        "born_host": "10.0.0.1:5000",
        "store_host": "10.0.0.2:10911",
        "reconsume_times": 2,
        "sys_flag": 0,
        "flag": 5,
        "prepared_transaction_offset": 77,
        "stored_size": 138,
        "broker_name": "broker-a",
        "_file": "/store/commitlog/00000000000000000512",
        "_offset": 512,
    }


@pytest.mark.parametrize("timestamp_ms", [-1, 253_402_300_800_000, 2**63 - 1, -(2**63)])
def test_a_time_of_birth_that_no_calendar_has_is_null(timestamp_ms: int) -> None:
    """A producer writes what it likes there; it must not make the rest unreadable."""
    batch = record_batch(block_of(message(born_timestamp=timestamp_ms)), projection(spark_schema(["born_timestamp"])))
    assert batch.to_pylist() == [{"born_timestamp": None}]


@pytest.mark.parametrize("name", NAMES)
def test_each_column_can_be_read_alone(name: str) -> None:
    assert_same(block_of(message(), message(store_host="[::1]:9", topic="U")), [name])


def test_no_record_gives_an_empty_batch_of_the_same_schema() -> None:
    assert_same(find_records(b"").block, NAMES)


@pytest.mark.parametrize(("bad_bodies", "numbers"), [(BadBodies.KEEP, [0, 1, 2, 3]), (BadBodies.DROP, [1])])
def test_messages_whose_body_does_not_decompress_are_kept_or_dropped(
    monkeypatch: pytest.MonkeyPatch, bad_bodies: BadBodies, numbers: list[int]
) -> None:
    """Also where nothing of a batch is left."""
    monkeypatch.setattr(batch, "BATCH_ROWS_MAX", 2)
    sound = zlib.compress(b"sound")
    bodies = [b"no zlib", sound, sound[:5], b"\x00"]
    block = block_of(*(message(200 * n, body, sys_flag=1, queue_offset=n) for n, body in enumerate(bodies)))
    made = list(record_batches(block, projection(spark_schema()), bad_bodies=bad_bodies))
    found = [row for each in made for row in each.to_pylist()]
    assert [row["queue_offset"] for row in found] == numbers
    assert [row["body"] for row in found] == [b"sound" if number == 1 else bodies[number] for number in numbers]
    assert all(each.num_rows for each in made)


def test_unwanted_bodies_are_not_decompressed() -> None:
    block = block_of(message(0), message(200, b"no zlib", sys_flag=1, topic="U"))
    assert record_batch(block, projection(spark_schema()), wants=MessageFilter(topics=frozenset({"T"}))).num_rows == 1


def test_batches_are_bounded_by_rows_and_keep_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "BATCH_ROWS_MAX", 4)
    block = block_of(*(message(queue_offset=number) for number in range(10)))
    made = list(record_batches(block, projection(spark_schema())))
    assert [each.num_rows for each in made] == [4, 4, 2]
    assert [row["queue_offset"] for each in made for row in each.to_pylist()] == list(range(10))


def test_batches_are_bounded_by_the_bytes_of_their_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "BATCH_BYTES_MAX", 500)
    block = block_of(*(message(body=b"x" * size) for size in (60, 60, 60, 900, 1)))
    assert [each.num_rows for each in record_batches(block, projection(spark_schema()))] == [2, 1, 1, 1]


@pytest.mark.parametrize(("names", "rows"), [(NAMES, [2, 1, 1]), (["body_size"], [2, 1, 1]), (["topic"], [4])])
def test_batches_are_bounded_by_the_bytes_of_decompressed_bodies(
    monkeypatch: pytest.MonkeyPatch, names: list[str], rows: list[int]
) -> None:
    """A record of a kilobyte may grow to a megabyte. Where no body is asked for, none is decompressed."""
    monkeypatch.setattr(batch, "BATCH_BYTES_MAX", 10_000)
    packed = zlib.compress(bytes(15_000))
    block = block_of(
        message(0, packed, sys_flag=1), message(1), message(2, packed, sys_flag=1), message(3, packed, sys_flag=1)
    )
    columns = projection(spark_schema(names))
    made = list(record_batches(block, columns))
    assert [each.num_rows for each in made] == rows
    assert [row for each in made for row in plain_rows(each)] == rows_of(block, names)


def test_batches_of_nothing_wanted_are_none() -> None:
    wants = MessageFilter(topics=frozenset({"U"}))
    assert list(record_batches(block_of(message()), projection(spark_schema()), wants=wants)) == []


def test_a_body_as_string_has_malformed_utf8_replaced() -> None:
    block = block_of(message(0, "grün".encode()), message(200, b"\xff\xfe"), message(400, b""))
    columns = projection(spark_schema(["body"], body_as="string"))
    made = record_batch(block, columns)
    assert made.schema.equals(columns)
    assert [row["body"] for row in made.to_pylist()] == ["grün", "\ufffd\ufffd", ""]


def test_a_body_as_variant_is_null_where_it_is_no_json() -> None:
    block = block_of(message(0, b'{"a": 1}'), message(200, b"{"))
    columns = projection(spark_schema(["body", "body_size"], body_as="variant"))
    made = record_batch(block, columns)
    assert made.schema.equals(columns, check_metadata=True)
    assert [(row["body"] is None, row["body_size"]) for row in made.to_pylist()] == [(False, 8), (True, 1)]
