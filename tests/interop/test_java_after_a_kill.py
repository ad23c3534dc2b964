"""A Java broker has the store between two lives of ours, of which the first was killed and left its recovery note.

Java does not know the note, so it is still there afterwards, of the same boot and the same file. It must not be
believed: Java has written a checkpoint of its own, and an index of what its recovery has read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy.store.recovery.recovery_note import decode_note
from tests.blackbox.ledger import Ledger
from tests.blackbox.load import Sender, key_of
from tests.blackbox.wire import Wire
from tests.interop.conftest import TARGET
from tests.interop.pair import Member

pytestmark = [pytest.mark.java, pytest.mark.skipif(TARGET == "java", reason="a Java broker leaves no note")]

TOPIC = "notes"
QUEUES = 4
WINDOW = 16
BY_JAVA = 200
KEYS_ASKED = 40


@pytest.fixture
def member(tmp_path: Path, namesrv: str) -> Iterator[Member]:
    """One broker that is ours, then Java's, then ours; a checkpoint follows each second under load."""
    settings: dict[str, object] = {"flushConsumeQueueThoroughInterval": 1_000}
    broker = Member("rocketpy", tmp_path / "broker", namesrv, "ASYNC_MASTER", settings)
    try:
        yield broker
    finally:
        broker.kill()


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_the_note_of_the_life_before_java_is_not_believed(member: Member, end: str) -> None:
    ledger = Ledger(TOPIC, QUEUES, is_ordered=False)
    member.start()
    ours = kill_under_load(member, ledger)
    note = (member.store / "recovery-note").read_bytes()

    member.kind = "java"
    member.start()
    theirs = Sender("java", member.address, TOPIC, QUEUES, WINDOW, limit=BY_JAVA)
    theirs.start()
    theirs.join()
    assert not theirs.refused, theirs.refused[:3]
    ledger.enter([theirs])
    assert (member.store / "recovery-note").read_bytes() == note, "Java leaves it alone"
    if end == "killed":
        member.kill()
    else:
        member.stop()

    member.kind = "rocketpy"
    member.start()
    with Wire(member.address) as wire:
        ledger.read_on(wire)
        # After a clean shutdown of Java's its index is trusted, with the gap that its own recovery has left in it.
        asked = [*spread_keys(theirs), *(spread_keys(ours) if end == "killed" else ())]
        member.wait(lambda: all(has_key(wire, key) for key in asked[-1:]), "it does not answer by key")
        assert not [key for key in asked if not has_key(wire, key)]
    if end == "killed":
        assert "the recovery note is not believed: " in whole_log(member)
    assert (member.store / "recovery-note").read_bytes() != note
    member.stop()


def names_index(member: Member) -> bool:
    """Return whether a checkpoint was followed by a note that names the index."""
    note = decode_note((member.store / "recovery-note").read_bytes())
    return not isinstance(note, str) and None not in (note.index, note.ends) and bool(note.ends.durable_offset)


def kill_under_load(member: Member, ledger: Ledger) -> Sender:
    """Kill a broker of ours in the middle of a load, when a checkpoint was followed by a note that names the index."""
    sender = Sender("ours", member.address, TOPIC, QUEUES, WINDOW)
    sender.start()
    member.wait(lambda: names_index(member), "it writes no note that names the index")
    member.kill()
    sender.join()
    assert ledger.enter([sender]), member.log()
    return sender


def spread_keys(sender: Sender) -> list[str]:
    """Return the keys of some messages, from the first to the last one that was acknowledged."""
    acknowledged = sender.acknowledged
    step = max(1, len(acknowledged) // KEYS_ASKED)
    return [key_of(each.sender, each.sequence) for each in acknowledged[::step]]


def has_key(wire: Wire, key: str) -> bool:
    """Whether the index leads to one message with a key, and to no other."""
    return [each.properties.get("KEYS") for each in wire.query(TOPIC, key)] == [key]


def whole_log(member: Member) -> str:
    """Return all that our lives of a broker have printed."""
    return (member.directory / "pair.log").read_text(errors="replace")
