"""Small stores, taken as they lie on the disk after an orderly stop and after a kill, to be damaged and looked at.

A store is built once; a test writes its files into a place of its own, damages them, and opens that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeVar

import attrs
import trio
from trio.testing import MockClock

from rocketpy.clock import ManualClock
from rocketpy.errors import RocketpyError
from rocketpy.protocol.stored_message import RecordStatus, check_message
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.store.message_store import MessageStore, open_message_store
from rocketpy.store.recovery import RecoveryReport
from rocketpy.store.results import GetMessageStatus
from rocketpy.testing.sim_disk import SimDisk
from tests.store.parts import STORE_HOST, Place
from tests.store.test_message_store import config_for, run_inline, send

T = TypeVar("T")
Queue = tuple[str, int]

ROOT = "/store"
QUEUES: tuple[Queue, ...] = (("Orders", 0), ("Orders", 1), ("%RETRY%group", 0))
LOG_FILE_SIZE = 8192
QUEUE_FILE_SIZE = 400
ROUNDS = 30
_IN_MEMORY_ONLY = 10  # so many of the rounds are not durable when the broker is killed
_INDEX_SECONDS = 60


@attrs.frozen
class Snapshot:
    """The files of a store by path from its root, and what it holds."""

    files: Mapping[str, bytes]
    records: Mapping[Queue, list[bytes]]
    keys: Mapping[str, bytes]  # the record of each key
    durable_end: int  # the log is known to be durable up to here

    @property
    def log(self) -> list[tuple[int, bytes]]:
        """Every record with its place in the log, in order."""
        records = [record for records in self.records.values() for record in records]
        return sorted((int.from_bytes(record[28:36], "big"), record) for record in records)

    def write_to(self, place: Place) -> None:
        """Put the files into a place."""
        place.disk.make_directories(place.root)
        for name, content in self.files.items():
            place.write(f"{place.root}/{name}", content)


@attrs.frozen
class Seen:
    """What an opened store shows."""

    records: Mapping[Queue, list[bytes]]
    keys: Mapping[str, bytes]
    damages: list[str]  # what was said of messages that cannot be served
    report: RecoveryReport


def config_of(place: Place, **changes: object) -> MessageStoreConfig:
    """Return the settings that the stores here are made and opened with."""
    return config_for(
        place,
        **{
            "mapped_file_size_commit_log": LOG_FILE_SIZE,
            "mapped_file_size_consume_queue": QUEUE_FILE_SIZE,
            "max_hash_slot_num": 20,
            "max_index_num": 40,
            **changes,
        },
    )


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
        leaves = _leaves(group)
        if len(leaves) == 1 and isinstance(leaves[0], RocketpyError):
            return leaves[0]
        raise


def run(life: Callable[[], object]) -> T:
    """Run an async function under a clock that jumps."""
    return trio.run(life, clock=MockClock(autojump_threshold=0))  # type: ignore[arg-type,return-value]


@cache
def stopped_store() -> Snapshot:
    """A store after an orderly stop."""
    return run(_build_stopped)


@cache
def killed_store() -> Snapshot:
    """A store after a kill: the checkpoint vouches for two thirds of it, the rest was in memory only."""
    return run(_build_killed)


async def _build_stopped() -> Snapshot:
    place = Place(SimDisk(), ROOT)
    clock = ManualClock()
    async with _opened(place, clock) as store:
        await _send(store, clock, range(ROUNDS))
        records, keys = await _records(store, []), await _keys(store)
    files = place.files(ROOT)
    assert "abort" not in files
    return Snapshot(files, records, keys, _log_end(records))


async def _build_killed() -> Snapshot:
    place = Place(SimDisk(), ROOT)
    clock = ManualClock()
    async with _opened(place, clock, flush_disk_type=FlushDiskType.ASYNC_FLUSH) as store:
        await _send(store, clock, range(ROUNDS - _IN_MEMORY_ONLY))
        await trio.sleep(100)
        durable_end = store.max_physical_offset
        await _send(store, clock, range(ROUNDS - _IN_MEMORY_ONLY, ROUNDS))
        files = place.files(ROOT)
        records, keys = await _records(store, []), await _keys(store)
    assert "abort" in files
    return Snapshot(files, records, keys, durable_end)


def _opened(place: Place, clock: ManualClock, **changes: object):  # type: ignore[no-untyped-def]
    return open_message_store(
        config_of(place, **changes),
        disk=place.disk,
        clock=clock,
        run_blocking=run_inline,
        store_host=STORE_HOST,
        memory_bytes=1 << 40,
    )


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
    async with open_message_store(
        config_of(place, **changes),
        disk=place.disk,
        clock=ManualClock(),
        run_blocking=run_inline,
        store_host=STORE_HOST,
        report=reports.append,
        memory_bytes=1 << 40,
    ) as store:
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
    """Ask the index for the key of every message that was sent, when it has caught up."""
    with trio.fail_after(_INDEX_SECONDS):
        while store.index_behind:
            await trio.sleep(0.01)
    found: dict[str, bytes] = {}
    for topic, queue_id in QUEUES:
        for number in range(ROUNDS):
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


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]


def is_valid(record: bytes) -> bool:
    """Whether a record is one, its CRC included: what a client can find out by itself."""
    return check_message(record, 0, len(record), check_crc=True).status is RecordStatus.MESSAGE
