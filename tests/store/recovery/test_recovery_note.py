"""The recovery note: believed where it is true, and a longer walk in every other case."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.store.index.file_list import NotedIndexFile
from rocketpy.store.recovery.checkpoint import DurableEnds
from rocketpy.store.recovery.recovery_note import (
    NOTE_FIELDS,
    NOTE_SIZE,
    RecoveryNote,
    RecoveryNoteFile,
    decode_note,
    encode_note,
)
from rocketpy.testing.sim.disk import SimDisk

ENDS = DurableEnds(log_flushed_offset=4711, durable_offset=4711, unit_count=42)
INDEX = NotedIndexFile("20260131235959123", "1/7", 12, 4095)
PATH = "/recovery-note"
IDENTITIES = st.text("abc0123456789/:-", min_size=2, max_size=100)
NUMBERS = st.integers(0, (1 << 63) - 1)
NOTES = st.builds(
    RecoveryNote,
    identity=IDENTITIES,
    ends=st.none() | st.tuples(NUMBERS, NUMBERS).map(lambda pair: DurableEnds(pair[0], *pair)),
    index=st.none() | st.builds(NotedIndexFile, st.just(INDEX.name), IDENTITIES, NUMBERS, NUMBERS),
)


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def written(disk: SimDisk) -> RecoveryNoteFile:
    note_file = RecoveryNoteFile(disk, PATH)
    note_file.write(ENDS, INDEX)
    return note_file


def content(disk: SimDisk) -> bytes:
    return disk.peek("/")["recovery-note"]


def overwrite(disk: SimDisk, position: int, some: bytes) -> None:
    file = disk.open(PATH)
    file.write(position, some)
    file.close()


@given(NOTES)
def test_what_is_written_is_read(note: RecoveryNote) -> None:
    assert decode_note(encode_note(note)) == note
    assert len(encode_note(note)) == NOTE_SIZE


@given(NOTES, st.data())
def test_a_torn_note_is_never_another_one(note: RecoveryNote, data: st.DataObject) -> None:
    whole = encode_note(note)
    end = len(whole.rstrip())
    position = data.draw(st.integers(0, end - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[position]))
    damaged = whole[:position] + bytes([other]) + whole[position + 1 :]
    found = decode_note(damaged)
    assert isinstance(found, str) or found == note
    assert isinstance(decode_note(whole[:position]), str)


@given(st.binary(max_size=600))
def test_random_bytes_are_no_note(some: bytes) -> None:
    assert isinstance(decode_note(some), str)


def test_after_a_kill_it_is_believed(disk: SimDisk) -> None:
    note_file = written(disk)
    disk.kill_process()
    note = note_file.read(ENDS)
    assert note == RecoveryNote(disk.identity(PATH), ENDS, INDEX)
    later = DurableEnds(9000, 9000, 50)
    assert note_file.read(later) == note, "the checkpoint was written, and its note was not: that is no reason to doubt"


def test_after_a_loss_of_power_it_is_not_believed(disk: SimDisk) -> None:
    """Though it may be there: nothing that it vouches for needs to be."""
    note_file = written(disk)
    disk.sync_directory("/")
    file = disk.open(PATH)
    file.sync()
    file.close()
    disk.lose_power(lambda count: count - 1)
    assert note_file.read(ENDS) == "the machine was restarted since, or the files were copied"


def test_a_copy_is_not_believed(disk: SimDisk) -> None:
    note_file = written(disk)
    copied = content(disk)
    disk.unlink(PATH)
    file = disk.open(PATH, create=True)
    file.write(0, copied)
    file.close()
    assert note_file.read(ENDS) == "the machine was restarted since, or the files were copied"


def test_where_files_have_no_identity_no_note_is_believed() -> None:
    class Anonymous(SimDisk):
        def identity(self, path: str) -> str:
            return ""

    assert written(Anonymous()).read(ENDS) == "the machine was restarted since, or the files were copied"


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        (None, "the checkpoint was written by another program"),
        (DurableEnds(4000, 4000, 1), "it is newer than the checkpoint: 4711, found 4000"),
    ],
)
def test_a_note_from_the_future_is_not_believed(disk: SimDisk, ends: DurableEnds | None, why: str) -> None:
    """A Java broker writes a checkpoint without our offsets; an older checkpoint was put back by hand."""
    assert written(disk).read(ends) == why


def test_a_note_that_is_older_than_every_checkpoint_is_believed(disk: SimDisk) -> None:
    """A store that is new has none yet."""
    note_file = RecoveryNoteFile(disk, PATH)
    note_file.write(None, None)
    assert note_file.read(None) == note_file.read(ENDS) == RecoveryNote(disk.identity(PATH), None, None)


def test_why_a_note_is_none(disk: SimDisk) -> None:
    note_file = RecoveryNoteFile(disk, PATH)
    assert note_file.read(ENDS) == "there is none"
    written(disk)
    overwrite(disk, 0, b"2")
    assert note_file.read(ENDS) == "expected version 1, found '2'"
    written(disk)
    overwrite(disk, 10, b"x")
    assert note_file.read(ENDS) == "its checksum is wrong"
    overwrite(disk, 0, b"\xff")
    assert note_file.read(ENDS) == "it is not text"
    overwrite(disk, 0, b" " * NOTE_SIZE)
    assert note_file.read(ENDS) == "it is empty"
    disk.unlink(PATH)
    disk.make_directories(PATH)
    assert str(note_file.read(ENDS)).startswith("it cannot be read: ")


def test_a_note_has_the_words_that_the_documentation_names(disk: SimDisk) -> None:
    written(disk)
    words = content(disk).decode().split()
    assert len(words) == len(NOTE_FIELDS)
    identity = disk.identity(PATH)
    assert words[:-1] == ["1", identity, "4711", "42", "20260131235959123", "1/7", "12", "4095"]


def test_identities_that_are_too_long_make_a_note_that_nothing_believes() -> None:
    note = RecoveryNote("i" * 200, ENDS, INDEX)
    assert decode_note(encode_note(note)) == RecoveryNote("", None, None)
    assert decode_note(
        encode_note(attrs.evolve(note, identity="1/2", index=attrs.evolve(INDEX, identity="i" * 200)))
    ) == (RecoveryNote("", None, None))


def test_a_full_disk_or_no_descriptor_leaves_no_note(disk: SimDisk) -> None:
    full = SimDisk(capacity_bytes=0)
    RecoveryNoteFile(full, PATH).write(ENDS, INDEX)
    assert isinstance(RecoveryNoteFile(full, PATH).read(ENDS), str)
    short = SimDisk(descriptors_max=0)
    RecoveryNoteFile(short, PATH).write(ENDS, INDEX)
    assert not short.exists(PATH)


def test_removing_it_twice_is_harmless(disk: SimDisk) -> None:
    note_file = written(disk)
    note_file.remove()
    note_file.remove()
    assert note_file.read(ENDS) == "there is none"
