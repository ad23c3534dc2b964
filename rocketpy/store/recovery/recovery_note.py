"""The recovery note: what a start may trust after the broker was killed, though no sync has made it durable.

A kill takes nothing that was written: the page cache outlives the process. So after a kill the unfinished index file is
as good as after a clean shutdown, but for the burst that was being written, and the units of queues are without holes,
each but the last one of a queue whole.
After a loss of power neither is true. Nothing else in a store tells the two apart, and a start without the note takes
every crash for a loss of power: it reads the whole log again for the unfinished index file.

The broker writes the note when it opens the store, and after each checkpoint. It is never synced, because it must not
outlive what it vouches for. One line of text in one sector, padded with blanks::

    1 <identity> <durableOffset> <unitCount> <index file> <its identity> <its entries> <its end> <crc>

It is believed only if

- it is whole, of this version, and the identity is that of its own file now (:meth:`Disk.identity`): same boot, same
  disk, not a copy;
- no later than the checkpoint: a Java broker that had the store since has written one without our offsets;
- no sync failed in that run, and no recovery was killed since.

Then the index files are compared with it, one by one (:mod:`rocketpy.store.index.file_list`). The log is walked from
the checkpoint's offset on in any case. A note that is missing, torn, stale or wrong costs time.
"""

from __future__ import annotations

import re
from zlib import crc32

import attrs

from rocketpy.errors import ShortageError, StoreError
from rocketpy.store.disk.interface import Disk
from rocketpy.store.index.file_list import NotedIndexFile
from rocketpy.store.recovery.checkpoint import DurableEnds

NOTE_FIELDS = (
    "version",
    "identity",
    "durable_offset",
    "unit_count",
    "index_file",
    "index_identity",
    "index_count",
    "index_end",
    "crc",
)
"""The words of the note's line, in their order."""

NOTE_SIZE = 512
_VERSION = "1"
_NONE = "-"
_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_IDENTITY_SIZE_MAX = 150
"""Longer ones are not noted: two of them, names and numbers must fit into the sector."""


@attrs.frozen
class RecoveryNote:
    """A note that is whole: what the last run wrote, to be believed or not."""

    identity: str
    """Of the file that it was written to, when that was."""
    ends: DurableEnds | None
    """Of the checkpoint before it, without the end of the log."""
    index: NotedIndexFile | None


@attrs.frozen
class RecoveryNoteFile:
    """The file of one store's note."""

    _disk: Disk
    _path: str

    def write(self, ends: DurableEnds | None, index: NotedIndexFile | None) -> None:
        """Replace the note; not durable, on purpose. In a shortage, or where nothing has an identity, there is none."""
        try:
            file = self._disk.open(self._path, create=True)
        except ShortageError:
            return
        try:
            file.write(0, encode_note(RecoveryNote(self._disk.identity(self._path), ends, index)))
        except ShortageError:
            return
        finally:
            file.close()

    def remove(self) -> None:
        """Remove the note: before anything is done to the store that it does not know."""
        if self._disk.exists(self._path):
            self._disk.unlink(self._path)

    def read(self, ends: DurableEnds | None) -> RecoveryNote | str:
        """Return the note if it is to be believed beside a checkpoint, else why not, as the end of a sentence."""
        try:
            if not self._disk.exists(self._path):
                return "there is none"
            identity = self._disk.identity(self._path)
            file = self._disk.open(self._path, read_only=True)
            try:
                content = file.read(0, NOTE_SIZE + 1)
            finally:
                file.close()
        except StoreError as error:
            return f"it cannot be read: {error}"
        note = decode_note(content)
        return note if isinstance(note, str) else _objection(note, identity, ends) or note


def read_believed(
    note_file: RecoveryNoteFile, ends: DurableEnds | None, *, sync_failed: bool, recovery_was_killed: bool
) -> RecoveryNote | str:
    """Return the note of the last run if a start believes it, before it looks at the index; else why not."""
    if sync_failed:
        return "a sync failed in the last run"
    if recovery_was_killed:
        return "a recovery was killed since"
    return note_file.read(ends)


def _objection(note: RecoveryNote, identity: str, ends: DurableEnds | None) -> str:
    """Return why a note is not to be believed, empty if it is."""
    if not identity or note.identity != identity:
        return "the machine was restarted since, or the files were copied"
    if note.ends is None:
        return ""  # it is older than every checkpoint
    if ends is None:
        return "the checkpoint was written by another program"
    if note.ends.durable_offset > ends.durable_offset:
        return f"it is newer than the checkpoint: {note.ends.durable_offset}, found {ends.durable_offset}"
    return ""


def encode_note(note: RecoveryNote) -> bytes:
    """Return the content of the file; for a note without an identity one that nothing believes."""
    ends, index = note.ends, note.index
    if len(note.identity) > _IDENTITY_SIZE_MAX or (index is not None and len(index.identity) > _IDENTITY_SIZE_MAX):
        note, ends, index = RecoveryNote("", None, None), None, None
    words = [_VERSION, note.identity or _NONE]
    words += [_NONE] * 2 if ends is None else [str(ends.durable_offset), str(ends.unit_count)]
    if index is None:
        words += [_NONE] * 4
    else:
        words += [index.name, index.identity or _NONE, str(index.index_count), str(index.end_physical_offset)]
    text = " ".join(words)
    line = f"{text} {crc32(text.encode()):08x}"
    return line.ljust(NOTE_SIZE - 1).encode() + b"\n"


def decode_note(content: bytes) -> RecoveryNote | str:
    """Return the note that a file holds, or why it holds none."""
    try:
        line = content.decode("ascii")
    except UnicodeDecodeError:
        return "it is not text"
    words = line.split()
    if not words or words[0] != _VERSION:
        return f"expected version {_VERSION}, found {words[0][:20]!r}" if words else "it is empty"
    if len(words) != len(NOTE_FIELDS) or f"{crc32(' '.join(words[:-1]).encode()):08x}" != words[-1]:
        return "its checksum is wrong"
    _, identity, durable_offset, unit_count, name, index_identity, index_count, index_end, _ = words
    ends, index = None, None
    if durable_offset != _NONE:
        if not _are_numbers(durable_offset, unit_count):
            return f"expected numbers, found {durable_offset[:20]!r} and {unit_count[:20]!r}"
        ends = DurableEnds(int(durable_offset), int(durable_offset), int(unit_count))
    if name != _NONE:
        if not _are_numbers(index_count, index_end):
            return f"expected numbers, found {index_count[:20]!r} and {index_end[:20]!r}"
        index = NotedIndexFile(name, index_identity, int(index_count), int(index_end))
    return RecoveryNote("" if identity == _NONE else identity, ends, index)


def _are_numbers(*words: str) -> bool:
    return all(map(_NUMBER.fullmatch, words))
