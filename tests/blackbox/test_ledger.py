"""The ledger finds what it is there to find: a check that no planted fault fails proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import attrs
import pytest

from tests.blackbox.ledger import Ledger
from tests.blackbox.load import Acknowledged, Sender, body_of, key_of, parse_body
from tests.blackbox.wire import Record, Wire

TOPIC = "Ledger"


@attrs.define
class FakeWire:
    """Answers from a list of records: the only queue of the topic."""

    records: list[Record]

    def max_offset(self, topic: str, queue_id: int) -> int:
        return len(self.records)

    def pull_all(self, topic: str, queue_id: int, queue_offset: int, end: int) -> Iterator[Record]:
        return iter(self.records[queue_offset:end])


def record(queue_offset: int, sequence: int, sender: str = "s") -> Record:
    body = body_of(sender, sequence)
    return Record(0, queue_offset, 1000 * queue_offset, body, {"KEYS": key_of(sender, sequence)})


def read(records: list[Record], ledger: Ledger, *, again: bool = False) -> None:
    wire = cast(Wire, FakeWire(records))
    if again:
        ledger.read_again(wire)
    else:
        ledger.read_on(wire)


@pytest.fixture
def ledger() -> Ledger:
    """Four messages were sent; those at the offsets 0, 1 and 2 were acknowledged."""
    sender = Sender("s", "", TOPIC, 1, 1, sent_count=4)
    sender.acknowledged += [Acknowledged(0, each, "s", each) for each in range(3)]
    found = Ledger(TOPIC, 1)
    found.enter([sender])
    return found


def test_what_is_right_passes(ledger: Ledger) -> None:
    records = [record(each, each) for each in range(4)]
    read(records[:3], ledger)
    read(records, ledger)
    read(records, ledger, again=True)
    assert ledger.found_count == 4


def changed(position: int) -> Record:
    """Return the second record with a byte of its body changed."""
    body = bytearray(body_of("s", 1))
    body[position] ^= 1
    return attrs.evolve(record(1, 1), body=bytes(body))


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        ([record(0, 0), record(1, 1)], "1 of 3 acknowledged messages are lost"),
        ([record(0, 0), record(1, 2), record(2, 1)], "expected"),
        ([record(0, 0), record(1, 1), record(2, 2), record(3, 1)], "is there twice"),
        ([record(0, 0), record(1, 1), record(2, 2), record(3, 4)], "was never sent"),
        ([record(0, 0), record(1, 1), record(2, 3)], "expected"),
        ([record(0, 0), record(1, 1), record(3, 2)], "at the place"),
        *(([record(0, 0), changed(position), record(2, 2)], "the body of .* has changed") for position in (0, -1)),
        ([record(0, 0), changed(3), record(2, 2)], "was never sent"),
        ([record(0, 0), attrs.evolve(record(1, 1), properties={"KEYS": "another"}), record(2, 2)], "another"),
    ],
    ids=[
        *("lost", "other order", "twice", "never sent", "another one", "a gap in the offsets"),
        *("first byte", "last byte", "a byte of the number", "properties"),
    ],
)
def test_each_fault_is_found(ledger: Ledger, records: list[Record], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        read(records, ledger)


def test_an_unacknowledged_message_may_not_pass_an_earlier_one(ledger: Ledger) -> None:
    records = [record(0, 0), record(1, 1), record(2, 2)]
    other = Sender("t", "", TOPIC, 1, 1, sent_count=9)
    ledger.enter([other])
    read([*records, record(3, 5, "t")], ledger)
    with pytest.raises(AssertionError, match="follows a later one"):
        read([*records, record(3, 5, "t"), record(4, 4, "t")], ledger)


def test_what_was_read_before_may_not_change(ledger: Ledger) -> None:
    other = Sender("t", "", TOPIC, 1, 1, sent_count=9)
    ledger.enter([other])
    records = [record(each, each) for each in range(3)]
    read([*records, record(3, 3)], ledger)
    with pytest.raises(AssertionError, match="has changed"):
        read([*records, record(3, 5, "t")], ledger, again=True)


def test_a_place_is_given_once(ledger: Ledger) -> None:
    sender = Sender("t", "", TOPIC, 1, 1, sent_count=1, acknowledged=[Acknowledged(0, 2, "t", 0)])
    with pytest.raises(AssertionError, match="given to"):
        ledger.enter([sender])


def test_a_body_says_who_sent_it() -> None:
    assert {parse_body(body_of("r1s2", each)) for each in range(50)} == {("r1s2", each) for each in range(50)}
    with pytest.raises(AssertionError, match="was never sent"):
        parse_body(b"\0\xff")
