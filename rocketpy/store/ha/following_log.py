"""The log of a slave: records of the master are stored as they come, and dispatched to queues and index at once.

The bytes are the master's, up to the BLANK at the end of each file. Units and index keys are made by the functions that
recovery uses, so that they are what a recovery of this log would make. A record whose queue offset is 0 again begins
its queue again: the topic was deleted on the master. One past the end of a queue begins that queue there: the records
before it are not in this log. A queue offset that does neither, and does not follow the queue's last record, is
refused, because recovery would end the log there.

For each piece room is made first: in the log, in each queue and in the index. Then the appender writes in its order:
log, units, keys, notes of arrival. After a shortage a whole number of records is stored, mostly none of the piece;
``end_offset`` says how many. Nothing here awaits. The thresholds of disk usage at which a master refuses messages do
not end replication; a disk without space does.

Compatibility: ``CommitLog.appendData`` and ``ReputMessageService`` of a slave (4.9.8). RocketMQ drops the units of a
topic that was deleted and created again until it has as many messages as before, and dispatches what it cannot store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import attrs

from rocketpy.errors import RemoteProtocolError, ShortageError, StoreError
from rocketpy.protocol.properties import PROPERTY_INNER_MULTI_DISPATCH, decode_properties, index_keys_of
from rocketpy.protocol.property_columns import PropertyColumns
from rocketpy.protocol.stored_message import BLANK_SIZE_MIN, RECORD_HEAD, Buffer, CheckedMessage, check_message
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store import layout
from rocketpy.store.append.appender import MessageAppender
from rocketpy.store.ha.verified_stream import VerifiedPiece, VerifiedRecord
from rocketpy.store.index.feed import IndexWork
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.log.plain_records import QueueRun
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.record_offsets import NamedUnits, follows, queue_offsets_of
from rocketpy.store.queue.record_units import RecordUnits, may_take
from rocketpy.store.queue.table import ConsumeQueueTable

_MULTI_DISPATCH = PROPERTY_INNER_MULTI_DISPATCH.encode()
_pack_unit = layout.UNIT.pack
_NO_QUEUES: Mapping[int, ConsumeQueue] = {}
_FEW = 8
"""So many records take less time one by one than column by column."""


@attrs.define
class _Plain:
    """What is stored with records that continue queues."""

    count: int
    """Of the records."""
    units: Mapping[ConsumeQueue, list[bytes]]
    work: Sequence[IndexWork]
    timestamp_ms: int
    """The latest storeTimestamp."""


_NOTHING = _Plain(0, {}, (), 0)


class FollowingCommitLog:
    """The log of one open store; see :class:`rocketpy.store.ha.client.FollowingLog`.

    ``end_burst`` is the store's; ``flush_soon`` requests a flush where none comes by itself.
    """

    def __init__(
        self,
        *,
        commit_log: CommitLog,
        queues: ConsumeQueueTable,
        appender: MessageAppender,
        units: RecordUnits,
        is_multi_dispatch: bool,
        end_burst: Callable[[], None],
        flush_soon: Callable[[], None],
    ) -> None:
        self._commit_log = commit_log
        self._queues = queues
        self._appender = appender
        self._units = units
        self._is_multi_dispatch = is_multi_dispatch
        self._end_burst = end_burst
        self._flush_soon = flush_soon
        self._failure: StoreError | None = None

    @property
    def end_offset(self) -> int:
        """The end of the log, in bytes; 0 while it is empty."""
        return 0 if self.is_empty else self._commit_log.wrote_offset

    @property
    def is_empty(self) -> bool:
        """Whether it has no record: it then begins wherever the first piece begins a file."""
        return self._commit_log.wrote_offset == self._commit_log.min_offset

    @property
    def file_size(self) -> int:
        """The size of new files, in bytes; it must be the master's."""
        return self._commit_log.file_size

    def append(self, piece: VerifiedPiece) -> None:
        """Store a piece at the end, and dispatch its records: readers see them on return.

        RemoteProtocolError, naming the offset, for what cannot be the next piece of this log. ShortageError passes. Of
        the records of a piece that is refused, or finds no room, those before ``end_offset`` are stored. Any other
        StoreError is final, for all later pieces too.
        """
        if self._failure is not None:
            raise self._failure
        try:
            self._check_place(piece)
            if not piece.records:
                self._close_file(piece)
            self._append_records(piece)
        except ShortageError:
            raise
        except StoreError as error:
            self._failure = error
            self._appender.refuse_all(f"a write failed: {error}")
            raise
        self._flush_soon()

    # ---- the log --------------------------------------------------------------------------------------------------

    def _check_place(self, piece: VerifiedPiece) -> None:
        """Refuse a piece that does not continue the log, or does not fit its file; begin the file if it is new."""
        commit_log = self._commit_log
        if piece.offset != commit_log.wrote_offset or not commit_log.files:
            self._begin_at(piece.offset)
        end_of_file = commit_log.end_of_file
        if piece.offset == end_of_file:
            self._appender.add_file()
            end_of_file = commit_log.end_of_file
        fits = piece.end_offset <= end_of_file - BLANK_SIZE_MIN if piece.records else piece.end_offset == end_of_file
        if not fits:
            raise RemoteProtocolError(
                f"replicated log at {piece.offset}: expected {'records' if piece.records else 'a BLANK'} up to the end "
                f"of the file at {end_of_file}, found {len(piece.data)} bytes: it has "
                f"{end_of_file - commit_log.last_file_offset} bytes here and another size on the master; "
                f"mappedFileSizeCommitLog is {commit_log.file_size} here, and must be the same on both sides"
            )

    def _begin_at(self, offset: int) -> None:
        """Let an empty log begin at an offset; refuse an offset at which this log does not go on."""
        if not self.is_empty:
            raise RemoteProtocolError(
                f"replicated log at {offset}: expected offset {self._commit_log.wrote_offset}, the end of this log"
            )
        if offset % self.file_size:
            raise RemoteProtocolError(
                f"replicated log at {offset}: expected the beginning of a file, because this log is empty: a multiple "
                f"of mappedFileSizeCommitLog, which is {self.file_size} here"
            )
        self._commit_log.begin_at(offset)
        self._appender.wrote_offset = offset

    def _close_file(self, piece: VerifiedPiece) -> None:
        """Store a BLANK, after making the next file: in the last file of a log recovery does not count a BLANK."""
        self._appender.add_file(piece.data)
        self._end_burst()

    # ---- records --------------------------------------------------------------------------------------------------

    def _append_records(self, piece: VerifiedPiece) -> None:
        done, count = 0, len(piece.records)
        count_max = count
        while done < count:
            records = piece.records[done : done + count_max]
            found = self._few_plain(records) if len(records) <= _FEW else self._plain(records)
            if found.count:
                self._store_plain(_content(piece, done, done + found.count), found)
            # After a record that is not plain there may be more: then few are looked at for each that is stored.
            count_max = 2 * count_max if found.count else _FEW
            done += found.count or self._append_one(piece, done)

    def _plain(self, records: Sequence[VerifiedRecord]) -> _Plain:
        """Fast path: return what is stored of records that continue queues, up to any other record; by columns."""
        runs, queue_offsets, physical_offsets, sizes, timestamps_ms, texts = zip(*records, strict=True)
        units, units_of, count = self._continued(runs, queue_offsets)
        if self._is_multi_dispatch:
            count = _first_with(_MULTI_DISPATCH, texts[:count])
        if count < len(records):
            return self._plain(records[:count]) if count else _NOTHING
        topics = [run.topic for run in runs]
        columns = PropertyColumns(texts)
        tags_codes, all_keys = columns.tags_codes(), columns.index_keys()
        if SCHEDULE_TOPIC in topics:
            tags_codes = self._units.with_delivery_times(tags_codes, topics, texts, timestamps_ms)
        for run, unit in zip(runs, map(_pack_unit, physical_offsets, sizes, tags_codes), strict=True):
            units_of[run].append(unit)
        work: list[IndexWork] = list(zip(topics, all_keys, physical_offsets, timestamps_ms, strict=True))
        if not all(all_keys):
            work = [each for each in work if each[1]]
        return _Plain(count, units, work, max(timestamps_ms))

    def _few_plain(self, records: Sequence[VerifiedRecord]) -> _Plain:
        """Return the same of records that are too few for columns to save time."""
        topics, queues_max, tags_code = self._queues.topics, self._queues.pending_max, self._units.tags_code
        units: dict[ConsumeQueue, list[bytes]] = {}
        work: list[IndexWork] = []
        count = timestamp_ms = 0
        for run, queue_offset, physical_offset, size, stored_ms, text in records:
            queue = topics.get(run.topic, _NO_QUEUES).get(run.queue_id) if run is not None else None
            if run is None or queue is None or (self._is_multi_dispatch and _MULTI_DISPATCH in text):
                break
            added = units.get(queue)
            if added is None:
                if len(units) >= queues_max or queue.writes_ext or queue_offset != queue.next_offset:
                    break
                added = units[queue] = []
            elif queue_offset != queue.next_offset + len(added):
                break
            properties = decode_properties(text.decode("utf-8", "replace"))
            added.append(_pack_unit(physical_offset, size, tags_code(run.topic, properties, stored_ms)))
            keys = index_keys_of(properties)
            if keys:
                work.append((run.topic, keys, physical_offset, stored_ms))
            timestamp_ms = max(timestamp_ms, stored_ms)
            count += 1
        return _Plain(count, units, work, timestamp_ms)

    def _continued(
        self, runs: Sequence[QueueRun | None], queue_offsets: Sequence[int]
    ) -> tuple[dict[ConsumeQueue, list[bytes]], dict[QueueRun, list[bytes]], int]:
        """Return room for the units of records, by queue and by run, and how many of the records continue queues.

        The records of a run follow each other, so its first one decides.
        """
        topics, queues_max = self._queues.topics, self._queues.pending_max
        units: dict[ConsumeQueue, list[bytes]] = {}
        units_of: dict[QueueRun, list[bytes]] = {}
        first_offset_of = dict(zip(reversed(runs), reversed(queue_offsets), strict=True))
        for run in dict.fromkeys(runs):
            queue = topics.get(run.topic, _NO_QUEUES).get(run.queue_id) if run is not None else None
            if (
                run is None
                or queue is None
                or queue in units
                or first_offset_of[run] != queue.next_offset
                or len(units) >= queues_max
                or queue.writes_ext
            ):
                return units, units_of, runs.index(run)
            units[queue] = units_of[run] = []
        return units, units_of, len(runs)

    def _store_plain(self, content: Buffer, plain: _Plain) -> None:
        self._make_room(content)
        units = plain.units
        with _expecting(units):
            for queue, added in units.items():
                if queue.next_offset + len(added) > queue.reserved_offset:
                    queue.make_room(len(added))
            self._appender.append_records(content, units, plain.work, plain.timestamp_ms)
            self._end_burst()
        for queue in units:
            queue.own_end = queue.next_offset

    def _append_one(self, piece: VerifiedPiece, index: int) -> int:
        """General path: store one record, moving the ends of its queues to where it says; return 1."""
        content = _content(piece, index, index + 1)
        record = check_message(content, 0, len(content), check_crc=False)
        offsets_by_queue = queue_offsets_of(record, is_multi_dispatch=self._is_multi_dispatch)
        if offsets_by_queue:
            self._check_queue_offset(record)
        self._make_room(content)
        queues: list[ConsumeQueue] = []
        for number, (key, queue_offset) in enumerate(offsets_by_queue):
            queue = self._queues.find(*key)
            if number:
                queue.named = NamedUnits.taken(queue.named, queue.own_end, queue_offset)
            if not number or may_take(queue, queue_offset, is_gap_final=True):
                queues.append(self._moved(queue, queue_offset))
        with _expecting(queues):
            for queue in queues:
                queue.make_room(1)
            # With extensions only now: what they collect is written with the units.
            units = {queue: [self._units.unit(queue, record)] for queue in queues}
            keys = record.index_keys()
            work = [(record.topic, keys, record.physical_offset, record.store_timestamp)] if keys else []
            copy_count = max(0, len(queues) - 1)
            self._appender.append_records(content, units, work, record.store_timestamp, copy_count=copy_count)
            self._end_burst()
        for queue in queues[:1]:
            queue.own_end = queue.next_offset
        return 1

    def _make_room(self, content: Buffer) -> None:
        """Make room in index and log."""
        self._appender.make_index_room()
        self._commit_log.make_room(self._commit_log.wrote_offset + len(content))

    def _check_queue_offset(self, record: CheckedMessage) -> None:
        """Refuse a record that does not follow the last one of its queue in this log, as recovery does."""
        queue, queue_offset = self._queues.find(record.topic, record.queue_id), record.queue_offset
        is_next = queue.own_end < 0 or follows(queue_offset, queue.own_end, queue.named)
        if not is_next or not 0 <= queue_offset <= record.physical_offset // RECORD_HEAD.size:
            end = queue.next_offset if queue.own_end < 0 else queue.own_end
            raise RemoteProtocolError(
                f"replicated log at {record.physical_offset}: expected queue offset {f'{end} or 0' if end else 0} in "
                f"queue {record.queue_id} of topic {record.topic}, found {queue_offset}"
            )

    def _moved(self, queue: ConsumeQueue, queue_offset: int) -> ConsumeQueue:
        """Return a queue with its end at an offset; where it begins again it is a new one.

        Units that are dropped are of records whose topic was deleted on the master, or of records of another topic.
        Files are unlinked without a sync, as for a deleted topic: what comes back with a loss of power is dropped
        again by recovery, or with this record.
        """
        if queue_offset == queue.next_offset:
            return queue
        if 0 < queue_offset < queue.next_offset:
            self._queues.cut_queue(queue, queue_offset)
            return queue
        if queue.files:
            self._queues.remove_queue(queue)
            queue = self._queues.find(queue.topic, queue.queue_id)
        queue.start_at(queue_offset)
        return queue


@contextmanager
def _expecting(queues: Collection[ConsumeQueue]) -> Iterator[None]:
    """Keep the files of queues open for the block, from when they have room until their units are written."""
    for queue in queues:
        queue.is_expecting = True
    try:
        yield
    finally:
        for queue in queues:
            queue.is_expecting = False


def _first_with(part: bytes, texts: Sequence[bytes]) -> int:
    """Return the index of the first text with a part, or how many texts there are."""
    if part not in b"\0".join(texts):
        return len(texts)
    return next(index for index, text in enumerate(texts) if part in text)


def _content(piece: VerifiedPiece, first: int, end: int) -> Buffer:
    """Return the bytes of some records of a piece."""
    _, _, begin_offset, _, _, _ = piece.records[first]
    _, _, physical_offset, size, _, _ = piece.records[end - 1]
    return piece.data[begin_offset - piece.offset : physical_offset + size - piece.offset]
