"""Bugs of replication that are planted on purpose: what ``test_replication_machine.py`` must be able to find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import trio

from property_tests.hunts import Function, PlantedBug
from rocketpy.broker.replication.comparison import LogComparison
from rocketpy.errors import ShortageError, StoreError
from rocketpy.store.append.appender import MessageAppender
from rocketpy.store.ha.client import HAClient
from rocketpy.store.ha.connection import HAConnection
from rocketpy.store.ha.following_log import FollowingCommitLog
from rocketpy.store.ha.group_transfer import GroupTransferService
from rocketpy.store.ha.log_source import CommitLogSource
from rocketpy.store.ha.protocol import encode_frame_header
from rocketpy.store.ha.service import HAService
from rocketpy.store.ha.slave_progress import SlaveProgress
from rocketpy.store.ha.tail_cut import TailCut
from rocketpy.store.ha.verified_stream import VerifiedPiece, VerifiedStream
from rocketpy.store.results import PutMessageStatus

# ---- the master: each takes the right function and returns the wrong one --------------------------------------------


def _acknowledges_what_was_sent(report: Function) -> Function:
    def take(self: SlaveProgress, offset: int, **log: int) -> None:
        report(self, offset, **log)
        self.acknowledged_offset = self.sent_offset

    return take


def _believes_the_first_report(request: Function) -> Function:
    def take(self: SlaveProgress, offset: int, log_min: int, log_max: int, file_size: int) -> None:
        request(self, min(max(0, offset), log_max), log_min, log_max, file_size)
        self.acknowledged_offset = offset

    return take


def _believes_any_report(report: Function) -> Function:
    def take(self: SlaveProgress, offset: int, **log: int) -> None:
        if self.is_slave:
            self.acknowledged_offset = max(self.acknowledged_offset, offset)
        else:
            report(self, offset, **log)

    return take


def _remembers_slaves(slaves: Function) -> Function:
    def all_that_ever_were(self: HAService) -> list[SlaveProgress]:
        known: dict[SlaveProgress, None] = self.__dict__.setdefault("known_slaves", {})
        known.update(dict.fromkeys(slaves(self)))
        return list(known)

    return all_that_ever_were


def _says_put_ok_in_the_end(call_back: Function) -> Function:
    def overridden(self: GroupTransferService, callbacks: Any, status: PutMessageStatus) -> None:
        call_back(self, callbacks, PutMessageStatus.PUT_OK)

    return overridden


def _zero(function: Function) -> Function:
    return lambda *_: 0


def _twice_the_timeout(init: Function) -> Function:
    def begin(self: GroupTransferService, *, timeout_s: Callable[[], float], **others: Any) -> None:
        init(self, timeout_s=lambda: 2 * timeout_s(), **others)

    return begin


def _half_the_timeout(init: Function) -> Function:
    def begin(self: GroupTransferService, *, timeout_s: Callable[[], float], **others: Any) -> None:
        init(self, timeout_s=lambda: timeout_s() / 2, **others)

    return begin


def _beyond_what_is_written(end_offset: Any) -> Any:
    return property(lambda self: end_offset.fget(self) + 8)


def _with_zeros(read_nowait: Function) -> Function:
    def read(self: CommitLogSource, offset: int, size: int) -> bytes | None:
        found: bytes | None = read_nowait(self, offset, size)
        return None if found is None else found.ljust(min(size, 8), b"\0")

    return read


def _notes_what_was_sent(send_frame: Function) -> Function:
    async def send(self: Any, size: int) -> None:
        progress, log = self.progress, self._log
        offset = progress.sent_offset
        data = log.read_nowait(offset, size) or await log.read(offset, size)
        await self._send(encode_frame_header(offset, len(data)) + data)
        progress.note_sent(offset + len(data))

    return send


# ---- the slave ------------------------------------------------------------------------------------------------------


def _stores_later(append: Function) -> Function:
    """Store a piece with the next one; :func:`_with_what_is_not_stored` counts it at once."""

    def keep(self: Any, piece: VerifiedPiece) -> None:
        before = self.__dict__.get("kept_piece")
        if before is not None:
            self.kept_piece = None
            append(self, before)
        self.kept_piece = piece

    return keep


def _with_what_is_not_stored(end_offset: Any) -> Any:
    def claimed(self: Any) -> int:
        piece: VerifiedPiece | None = self.__dict__.get("kept_piece")
        return int(end_offset.fget(self) if piece is None else piece.end_offset)

    return property(claimed)


def _goes_on_after_a_failure(append: Function) -> Function:
    def swallow(self: Any, piece: VerifiedPiece) -> None:
        self._failure = None
        try:
            append(self, piece)
        except ShortageError:
            raise
        except StoreError:
            self._appender.wrote_offset = piece.end_offset
            for queue in self._queues:
                queue.units.clear()  # else an assertion of the product finds it before a promise is broken

    return swallow


def _wrong_unit(append_records: Function) -> Function:
    def skip(self: Any, content: bytes, units: Mapping[Any, list[bytes]], *others: Any, **more: Any) -> None:
        for added in units.values():
            added[-1] = added[0]
        append_records(self, content, units, *others, **more)

    return skip


def _without_keys(append_records: Function) -> Function:
    def forget(self: Any, content: bytes, units: Any, index_work: Any, *others: Any, **more: Any) -> None:
        append_records(self, content, units, (), *others, **more)

    return forget


def _short_blank(close_file: Function) -> Function:
    def close(self: Any, piece: VerifiedPiece) -> None:
        size = len(piece.data) - 1
        close_file(self, VerifiedPiece(piece.offset, size.to_bytes(4, "big") + piece.data[4:], ()))

    return close


def _equal(compare: Function) -> Function:
    async def believe(self: LogComparison, ha_address: str) -> None:
        await trio.lowlevel.checkpoint()

    return believe


def _keeps_the_tail(cut: Function) -> Function:
    return lambda self, order, files: iter(())


def _any_offset(take_one: Function) -> Function:
    """Take a record for that of its position, whatever offset it names."""

    def take(self: VerifiedStream, data: bytes, base: int, position: int) -> Any:
        head = data[position : position + 36]
        if len(head) == 36 and head[4:8] == b"\xda\xa3\x20\xa7":
            data = data[: position + 28] + (base + position).to_bytes(8, "big") + data[position + 36 :]
        return take_one(self, data, base, position)

    return take


def _takes_everything_for_whole(receive: Function) -> Function:
    def pass_on(self: VerifiedStream, data: bytes) -> list[VerifiedPiece]:
        offset = self.next_offset
        self.next_offset += len(data)
        return [VerifiedPiece(offset, data, ())] if data else []

    return pass_on


def _silent(raise_alarm: Function) -> Function:
    def forget(self: HAClient, why: str) -> None:
        raise_alarm(self, "")

    return forget


PLANTED: Mapping[str, PlantedBug] = {
    "acknowledge what was sent": PlantedBug(
        "the master takes what it has sent for what the slave has received",
        [(SlaveProgress, "report", _acknowledges_what_was_sent)],
    ),
    "believe the first report": PlantedBug(
        "the first report of a connection is an acknowledgement, whatever it says",
        [(SlaveProgress, "_request", _believes_the_first_report)],
    ),
    "believe any report": PlantedBug(
        "a report above what was sent is an acknowledgement",
        [(SlaveProgress, "report", _believes_any_report)],
    ),
    "note what was sent": PlantedBug(
        "the master notes a frame when the call that sends it has returned",
        [(HAConnection, "_send_frame", _notes_what_was_sent)],
    ),
    "remember slaves": PlantedBug(
        "what a connection has acknowledged counts after its end",
        [(HAService, "slaves", _remembers_slaves)],
    ),
    "override the status": PlantedBug(
        "PUT_OK is answered when the time is over",
        [(GroupTransferService, "_call_back", _says_put_ok_in_the_end)],
    ),
    "see no slave": PlantedBug(
        "SLAVE_NOT_AVAILABLE is answered although a slave follows",
        [(GroupTransferService, "_available_end", _zero)],
    ),
    "answer too late": PlantedBug(
        "FLUSH_SLAVE_TIMEOUT comes after twice the timeout",
        [(GroupTransferService, "__init__", _twice_the_timeout)],
    ),
    "give up too early": PlantedBug(
        "FLUSH_SLAVE_TIMEOUT comes after half the timeout",
        [(GroupTransferService, "__init__", _half_the_timeout)],
    ),
    "send what is not written": PlantedBug(
        "the master sends bytes after the end of its log",
        [
            (CommitLogSource, "end_offset", _beyond_what_is_written),
            (CommitLogSource, "read_nowait", _with_zeros),
        ],
    ),
    "acknowledge before storing": PlantedBug(
        "the slave reports a piece that it stores with the next one",
        [
            (FollowingCommitLog, "append", _stores_later),
            (FollowingCommitLog, "end_offset", _with_what_is_not_stored),
        ],
    ),
    "go on after a failed write": PlantedBug(
        "the slave goes on after a write that failed",
        [(FollowingCommitLog, "append", _goes_on_after_a_failure)],
    ),
    "lose a unit": PlantedBug(
        "the last unit of a piece leads to its first record",
        [(MessageAppender, "append_records", _wrong_unit)],
    ),
    "forget the keys": PlantedBug(
        "a slave gives the keys of what it stores to no index",
        [(MessageAppender, "append_records", _without_keys)],
    ),
    "close files a byte short": PlantedBug(
        "the BLANK at the end of a slave's file is a byte short",
        [(FollowingCommitLog, "_close_file", _short_blank)],
    ),
    "compare nothing": PlantedBug(
        "a slave follows without a look at what it already has",
        [(LogComparison, "compare", _equal)],
    ),
    "keep the tail": PlantedBug(
        "the tail that parts from the master's log is reported as cut, and is still there",
        [(TailCut, "_cut", _keeps_the_tail)],
    ),
    "check no offset": PlantedBug(
        "a slave stores a record that names another physical offset",
        [(VerifiedStream, "_take_one", _any_offset)],
    ),
    "store what is not whole": PlantedBug(
        "a slave stores whatever part of a record has come",
        [(VerifiedStream, "receive", _takes_everything_for_whole)],
    ),
    "stay silent": PlantedBug(
        "a slave that has stopped shows no alarm",
        [(HAClient, "_raise_alarm", _silent)],
    ),
}
