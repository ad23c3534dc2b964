"""Files that have their full length from the beginning, but take space in small steps: those of queues.

A queue of a few messages must not cost megabytes, and a full disk must refuse a message instead of losing its unit. So
a file is made sparse, under another name until it is whole, and space is reserved before something is written there.
"""

from __future__ import annotations

from rocketpy.errors import DiskFullError
from rocketpy.store.disk.interface import Disk
from rocketpy.store.files.mapped_file import MappedFile
from rocketpy.store.files.mapped_file_queue import MappedFileQueue
from rocketpy.store.layout import UNIT_SIZE, file_name

STEP_MIN = 4096
STEP_MAX = 65_536
"""A step of reservation is as long as what the file holds already, within these bounds, and ends on a page."""


def reserve_step(mapped_file: MappedFile, position: int) -> int:
    """Reserve the next step from a position on; return where it ends. ShortageError changes nothing.

    Where the disk has not that much, the page of the position is enough. It may be reserved already: recovery comes
    back to units that were accepted, and on a full disk it must not ask for more than these have.
    """
    end = position + min(max(position, STEP_MIN), STEP_MAX)
    end = min(-(-end // STEP_MIN) * STEP_MIN, mapped_file.size)
    try:
        mapped_file.file().reserve(position, end - position)
    except DiskFullError:
        # A unit may begin in one page and end in the next; it has its space when both have.
        page_end = min(((position + UNIT_SIZE - 1) // STEP_MIN + 1) * STEP_MIN, mapped_file.size)
        if page_end == end:
            raise
        end = page_end
        mapped_file.file().reserve(position, end - position)
    return end


def add_sparse_file(
    files: MappedFileQueue, disk: Disk, base_offset: int, size: int, content: bytes = b""
) -> MappedFile:
    """Make the next file of a queue, beginning with ``content``. Its directory's entry is not durable on return."""
    staging_path = f"{files.path}.staged"  # beside the queue's directory, where no number is no queue
    if disk.exists(staging_path):
        # Left by a crash. Cut to nothing it could have its old bytes back after the next one, under the new name.
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
