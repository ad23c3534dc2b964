"""The judge of a soak finds what is planted in journals."""

from __future__ import annotations

from pathlib import Path

from bench.soak.holdings import DESCRIPTORS_MORE, MEMORY_MORE_BYTES, Holdings
from bench.soak.journal import Journal, JournalReader
from bench.soak.judge import ORDERED_TOPIC, PLAIN_TOPIC, TRANSACTION_TOPIC, Group, Sent


def sent_of(*lines: str) -> Sent:
    sent = Sent()
    sent.add([line.split() for line in lines])
    return sent


def group_of(*lines: str, is_orderly: bool = False) -> Group:
    group = Group("g", (ORDERED_TOPIC,) if is_orderly else (PLAIN_TOPIC, TRANSACTION_TOPIC), is_orderly=is_orderly)
    group.add([["got", *line.split()] for line in lines])
    return group


def got(sequence: int, nanoseconds: int, queue_offset: int, *, queue_id: int = 0) -> str:
    return f"{ORDERED_TOPIC} s {sequence} {nanoseconds} broker-a {queue_id} {queue_offset}"


def test_what_was_acknowledged_and_not_consumed_is_lost() -> None:
    sent = sent_of(f"ack {PLAIN_TOPIC} s 0", f"ack {PLAIN_TOPIC} s 1", f"fail {PLAIN_TOPIC} s 2 RemotingTimeoutError")
    group = group_of(f"{PLAIN_TOPIC} s 0 10 broker-a 0 0")
    assert group.violations(sent) == ["g: 1 messages were acknowledged and not consumed: s 1"]
    group.add([["got", *f"{PLAIN_TOPIC} s 1 11 broker-a 0 1".split()]])
    assert group.violations(sent) == []
    assert sent.failed == {"RemotingTimeoutError": 1}


def test_what_was_not_acknowledged_may_be_consumed_and_repeats_are_counted() -> None:
    sent = sent_of(f"fail {PLAIN_TOPIC} s 0 RemotingTimeoutError")
    group = group_of(*[f"{PLAIN_TOPIC} s 0 10 broker-a 0 {offset}" for offset in (0, 0, 1)])
    assert group.violations(sent) == []
    assert group.repeat_count == 2


def test_transactions_are_consumed_exactly_when_they_are_committed() -> None:
    sent = sent_of("begin s 0", "begin s 1", "begin s 2", "undone s 4")
    consumed = [f"{TRANSACTION_TOPIC} s {sequence} 10 broker-a 0 {sequence}" for sequence in (0, 2)]
    assert group_of(*consumed).violations(sent) == []
    assert group_of(consumed[0]).violations(sent) == ["g: 1 messages were acknowledged and not consumed: s 2"]
    for wrong in (1, 4, 6):  # rolled back, not begun, never sent
        group = group_of(*consumed, f"{TRANSACTION_TOPIC} s {wrong} 10 broker-a 0 9")
        assert group.violations(sent) == [f"g: 1 transactions were not committed: s {wrong}"]


def test_repeats_keep_the_order_of_a_queue() -> None:
    group = group_of(got(0, 1, 0), got(1, 2, 1), got(0, 3, 0), got(1, 4, 1), got(2, 5, 2), is_orderly=True)
    assert group.violations(Sent()) == []


def test_a_message_before_its_turn_breaks_the_order() -> None:
    group = group_of(got(0, 1, 0), got(2, 2, 2), got(1, 3, 1), is_orderly=True)
    first, second = group.violations(Sent())
    assert "offset 2 was handled before 1" in first
    assert "('s', 1)" in second


def test_the_order_is_that_of_the_clock_and_not_of_the_journals() -> None:
    group = group_of(got(1, 2, 1), got(0, 1, 0), got(5, 1, 0, queue_id=1), is_orderly=True)
    assert group.violations(Sent()) == []


def test_what_a_process_holds_may_grow_a_little() -> None:
    before = Holdings(30 << 20, 12)
    assert Holdings(before.resident_bytes + MEMORY_MORE_BYTES, 12 + DESCRIPTORS_MORE).excess(before) == []
    assert len(Holdings(before.resident_bytes + MEMORY_MORE_BYTES + 1, 13 + DESCRIPTORS_MORE).excess(before)) == 2


def test_a_journal_is_read_line_by_line_while_it_grows(tmp_path: Path) -> None:
    reader = JournalReader(tmp_path / "journal")
    assert reader.read_on() == []
    journal = Journal(tmp_path / "journal")
    journal.write("ack", PLAIN_TOPIC, "s", 0)
    assert reader.read_on() == [["ack", PLAIN_TOPIC, "s", "0"]]
    with (tmp_path / "journal").open("a") as file:
        file.write(f"ack {PLAIN_TOPIC[:5]}")
    assert reader.read_on() == []
    with (tmp_path / "journal").open("a") as file:
        file.write(f"{PLAIN_TOPIC[5:]} s 1\n")
    assert reader.read_on() == [["ack", PLAIN_TOPIC, "s", "1"]]
