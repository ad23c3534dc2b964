"""Queues without a store, for tests: one, or a table of them; new, or found on a disk and recovered."""

from __future__ import annotations

from rocketpy.store.files.mapped_file import OpenFiles
from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.extension import ExtLocation
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.recovery.queue_recovery import QueueRecoveries, QueueRecovery
from tests.store.parts import QUEUE_FILE_SIZE, Place

FILE_SIZE = 10 * UNIT_SIZE


def queue_at(place: Place, file_size: int = FILE_SIZE) -> ConsumeQueue:
    """Return the queue, as if there were no files."""
    return ConsumeQueue(
        "T",
        3,
        tails={},
        path=f"{place.consume_queue}/T/3",
        disk=place.disk,
        open_files=OpenFiles(disk=place.disk, open_max=8),
        file_size=file_size,
    )


def recovery_of(queue: ConsumeQueue, place: Place) -> QueueRecovery:
    """Return the recovery of a queue, before it looks at the files."""
    return QueueRecovery(queue, disk=place.disk, before_clearing=lambda: None)


def recovered(place: Place, *, is_clean: bool = True) -> QueueRecovery:
    """Return the recovery of the queue whose files are on a disk, after it has found the end."""
    queue = queue_at(place)
    queue.files.load(drop_after_gap=True)
    recovery = recovery_of(queue, place)
    recovery.recover(is_clean=is_clean, file_size=FILE_SIZE)
    return recovery


def append(queue: ConsumeQueue, count: int) -> None:
    """Append units of 100-byte records, each right after the one before; all have tags code 7."""
    queue.make_room(count)
    for _ in range(count):
        queue.units.append(UNIT.pack(queue.next_offset * 100, 100, 7))
        queue.next_offset += 1
    queue.write_units()


def path(place: Place, unit: int = 0) -> str:
    """Return the path of the file that begins with a unit."""
    return place.queue_file("T", 3, unit * UNIT_SIZE)


def table_at(
    place: Place,
    *,
    file_size: int = QUEUE_FILE_SIZE,
    ext_location: ExtLocation | None = None,
    files_per_flush_max: int = 256,
) -> ConsumeQueueTable:
    """Return a table of queues, as if there were no files."""
    return ConsumeQueueTable(
        path=place.consume_queue,
        disk=place.disk,
        open_files=OpenFiles(disk=place.disk, open_max=16),
        file_size=file_size,
        ext_location=ext_location,
        files_per_flush_max=files_per_flush_max,
    )


def recoveries_of(table: ConsumeQueueTable, place: Place) -> QueueRecoveries:
    """Return the recoveries of a table's queues."""
    return QueueRecoveries(table, disk=place.disk, before_clearing=lambda: None)
