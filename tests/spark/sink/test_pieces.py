"""Pieces of a record batch: each row once, in order within its queue, none larger than allowed."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.client import EncodedBatch, Message, MessageQueue, queue_by_hash
from rocketpy.spark.sink.encoding import EncodedRows
from rocketpy.spark.sink.failures import RowFault
from rocketpy.spark.sink.pieces import PIECE_ROWS_MAX, Piece, cut, queue_choices
from tests.spark.sink.encoded import columns_of, encoded, messages


def queues_of(topic: str) -> list[MessageQueue]:
    return [MessageQueue(topic, broker, number) for broker in ("b", "a") for number in range(3)]


def pieces_of(columns: dict[str, pa.Array], *, batch_max_bytes: int = 10_000) -> list[Piece]:
    rows: EncodedRows = encoded(columns, max_message_size=100_000)
    choices = queue_choices(columns.get("queue_id"), columns.get("sharding_key"))
    return list(cut(rows, choices, queues_of, batch_max_bytes=batch_max_bytes))


def bodies(piece: Piece) -> list[bytes]:
    content = piece.content
    return [content.body] if isinstance(content, Message) else [body for body, _ in messages(content.body)]


ROW = st.tuples(
    st.sampled_from(["A", "B", "%RETRY%g"]),
    st.integers(1, 300),
    st.none() | st.integers(0, 2),
    st.none() | st.sampled_from(["x", "y", "zebra", "Ωmega"]),
    st.sampled_from([None, None, 0, 2]),
)


@given(rows=st.lists(ROW, min_size=1, max_size=40), batch_max_bytes=st.integers(60, 800))
def test_each_row_is_in_one_piece_of_its_queue_in_order(
    rows: list[tuple[str, int, int | None, str | None, int | None]], batch_max_bytes: int
) -> None:
    columns = columns_of(
        topic=[row[0] for row in rows],
        body=[b"%05d" % number + bytes(row[1]) for number, row in enumerate(rows)],
        queue_id=[row[2] for row in rows],
        sharding_key=[None if row[2] is not None else row[3] for row in rows],
        delay_level=[row[4] for row in rows],
    )
    pieces = pieces_of(columns, batch_max_bytes=batch_max_bytes)
    assert sorted(int(row) for piece in pieces for row in piece.rows) == list(range(len(rows)))
    last: dict[tuple[str, MessageQueue | None], int] = {}
    for piece in pieces:
        numbers = [int(body[:5]) for body in bodies(piece)]
        assert numbers == piece.rows.tolist()
        assert last.get((piece.topic, piece.queue), -1) < numbers[0]
        assert numbers == sorted(numbers)
        last[piece.topic, piece.queue] = numbers[-1]
        for number in numbers:
            topic, _, queue_id, key, _ = rows[number]
            assert piece.topic == topic
            expected: MessageQueue | None = None
            if queue_id is not None:
                expected = MessageQueue(topic, "a", queue_id)
            elif key is not None:
                expected = queue_by_hash(key)(queues_of(topic), Message(topic, b""))
            assert piece.queue == expected
        if isinstance(piece.content, EncodedBatch):
            assert len(piece.content.body) <= batch_max_bytes
            assert all(not rows[number][4] for number in numbers)
        else:
            delay = rows[numbers[0]][4]
            assert piece.content.properties.get("DELAY") == (str(delay) if delay else None)


def test_a_piece_has_no_more_rows_than_a_broker_decodes_at_once() -> None:
    pieces = pieces_of(columns_of(body=[b"x"] * 2500), batch_max_bytes=1_000_000)
    assert [piece.count for piece in pieces] == [PIECE_ROWS_MAX, PIECE_ROWS_MAX, 500]


def test_numbers_are_sharding_keys_as_in_java() -> None:
    keys = [5, -7, 2**40, None]
    columns = {**columns_of(body=[b"x"] * 4), "sharding_key": pa.array(keys, pa.int64())}
    found = {int(row): piece.queue for piece in pieces_of(columns) for row in piece.rows}
    queues = queues_of("T")
    assert found == {
        n: None if key is None else queue_by_hash(key)(queues, Message("T", b"")) for n, key in enumerate(keys)
    }


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"queue_id": [None, 3]}, "row 1: topic T has no queue 3, it has 0 to 2"),
        ({"queue_id": [0, -1]}, "row 1: the queue_id is -1"),
        ({"queue_id": [None, 1], "sharding_key": ["x", "x"]}, "row 1: it has a queue_id and a sharding_key"),
    ],
)
def test_a_choice_that_cannot_be_is_named(values: dict[str, list[object]], fault: str) -> None:
    with pytest.raises(RowFault, match=fault):
        pieces_of(columns_of(body=[b"x"] * 2, **values))
