"""Small stores, taken as they are on disk after a clean shutdown and after a kill, to be damaged and looked at.

A store is built once; a test writes its files into a place of its own, damages them, and opens that. Whatever was done
to it, :func:`check_sound` says whether what then comes out is right: an error that names a place, or the messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import TypeVar

import attrs
import trio
from trio.testing import MockClock

from rocketpy.clock import ManualClock
from rocketpy.errors import RocketpyError, StartError, StoreError, single_failures
from rocketpy.store.config import FlushDiskType
from rocketpy.store.message_store import MessageStore
from rocketpy.store.recovery.recovery import RecoveryReport
from rocketpy.store.results import GetMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import opened, send
from tests.store.parts import Place

T = TypeVar("T")
Queue = tuple[str, int]

ROOT = "/store"
QUEUES: tuple[Queue, ...] = (("Orders", 0), ("Orders", 1), ("%RETRY%group", 0))
LOG_FILE_SIZE = 8192
QUEUE_FILE_SIZE = 400
SIZES: Mapping[str, object] = {
    "mapped_file_size_commit_log": LOG_FILE_SIZE,
    "mapped_file_size_consume_queue": QUEUE_FILE_SIZE,
    "max_hash_slot_num": 20,
    "max_index_num": 40,
}
"""Settings that the stores here are made and opened with."""

ROUNDS = 30
_IN_MEMORY_ONLY = 10  # so many of the rounds are not durable when the broker is killed
_INDEX_SECONDS = 60


@attrs.frozen
class Snapshot:
    """The files of a store by path from its root, and what it holds."""

    files: Mapping[str, bytes]
    records: Mapping[Queue, list[bytes]]
    keys: Mapping[str, bytes]  # the record of every second key
    durable_end: int  # the log is known to be durable up to here

    @property
    def log(self) -> list[tuple[int, bytes]]:
        """Every record with its physical offset, in order."""
        records = [record for records in self.records.values() for record in records]
        return sorted((int.from_bytes(record[28:36], "big"), record) for record in records)


def write_store(place: Place, files: Mapping[str, bytes]) -> None:
    """Write the files of a store."""
    place.disk.make_directories(place.root)
    for name, content in files.items():
        place.write(f"{place.root}/{name}", content)


@attrs.frozen
class Seen:
    """What an opened store shows."""

    records: Mapping[Queue, list[bytes]]
    keys: Mapping[str, bytes]
    damages: list[str]  # what was said of messages that cannot be served
    report: RecoveryReport


def look(place: Place, **changes: object) -> Seen | RocketpyError:
    """Open a store, read all of it, stop it in order; or return the one error that came instead.

    In virtual time: a store that hangs fails the test. What is no error of ours flies.
    """

    async def life() -> Seen:
        with trio.fail_after(3600):
            return await _look(place, changes)

    try:
        return run(life)
    except RocketpyError as error:
        return error
    except BaseExceptionGroup as group:
        leaves = list(single_failures(group))
        if len(leaves) == 1 and isinstance(leaves[0], RocketpyError):
            return leaves[0]
        raise


def run(life: Callable[[], Awaitable[T]]) -> T:
    """Run an async function under a clock that jumps."""
    return trio.run(life, clock=MockClock(autojump_threshold=0))


@cache
def stopped_store() -> Snapshot:
    """A store after a clean shutdown."""
    return run(_build_stopped)


@cache
def killed_store() -> Snapshot:
    """A store after a kill: the checkpoint covers two thirds of it, the rest was in memory only."""
    return run(_build_killed)


async def _build_stopped() -> Snapshot:
    place = Place(SimDisk(), ROOT)
    clock = ManualClock()
    async with open_again(place, clock=clock) as store:
        await _send(store, clock, range(ROUNDS))
        records, keys = await _records(store, []), await _keys(store)
    files = place.files(ROOT)
    assert "abort" not in files
    return Snapshot(files, records, keys, _log_end(records))


async def _build_killed() -> Snapshot:
    place = Place(SimDisk(), ROOT)
    clock = ManualClock()
    async with open_again(place, clock=clock, flush_disk_type=FlushDiskType.ASYNC_FLUSH) as store:
        await _send(store, clock, range(ROUNDS - _IN_MEMORY_ONLY))
        await trio.sleep(100)
        durable_end = store.max_physical_offset
        await _send(store, clock, range(ROUNDS - _IN_MEMORY_ONLY, ROUNDS))
        files = place.files(ROOT)
        records, keys = await _records(store, []), await _keys(store)
    assert "abort" in files
    # The log file that is made in advance may or may not be there yet: fixed to one way.
    files = {name: content for name, content in files.items() if "commitlog/" not in name or content.strip(b"\0")}
    return Snapshot(files, records, keys, durable_end)


def open_again(place: Place, **more: object) -> AbstractAsyncContextManager[MessageStore]:
    """Open a store as it is; ``more`` as of :func:`~tests.store.opened_store.opened`."""
    return opened(place, **{**SIZES, **more})  # type: ignore[arg-type]


async def _send(store: MessageStore, clock: ManualClock, rounds: range) -> None:
    for number in rounds:
        clock.advance_ms(700)
        for topic, queue_id in QUEUES:
            key = f"{topic}-{queue_id}-{number}".encode()
            send(store, key + b"." * (number * 37 % 300), topic, queue_id, key)
        store.end_burst()
        await trio.lowlevel.checkpoint()


async def _look(place: Place, changes: Mapping[str, object]) -> Seen:
    reports: list[RecoveryReport] = []
    async with open_again(place, reports=reports, **changes) as store:
        damages: list[str] = []
        return Seen(await _records(store, damages), await _keys(store), damages, reports[0])


async def _records(store: MessageStore, damages: list[str]) -> dict[Queue, list[bytes]]:
    """Read every queue as a consumer does, from its first offset on; one that cannot be served is stepped over."""
    found: dict[Queue, list[bytes]] = {}
    for topic, queue_id in store.queues():
        records = found[topic, queue_id] = []
        queue_offset, end = store.min_offset_in_queue(topic, queue_id), store.max_offset_in_queue(topic, queue_id)
        while queue_offset < end:
            result = await store.get_message(topic, queue_id, queue_offset, 32)
            if result.status is GetMessageStatus.FOUND:
                records += _split(result.body)
            if result.damage:
                assert (result.status, result.body) == (GetMessageStatus.MESSAGE_WAS_REMOVING, b"")
                damages.append(result.damage)
                queue_offset += 1
                continue
            assert result.next_begin_offset > queue_offset, (topic, queue_id, queue_offset, result)
            queue_offset = result.next_begin_offset
    return found


async def _keys(store: MessageStore) -> dict[str, bytes]:
    """Ask the index for the key of every second message that was sent, when it has caught up."""
    with trio.fail_after(_INDEX_SECONDS):
        while store.index_behind:
            await trio.sleep(0.01)
    found: dict[str, bytes] = {}
    for topic, queue_id in QUEUES:
        for number in range(0, ROUNDS, 2):
            key = f"{topic}-{queue_id}-{number}"
            result = await store.query_message(topic, key, 32, 0, 1 << 62)
            for record in _split(result.body):
                if f"\x01{key}".encode() in record[-len(key) - 1 :]:  # keys may share a hash
                    found[key] = record
    return found


def _split(body: bytes) -> list[bytes]:
    records = []
    position = 0
    while position < len(body):
        size = max(1, int.from_bytes(body[position : position + 4], "big"))
        records.append(body[position : position + size])
        position += size
    return records


def _log_end(records: Mapping[Queue, list[bytes]]) -> int:
    return max(int.from_bytes(each[28:36], "big") + len(each) for queue in records.values() for each in queue)


# ---- what is right --------------------------------------------------------------------------------------------------


def check_sound(snapshot: Snapshot, damaged: Mapping[str, bytes], outcome: Seen | RocketpyError, place: Place) -> None:
    """Check what became of a store whose files were ``damaged`` (by path from its root) when it was opened.

    An error names a position in the store, and the log is as it was. Else every message that is served is one that was
    sent, byte for byte as the log has it now; and each one that is missing was reported: it lay after what was
    durable when the broker was killed, or before the first file that the log still has, or its unit was named.

    Some damage looks like a correct store: files at the beginning of log and queue that are gone, as after expiry; a
    record whose queue offset has become 0, as after a topic was deleted and created again; a unit that has become the
    one of another message; and after a kill, when the checkpoint is damaged too, a record from a torn one.
    """
    if isinstance(outcome, RocketpyError):
        assert isinstance(outcome, (StoreError, StartError)), outcome
        assert place.root in str(outcome)
        found = place.files(place.root)
        assert all(found[name] == content for name, content in damaged.items() if "commitlog/" in name and content)
        return
    log = _log_bytes(snapshot, damaged)
    touched = _touched(snapshot, damaged)
    origin = {offset: (queue, index) for queue, index, offset, _ in _sent(snapshot)}
    served: dict[Queue, set[int]] = {queue: set() for queue in snapshot.records}
    changed_queues = {queue for queue in served if _queue_files(snapshot.files, queue) != _queue_files(damaged, queue)}
    mixed_up: set[Queue] = set()
    for queue, records in outcome.records.items():
        last = -1
        for record in records:
            offset = _offset_in(log, record, origin)
            assert offset is not None, f"{record[:120]!r} of {queue} was never sent"
            if origin[offset][0] != queue and offset not in touched:
                assert queue in changed_queues, f"{queue} has what was sent to {origin[offset]}"
                mixed_up.add(queue)
            assert offset > last or queue in changed_queues, f"{queue} is not in order"
            last = offset
            served.setdefault(origin[offset][0], set()).add(offset)
    log_min, log_end = min(_log_bases(damaged), default=0), outcome.report.end_offset
    is_killed = "abort" in snapshot.files
    is_covered = damaged.get("checkpoint") == snapshot.files["checkpoint"]
    durable_end = snapshot.durable_end if is_covered else 0
    restarted = {origin[offset][0] for offset in touched if not any(log[offset + 20 : offset + 28])}
    for queue, index, offset, _ in _sent(snapshot):
        is_cut = (is_killed or not is_covered) and offset >= log_end >= durable_end
        is_named = any(f"unit {index} of topic {queue[0]}, queue {queue[1]}:" in each for each in outcome.damages)
        first_file = f"consumequeue/{queue[0]}/{queue[1]}/{0:020d}"
        is_expired = offset < log_min or (log_min and not damaged.get(first_file))
        if offset not in served[queue] and queue not in restarted | mixed_up:
            assert is_cut or is_expired or is_named, f"message {index} of {queue}, at {offset}, is lost silently"
    for key, record in outcome.keys.items():
        assert _offset_in(log, record, origin) is not None, f"{record[:120]!r}, found by {key}, was never sent"


def _sent(snapshot: Snapshot) -> list[tuple[Queue, int, int, bytes]]:
    """Return queue, queue offset, physical offset and record of every message."""
    return [
        (queue, index, int.from_bytes(record[28:36], "big"), record)
        for queue, records in snapshot.records.items()
        for index, record in enumerate(records)
    ]


def _queue_files(files: Mapping[str, bytes], queue: Queue) -> dict[str, bytes]:
    directory = f"consumequeue/{queue[0]}/{queue[1]}/"
    return {name: content for name, content in files.items() if name.startswith(directory)}


def _log_bases(files: Mapping[str, bytes]) -> list[int]:
    names = [name.partition("/")[2] for name in files if name.startswith("commitlog/")]
    return [int(name) for name in names if name.isdigit()]


def _log_bytes(snapshot: Snapshot, damaged: Mapping[str, bytes]) -> bytes:
    """Return the log from offset 0 on as it is now; zeros where there is nothing."""
    log = bytearray(max(_log_bases(snapshot.files)) + LOG_FILE_SIZE)
    for base in _log_bases(snapshot.files):
        content = damaged.get(f"commitlog/{base:020d}", b"")[:LOG_FILE_SIZE]
        log[base : base + len(content)] = content
    return bytes(log)


def _touched(snapshot: Snapshot, damaged: Mapping[str, bytes]) -> set[int]:
    """Return the offsets of the messages whose records have changed, in files that are there."""
    before, after = _log_bytes(snapshot, snapshot.files), _log_bytes(snapshot, damaged)
    bases = set(_log_bases(damaged))
    return {
        offset
        for _, _, offset, record in _sent(snapshot)
        if offset // LOG_FILE_SIZE * LOG_FILE_SIZE in bases
        and before[offset : offset + len(record)] != after[offset : offset + len(record)]
    }


def _offset_in(log: bytes, record: bytes, origin: Mapping[int, object]) -> int | None:
    """Return the current physical offset of the original message with these bytes, None if there is none."""
    offset = log.find(record)
    while offset >= 0 and offset not in origin:
        offset = log.find(record, offset + 1)
    return offset if offset >= 0 else None
