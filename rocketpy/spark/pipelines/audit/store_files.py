"""The files of a store directory, as the driver lists them before executors read them.

Nothing is written or locked; a store that a broker is writing may be listed. The tables of the broker are decoded by
the broker's own decoders, with the ``.bak`` where a file is malformed, as a start does it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TypeVar

import attrs

from rocketpy.broker.delay.offsets import DelayProgress, decode_delay_progress
from rocketpy.broker.metadata.offsets import LMQ_FILE_NAME, decode_offset_table
from rocketpy.errors import RemoteProtocolError, SettingsError, StoreError
from rocketpy.protocol import fastjson
from rocketpy.protocol.bodies.codec import decode_value
from rocketpy.protocol.bodies.group import SubscriptionGroupWrapper
from rocketpy.store import layout
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.text_files import read_text
from rocketpy.store.index.file import HEADER_SIZE, IndexHeader, IndexLayout, unpack_index_header
from rocketpy.store.inspection.lock_probe import is_locked
from rocketpy.store.inspection.plain_files_disk import PlainFilesDisk
from rocketpy.store.inspection.verify.index_inspection import layout_of
from rocketpy.store.inspection.verify.inventory import CONFIG_DIRECTORY, Inventory, QueueFiles, read_inventory
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles

T = TypeVar("T")

CONSUMER_OFFSET_FILE = "consumerOffset.json"
DELAY_OFFSET_FILE = "delayOffset.json"
TOPICS_FILE = "topics.json"
GROUPS_FILE = "subscriptionGroup.json"


@attrs.frozen
class ListedIndexFile:
    """A file of the key index. ``layout`` is None where the numbers of slots and entries cannot be told."""

    path: str
    layout: IndexLayout | None
    header: IndexHeader


@attrs.frozen(kw_only=True)
class BrokerTables:
    """The tables in ``config/``. A table without a file is None; ``unreadable`` has the malformed ones, and why."""

    offsets: Mapping[str, Mapping[int, int]] | None = None
    """``topic@group`` -> queue id -> the next queue offset to consume."""
    delay: DelayProgress | None = None
    topics: frozenset[str] | None = None
    retry_max_times: Mapping[str, int] | None = None
    """Consumer group -> how often a message may be sent back."""
    unreadable: tuple[tuple[str, str], ...] = ()


@attrs.frozen(kw_only=True)
class StoreFiles:
    """What the driver knows of a store."""

    path: str
    log_min_offset: int
    """Physical offset at which the log begins."""
    queues: tuple[QueueFiles, ...]
    extensions: Mapping[tuple[str, int], QueueFiles]
    index_files: tuple[ListedIndexFile, ...]
    deleted_before: Mapping[str, int]
    """Topic -> physical offset before which its records were deleted with the topic."""
    tables: BrokerTables
    is_live: bool
    """Whether a broker in another process has the store open."""


def list_store(path: str) -> StoreFiles:
    """List a store directory. :class:`SettingsError` where there is none."""
    disk = PlainFilesDisk()
    try:
        inventory = read_inventory(disk, path)
    except StoreError as error:
        raise SettingsError(f"expected a store directory at {path}: {error}") from error
    opened = ReadOnlyFiles(disk)
    try:
        index_files = tuple(_index_file(opened, each.path, each.size) for each in inventory.index_files)
    finally:
        opened.close()
    return StoreFiles(
        path=inventory.root,
        log_min_offset=inventory.log_min_offset,
        queues=tuple(queue for _, queue in sorted(inventory.queues.items()) if queue.files),
        extensions=inventory.extensions,
        index_files=tuple(sorted(index_files, key=lambda each: each.path)),
        deleted_before=inventory.deleted_before,
        tables=read_tables(disk, inventory),
        is_live=is_locked(inventory.path_in_root(layout.LOCK_FILE)),
    )


def _index_file(opened: ReadOnlyFiles, path: str, size: int) -> ListedIndexFile:
    header = unpack_index_header(opened.read(path, 0, HEADER_SIZE))
    index_layout = layout_of(opened, path, size)
    if index_layout is not None and header.index_count > index_layout.entry_count:
        index_layout = None
    return ListedIndexFile(path, index_layout, header)


def read_tables(disk: Disk, inventory: Inventory) -> BrokerTables:
    """Return the tables that the broker of a store has written."""
    unreadable: list[tuple[str, str]] = []

    def load(name: str, decode: Callable[[object], T]) -> T | None:
        path = inventory.path_in_root(f"{CONFIG_DIRECTORY}/{name}")
        why = None
        for candidate in (path, path + ".bak"):
            text = read_text(disk, candidate) or ""
            if not text.strip():
                continue
            try:
                return decode(fastjson.loads(text, references=False))
            except RemoteProtocolError as error:
                why = why or str(error)
        if why is not None:
            unreadable.append((path, why))
        return None

    has_light = os.path.exists(inventory.path_in_root(f"{CONFIG_DIRECTORY}/{LMQ_FILE_NAME}"))
    offsets = load(LMQ_FILE_NAME if has_light else CONSUMER_OFFSET_FILE, decode_offset_table)
    delay = load(DELAY_OFFSET_FILE, decode_delay_progress)
    topics = load(TOPICS_FILE, _decode_topics)
    groups = load(GROUPS_FILE, _decode_groups)
    return BrokerTables(
        offsets=offsets, delay=delay, topics=topics, retry_max_times=groups, unreadable=tuple(unreadable)
    )


def _decode_topics(content: object) -> frozenset[str]:
    return frozenset(map(str, _object_in(content, "topicConfigTable")))


def _decode_groups(content: object) -> dict[str, int]:
    table = decode_value(content, SubscriptionGroupWrapper).subscription_group_table
    return {name: group.retry_max_times for name, group in table.items()}


def _object_in(content: object, name: str) -> Mapping[object, object]:
    value = content.get(name) if isinstance(content, Mapping) else None
    if not isinstance(value, Mapping):
        raise RemoteProtocolError(f"expected an object with {name}")
    return value
