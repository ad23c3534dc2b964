"""What the real recovery makes of a disk: what it finds, and each disk that is there while it works.

Log and queues are for the model to judge. The index is held against the log: as far as recovery trusts it, it must be
complete.

The store is put together as in ``open_message_store``, up to where its services would be started; without Trio this
takes a third of a millisecond. That a store opened in full finds the same is tested too.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import lru_cache
from typing import TypeVar

from property_tests.crash.life import ABORT_FILE, KEY, ROOT, Moment, Setup, copied
from rocketpy.clock import ManualClock
from rocketpy.protocol.stored_message import RecordStatus, check_message, decode_message
from rocketpy.runner import run_inline
from rocketpy.store.environment import StoreEnvironment
from rocketpy.store.layout import UNIT
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.recovery.store_files import StoreFiles
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.sim.disk_state import DiskState
from rocketpy.testing.store_contents import tags_code_of
from rocketpy.testing.store_model import Found, Invariant, InvariantBroken, Sent, StoreModel

T = TypeVar("T")

_COUNT_MAX = 1000
_FOREVER = 1 << 62


def recover(setup: Setup, disk: SimDisk) -> Found:
    """Recover a store, up to where something could be appended; return what it has. Leaves all files closed."""
    abort_file_was_there = disk.exists(ABORT_FILE)
    disk.make_directories(ROOT)
    environment = StoreEnvironment(disk=disk, clock=ManualClock(), run_blocking=run_inline)
    files = StoreFiles(setup.config, environment=environment)
    try:
        for _ in files.recover(tags_code_of):
            pass
        files.begin()
        queues = {(queue.topic, queue.queue_id): _read_queue(queue, files.commit_log) for queue in files.queues}
        commit_log = files.commit_log
        log = _read_log(commit_log)
        _check_index(files, log)
        return Found(queues, log, abort_file_was_there, commit_log.flushed_offset)
    finally:
        files.close()


def moments_of_recovery(setup: Setup, disk: DiskState, model: StoreModel) -> list[Moment]:
    """Recover a disk and return the moments of that; at the last one the store is open, and reported to the model."""
    sim_disk = SimDisk(state=disk)
    moments: list[Moment] = []

    def take_note(method: str, path: str) -> None:
        moments.append(Moment(len(moments), (), f"{method} {path}", sim_disk.state(), model))

    sim_disk.before_change = take_note
    found = recover(setup, sim_disk)
    model = copied(model)
    model.recovered(found)
    moments.append(Moment(len(moments), (), "nothing more", sim_disk.state(), model))
    return moments


def _check_index(files: StoreFiles, log: Sequence[Sent]) -> None:
    """Raise InvariantBroken unless the index has the messages whose keys will not be read from the log again.

    The log is the truth: the index may lead to no other message. Every message has the same key.
    """
    if files.index is None:
        return
    begin = files.report.index_begin_offset
    for topic in sorted({message.topic for message in log}):
        expected = {message.physical_offset for message in log if message.topic == topic}
        found = set(_at_once(files.index.query_offset(topic, KEY, _COUNT_MAX, 0, _FOREVER)).physical_offsets)
        if not {offset for offset in expected if offset < begin} <= found <= expected:
            what = f"{KEY!r} of {topic} leads to {sorted(found)} of {sorted(expected)}; read again from {begin} on"
            raise InvariantBroken(Invariant.KEYS_LEAD, what)


def _at_once(coroutine: Coroutine[object, None, T]) -> T:
    """Return the result of a coroutine that never waits: its blocking calls are made inline."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("expected a coroutine that does not wait")


def _read_queue(queue: ConsumeQueue, commit_log: CommitLog) -> list[Sent]:
    """Return the messages that a queue's units lead to; one that leads nowhere is left out."""
    messages = []
    queue_offset = queue.min_offset
    while queue_offset < queue.max_offset:
        mapped_file, position, size = queue.locate(queue_offset, queue.max_offset - queue_offset)
        units = mapped_file.file().read(position, size)
        for physical_offset, record_size, tags_code in UNIT.iter_unpack(units):
            located = commit_log.locate(physical_offset, record_size)
            sent = None
            ext_unit = queue.ext_unit(tags_code)
            if ext_unit is not None:
                tags_code = ext_unit.tags_code
            if located is not None:
                sent = _sent(located[0].file().read(located[1], record_size), tags_code)
            if sent is not None:
                messages.append(sent)
        queue_offset += len(units) // UNIT.size
    return messages


def _read_log(commit_log: CommitLog) -> list[Sent]:
    """Return the messages from the beginning of the log to its end, one record after the other."""
    messages = []
    for mapped_file in commit_log.files:
        content = mapped_file.file().read(0, min(mapped_file.size, commit_log.wrote_offset - mapped_file.base_offset))
        position = 0
        while position < len(content):
            size = int.from_bytes(content[position : position + 4], "big")
            sent = _sent(content[position : position + size], None)
            if sent is None:  # a BLANK
                break
            messages.append(sent)
            position += size
    return messages


@lru_cache(maxsize=10_000)
def _sent(record: bytes, tags_code: int | None) -> Sent | None:
    """Return a record as a message, None if it is none; without a tags code, with the one that its unit should have."""
    checked = check_message(record, 0, len(record), check_crc=False)
    if checked.status is not RecordStatus.MESSAGE:
        return None
    message = decode_message(record, decompress=False)
    if tags_code is None:
        tags_code = tags_code_of(message.topic, checked.properties, message.store_timestamp)
    return Sent(
        message.topic,
        message.queue_id,
        message.queue_offset,
        message.physical_offset,
        message.body,
        checked.properties_text,
        message.flag,
        tags_code,
    )
