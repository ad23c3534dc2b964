"""Sparse files of queues: full length from the beginning, space reserved in small steps.

A queue of a few messages must not cost megabytes, and a full disk must refuse a message rather than lose its unit. So a
file is created sparse, under a staging name until it is complete, and space is reserved before anything is written.
"""

from __future__ import annotations

from rocketpy.errors import DiskFullError
from rocketpy.store.disk.interface import Disk
from rocketpy.store.files.mapped_file import MappedFile
from rocketpy.store.files.mapped_file_queue import MappedFileQueue
from rocketpy.store.layout import UNIT_SIZE, file_name

STEP_MIN = 4096
STEP_MAX = 65_536
"""A reservation step is as long as the used part of the file, within these bounds, and ends on a page boundary."""


def reserve_step(mapped_file: MappedFile, position: int) -> int:
    """Reserve the next step from a position on; return its end. ShortageError changes nothing.

    If the disk has less space than a step, one page is enough. That page may be reserved already: recovery writes units
    again that were accepted before, and on a full disk it must not ask for more space than they have.
    """
    end = position + min(max(position, STEP_MIN), STEP_MAX)
    end = min(-(-end // STEP_MIN) * STEP_MIN, mapped_file.size)
    try:
        mapped_file.file().reserve(position, end - position)
    except DiskFullError:
        # A unit may cross a page boundary; it has its space only when both pages have.
        page_end = min(((position + UNIT_SIZE - 1) // STEP_MIN + 1) * STEP_MIN, mapped_file.size)
        if page_end == end:
            raise
        end = page_end
        mapped_file.file().reserve(position, end - position)
    return end


def add_sparse_file(
    files: MappedFileQueue, disk: Disk, base_offset: int, size: int, content: bytes = b""
) -> MappedFile:
    """Create the next file of a queue, beginning with ``content``. Its directory entry is not durable on return."""
    staging_path = (
        f"{files.path}.staged"  # beside the queue's directory: not a number, so it is never taken for a queue
    )
    if disk.exists(staging_path):
        # Left by a crash. If it were truncated and reused, the next loss of power could bring its old bytes back under
        # the new name: a truncation is not durable before a sync.
        disk.unlink(staging_path)
    file = disk.open(staging_path, create=True)
    try:
        file.truncate(size)
        if content:
            file.reserve(0, len(content))
            file.write(0, content)
    finally:
        file.close()
    disk.rename(staging_path, f"{files.path}/{file_name(base_offset)}")
    return files.append(base_offset, size)
