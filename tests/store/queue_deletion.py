"""What CleanConsumeQueueService does with one queue, by plain calls."""

from __future__ import annotations

from rocketpy.store.disk.interface import Disk, DiskFile
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.read.steps import read_now


def delete_expired_files(queue: ConsumeQueue, disk: Disk, log_min_offset: int) -> int:
    """Delete files of a queue and its extension whose messages have left the log; return how many."""
    min_offset, tags_code = read_now(queue.find_min_offset(log_min_offset))
    queue.begin_at(min_offset)
    to_close: list[DiskFile] = []
    count = 0
    while (directory := queue.delete_expired_file(tags_code, to_close.append)) is not None:
        disk.sync_directory(directory)
        count += 1
    for file in to_close:
        file.close()
    return count
