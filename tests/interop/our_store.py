"""Our own store for tests beside Java's: opened, filled and looked at through the same values as :mod:`.java_store`."""

from __future__ import annotations

import os
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from rocketpy.clock import Clock, ManualClock
from rocketpy.protocol.stored_message import (
    RecordStatus,
    check_message,
    decode_message,
    decode_messages,
    store_timestamp_position,
)
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.store.queue.extension import BitMapOf
from rocketpy.store.queue.record_units import TagsCodeOf
from rocketpy.store.results import GetMessageStatus
from tests.interop.java_store import KeyQuestion, QueueView, StoreSizes, StoreView, TimeQuestion
from tests.patience import PATIENCE_SECONDS
from tests.turns import run_in_turn

STORE_HOST = bytes((127, 0, 0, 1)) + (10_911).to_bytes(4, "big")
_UNIT = struct.Struct(">qiq")
_ENTRY = struct.Struct(">iq4xi")


@asynccontextmanager
async def open_ours(
    root: Path,
    sizes: StoreSizes,
    *,
    clock: Clock | None = None,
    store_host: bytes = STORE_HOST,
    tags_code: TagsCodeOf | None = None,
    bit_map_of: BitMapOf | None = None,
    **settings: object,
) -> AsyncIterator[MessageStore]:
    """Open a store and wait until its index is complete."""
    async with open_message_store(
        sizes.config(root, **settings),
        disk=OsDisk(),
        clock=clock or ManualClock(),
        run_blocking=run_in_turn,
        store_host=store_host,
        tags_code=tags_code,
        bit_map_of=bit_map_of,
    ) as store:
        with trio.fail_after(PATIENCE_SECONDS):
            while store.dispatch_behind or store.index_behind:
                await trio.sleep(0.001)
        yield store


async def view_of(
    store: MessageStore, keys: Sequence[KeyQuestion] = (), times: Sequence[TimeQuestion] = ()
) -> StoreView:
    """Return all that an open store holds, and its answers."""
    queues = {}
    for topic, queue_id in store.queues():
        minimum, maximum = store.min_offset_in_queue(topic, queue_id), store.max_offset_in_queue(topic, queue_id)
        records: list[bytes] = []
        next_offset = minimum
        while next_offset < maximum:
            result = await store.get_message(topic, queue_id, next_offset, 32)
            assert result.status is GetMessageStatus.FOUND, (topic, queue_id, next_offset, result.status)
            records += split_records(result.body)
            next_offset = result.next_begin_offset
        if maximum:
            queues[topic, queue_id] = QueueView(minimum, maximum, tuple(records))
    found = []
    for key in keys:
        answer = await store.query_message(key.topic, key.key, key.max_num, key.begin_ms, key.end_ms)
        found.append(tuple(message.physical_offset for message in decode_messages(answer.body, decompress=False)))
    at = [await store.offset_in_queue_by_time(each.topic, each.queue_id, each.timestamp_ms) for each in times]
    return StoreView(store.min_physical_offset, store.max_physical_offset, queues, tuple(found), tuple(at))


def view_of_directory(
    root: Path,
    sizes: StoreSizes,
    keys: Sequence[KeyQuestion] = (),
    times: Sequence[TimeQuestion] = (),
    **settings: Any,
) -> StoreView:
    """Open a store, which recovers it, return all that it holds, and close it in order."""

    async def look() -> StoreView:
        async with open_ours(root, sizes, **settings) as store:
            return await view_of(store, keys, times)

    return trio.run(look)


def split_records(body: bytes) -> list[bytes]:
    """Return the records that stand back to back."""
    records = []
    while body:
        size = int.from_bytes(body[:4], "big")
        records.append(body[:size])
        body = body[size:]
    return records


def set_file_times(root: Path) -> None:
    """Give each queue file the time of its last message: what it has when the store writes as time passes.

    Java searches by time in the first queue file that was modified at or after it.
    """
    for path in (root / "consumequeue").glob("*/*/*"):
        units = list(_UNIT.iter_unpack(path.read_bytes()))
        last = max((unit for unit in units if unit[1]), default=None)
        record = None if last is None else _record_at(root, last[0], last[1])
        if record is not None:
            timestamp_ms = decode_message(record, decompress=False).store_timestamp
            os.utime(path, ns=(timestamp_ms * 1_000_000,) * 2)


def _record_at(root: Path, physical_offset: int, size: int) -> bytes | None:
    for path in (root / "commitlog").iterdir():
        begin = int(path.name)
        if begin <= physical_offset < begin + path.stat().st_size:
            with path.open("rb") as file:
                file.seek(physical_offset - begin)
                return file.read(size)
    return None


@attrs.frozen
class IndexShape:
    """An index file without its times: a store that ran at another time has the same."""

    begin_physical_offset: int
    end_physical_offset: int
    slot_count: int
    index_count: int
    slots: tuple[int, ...]
    entries: tuple[tuple[int, int, int], ...]  # hash, physical offset, the entry before it


def log_without_times(root: Path) -> bytes:
    """Return the log up to its end, files joined, every storeTimestamp and with zeros after the head of a BLANK."""
    parts: list[bytes] = []
    for path in sorted((root / "commitlog").iterdir()):
        content = bytearray(path.read_bytes())
        position = 0
        while True:
            found = check_message(content, position, len(content) - position)
            if found.status is not RecordStatus.MESSAGE:
                break
            at = position + store_timestamp_position(found.sys_flag)
            content[at : at + 8] = bytes(8)
            position += found.size
        if found.status is not RecordStatus.BLANK:
            return b"".join([*parts, content[:position]])
        content[position + 8 :] = bytes(len(content) - position - 8)
        parts.append(bytes(content))
    return b"".join(parts)


def queue_files(root: Path) -> dict[str, bytes]:
    """Return the units of every queue file, without the free space after them."""
    base = root / "consumequeue"
    files = {str(path.relative_to(base)): path.read_bytes() for path in base.glob("*/*/*")}
    return {name: content[: _units_size(content)] for name, content in files.items() if any(content)}


def _units_size(content: bytes) -> int:
    return 20 * sum(1 for _, size, _ in _UNIT.iter_unpack(content) if size)


def index_shapes(root: Path, sizes: StoreSizes) -> list[IndexShape]:
    """Return the index files in their order; Java begins one before it has a key for it, which is left out."""
    shapes = []
    for path in sorted((root / "index").iterdir()):
        content = path.read_bytes()
        _, _, begin, end, slot_count, index_count = struct.unpack_from(">qqqqii", content)
        slots = struct.unpack_from(f">{sizes.index_slots}i", content, 40)
        entries = _ENTRY.iter_unpack(content[40 + 4 * sizes.index_slots :][: 20 * index_count])
        if index_count <= 1:
            continue
        shapes.append(IndexShape(begin, end, slot_count, index_count, slots, tuple(entries)))
    return shapes
