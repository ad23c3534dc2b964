"""Topics that were deleted, and up to which place in the log, persisted in ``deletedTopics.json``.

::

    {"deletedTopics":{"TopicA":{"digest":"9f86...","offset":374,"size":187}}}

A deletion is not in the log: the topic's records before it are there until their files expire, and nothing in a log
tells that they are gone. So a slave that has the log would bring the topic back with its messages when it is promoted.
The table is what says it: the records of a topic up to a mark (:mod:`rocketpy.store.ha.log_mark`) are deleted ones. It
is on disk before a deletion is answered, a slave takes it with the topics, and each start carries out what is left of
it. Nothing is ever deleted because a table of topics lacks a topic: the table of a master with a new disk lacks all.

A deletion counts on a log that has the record of its mark. One that ends before it, and is a beginning of that log, has
deleted records of the topic only. A topic may be made again; a new deletion then replaces the earlier one.

Deletions are forgotten with the last file of the log that has such records, once no loss of power can bring the queues
back. Beyond ``DELETED_TOPICS_MAX`` those come first that were made first: a slave that has not heard of one would bring
its topic back.

Delayed messages and half messages are records of their topics, too: what a deletion means is not delivered later, where
it would bring a queue back that nothing ever removes.

While a deletion is known, late commits of the topic's old consumers are not taken: any while the topic does not exist,
and when it was made again those past the end of their queue, which none of its consumers can have reached.

Compatibility: RocketMQ (4.9.8) has no such file, and ignores it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol import fastjson
from rocketpy.protocol.fastjson.file_notes import FileNotes
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk
from rocketpy.store.ha.log_mark import LogMark, marks_in

DELETED_TOPICS_MAX = 20_000
"""Bound of the deletions that are kept; all of them fit an answer."""

_KEY = "deletedTopics"
_HEAD, _TAIL = f'{{\n\t"{_KEY}":{{', "\n\t}\n}"


class DeletedTopics:
    """The deletions of one broker."""

    def __init__(self, *, path: str, disk: Disk, run_blocking: RunBlocking) -> None:
        self._marks: dict[str, LogMark] = {}  # the oldest deletion first
        # The entries of the file. It is written for each deletion, with all those before, and encoding thousands of
        # them again takes a quarter of a second.
        self._pieces: dict[str, str] = {}
        self.unfinished: set[str] = set()
        """Topics with records before their mark that have not arrived yet, on a slave."""
        self._begun: set[str] = set()  # their marks are being made
        self.stored = StoredTable(
            path=path, disk=disk, run_blocking=run_blocking, snapshot=self._snapshot, joined=_joined
        )

    def load(self) -> None:
        """Read the file into the empty table; StartError when file and backup are malformed."""
        self._marks = self.stored.load(_decode_file) or {}
        self._pieces = {topic: _piece(topic, mark) for topic, mark in self._marks.items()}

    def __contains__(self, topic: str) -> bool:
        return topic in self._marks

    def __len__(self) -> int:
        return len(self._marks)

    def __iter__(self) -> Iterator[tuple[str, LogMark]]:
        return iter(list(self._marks.items()))

    def mark_of(self, topic: str) -> LogMark | None:
        """Return the mark of a topic's deletion; None if none is known."""
        return self._marks.get(topic)

    def has_record(self, topic: str, physical_offset: int) -> bool:
        """Whether a topic was deleted with a record of this offset, also while that is being done."""
        mark = self._marks.get(topic)
        return mark is not None and (mark.is_beginning or physical_offset < mark.offset)

    @contextmanager
    def begun(self, topics: Collection[str]) -> Iterator[None]:
        """Note deletions whose marks are made in the block: none of them is forgotten before its mark is added."""
        for topic in topics:
            self.add(topic, LogMark())
        self._begun.update(topics)
        try:
            yield
        finally:
            self._begun.difference_update(topics)

    def add(self, topic: str, mark: LogMark) -> None:
        """Note a deletion, in place of an earlier one of the topic."""
        self._marks.pop(topic, None)
        self._pieces.pop(topic, None)
        self.unfinished.discard(topic)
        while len(self._marks) >= DELETED_TOPICS_MAX:
            self.drop(next(iter(self._marks)))
        self._marks[topic] = mark
        self._pieces[topic] = _piece(topic, mark)
        self.stored.changed()

    def drop(self, topic: str) -> None:
        """Forget a deletion."""
        self.unfinished.discard(topic)
        self._pieces.pop(topic, None)
        if self._marks.pop(topic, None) is not None:
            self.stored.changed()

    def expired(self, log_min_offset: int) -> dict[str, LogMark]:
        """Return the deletions of records that the log has no more."""
        return {
            topic: mark
            for topic, mark in self._marks.items()
            if mark.offset <= log_min_offset and topic not in self._begun
        }

    def _snapshot(self) -> list[str]:
        return list(self._pieces.values())


def _piece(topic: str, mark: LogMark) -> str:
    """Return the entry of a deletion as it is in the file, from its line break on."""
    return fastjson.dumps({_KEY: {topic: mark.as_json()}}, pretty=True)[len(_HEAD) : -len(_TAIL)]


def _joined(pieces: list[str]) -> str:
    return _HEAD + ",".join(pieces) + (_TAIL if pieces else "}\n}")


def _decode_file(content: object, notes: FileNotes) -> dict[str, LogMark]:
    marks = marks_in(content, _KEY, notes)
    if len(marks) > DELETED_TOPICS_MAX:
        raise RemoteProtocolError(f"{_KEY}: expected at most {DELETED_TOPICS_MAX} topics, found {len(marks)}")
    return marks
