"""Messages as Arrow batches: bounded batches, odd values."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.protocol.message import MessageExt
from rocketpy.spark import rows
from rocketpy.spark.rows import record_batches


def message(queue_offset: int = 0, body: bytes = b"body", **changes: object) -> MessageExt:
    fields: dict[str, object] = {
        "topic": "T",
        "body": body,
        "properties": {"UNIQ_KEY": "U1", "KEYS": "k1 k2", "TAGS": "A", "colour": "grün"},
        "flag": 5,
        "queue_id": 3,
        "queue_offset": queue_offset,
        "physical_offset": 1024,
        "sys_flag": 0,
        "born_timestamp": 1_700_000_000_123,
        "born_host": "10.0.0.1:5000",
        "store_timestamp": 1_700_000_000_456,
        "store_host": "10.0.0.2:10911",
        "reconsume_times": 2,
        "prepared_transaction_offset": 77,
        "store_size": 200,
        "broker_name": "broker-a",
    }
    return MessageExt(**(fields | changes))  # type: ignore[arg-type]


def test_every_field_arrives_under_its_name() -> None:
    [batch] = record_batches([message()])
    [row] = batch.to_pylist()
    assert row.pop("born_timestamp").isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert row.pop("store_timestamp").isoformat() == "2023-11-14T22:13:20.456000+00:00"
    assert row == {
        "topic": "T",
        "queue_id": 3,
        "queue_offset": 0,
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
        "stored_size": 200,
        "broker_name": "broker-a",
    }


def test_what_a_message_does_not_have_is_null() -> None:
    [batch] = record_batches([message(properties={}, broker_name="")])
    [row] = batch.to_pylist()
    assert [row[name] for name in ("unique_key", "keys", "tags", "broker_name")] == [None] * 4
    assert row["properties"] == []


@pytest.mark.parametrize("timestamp_ms", [-1, 253_402_300_800_000, 2**63 - 1, -(2**63)])
def test_a_time_of_birth_that_no_calendar_has_is_null(timestamp_ms: int) -> None:
    """A producer writes what it likes there; it must not make the rest unreadable."""
    [batch] = record_batches([message(born_timestamp=timestamp_ms)])
    assert batch.to_pylist()[0]["born_timestamp"] is None


def test_batches_are_bounded_by_rows_and_keep_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BATCH_ROWS_MAX", 4)
    batches = list(record_batches(map(message, range(10))))
    assert [batch.num_rows for batch in batches] == [4, 4, 2]
    assert [row["queue_offset"] for batch in batches for row in batch.to_pylist()] == list(range(10))


def test_batches_are_bounded_by_the_bytes_of_their_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BATCH_BODY_BYTES_MAX", 100)
    batches = record_batches([message(body=b"x" * size) for size in (60, 60, 60, 500, 1)])
    assert [batch.num_rows for batch in batches] == [2, 2, 1]


def test_nothing_gives_no_batch() -> None:
    assert list(record_batches([])) == []
