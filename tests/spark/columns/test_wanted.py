"""Records that a filter wants, compared with the filter applied to decoded messages."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_message, encode_message
from rocketpy.spark.columns import wanted
from rocketpy.spark.columns.records import find_records
from rocketpy.spark.columns.wanted import select_wanted
from rocketpy.spark.filters import EVERYTHING, MessageFilter, Range
from tests.spark.columns.oracle import is_wanted

MESSAGES = [
    MessageExt(
        f"T{number % 3}",
        b"body",
        properties,
        queue_id=number % 2,
        queue_offset=number,
        physical_offset=number * 100,
        born_timestamp=born,
        store_timestamp=1000 + number,
        store_host="[::1]:5" if number % 2 else "1.2.3.4:5",
    )
    for number, (properties, born) in enumerate(
        [
            ({}, 0),
            ({"TAGS": "A", "KEYS": "k1 k2", "UNIQ_KEY": "u1"}, -1),
            ({"TAGS": "B", "KEYS": " k2 "}, 253_402_300_799_999),
            ({"TAGS": "A", "UNIQ_KEY": "k2"}, 253_402_300_800_000),
            ({"KEYS": "k1  k3"}, 500),
            ({"TAGS": "A B"}, -(2**63)),
        ]
    )
]
CONTENT = b"".join(map(encode_message, MESSAGES))


def wanted_offsets(wants: MessageFilter) -> list[int]:
    """Queue offsets of the wanted messages, which are checked against the plain way."""
    block = find_records(CONTENT).block
    offsets = [
        decode_message(CONTENT, start).queue_offset for start in select_wanted(block, wants).block.starts.tolist()
    ]
    assert offsets == [each.queue_offset for each in MESSAGES if is_wanted(wants, each)]
    return offsets


@pytest.mark.parametrize(
    ("wants", "offsets"),
    [
        (EVERYTHING, [0, 1, 2, 3, 4, 5]),
        (MessageFilter(topics=frozenset({"T1", "T2"})), [1, 2, 4, 5]),
        (MessageFilter(topics=frozenset()), []),
        (MessageFilter(without_topics=frozenset({"T1", "U"})), [0, 2, 3, 5]),
        (MessageFilter(queue_ids=frozenset({1, 2**40})), [1, 3, 5]),
        (MessageFilter(queue_ids=frozenset()), []),
        (MessageFilter(queue_offsets=Range(2, 5)), [2, 3, 4]),
        (MessageFilter(queue_offsets=Range(-(2**70), 2**70)), [0, 1, 2, 3, 4, 5]),
        (MessageFilter(queue_offsets=Range(5, 2)), []),
        (MessageFilter(physical_offsets=Range(end=100)), [0]),
        (MessageFilter(store_timestamps_ms=Range(1004)), [4, 5]),
        (MessageFilter(born_timestamps_ms=Range(end=501)), [0, 4]),
        (MessageFilter(born_timestamps_ms=Range(501)), [2]),
        (MessageFilter(tags=frozenset({"A"})), [1, 3]),
        (MessageFilter(tags=frozenset({"A B", "B"})), [2, 5]),
        (MessageFilter(tags=frozenset()), []),
        (MessageFilter(keys=frozenset({"k2"})), [1, 2, 3]),
        (MessageFilter(keys=frozenset({"u1", "k3"})), [1, 4]),
        (MessageFilter(keys=frozenset({""})), []),
        (MessageFilter(tags=frozenset({"A"}), keys=frozenset({"k2"}), topics=frozenset({"T1"})), [1]),
    ],
)
def test_wanted_are_those_that_meet_every_condition(wants: MessageFilter, offsets: list[int]) -> None:
    assert wanted_offsets(wants) == offsets


def test_properties_are_not_looked_at_where_no_message_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("properties were taken apart")

    monkeypatch.setattr(wanted, "read_entries", fail)
    assert wanted_offsets(MessageFilter(topics=frozenset({"U"}), tags=frozenset({"A"}))) == []


def test_a_pulled_record_has_no_file() -> None:
    records = select_wanted(find_records(CONTENT).block, EVERYTHING)
    assert records.place(3) == ("a pulled record", 300)
