"""A master's store and a slave's without a network: messages of all kinds in one, pieces of its log for the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random

import attrs
import trio

from rocketpy.clock import Clock, ManualClock
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.properties import encode_properties, index_keys_of
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.append.batch import MessageBatch
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.ha.following_log import FollowingCommitLog
from rocketpy.store.ha.verified_stream import VerifiedPiece, VerifiedStream
from rocketpy.store.index.file import ENTRY, HEADER_SIZE, SLOT_SIZE
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.store_contents import delay_ms, tags_code_of
from tests.store.parts import BORN_HOST, BORN_HOST_V6, STORE_HOST, Place
from tests.turns import run_in_turn

FILE_SIZE = 4096
TOPICS = ("A", "B", "C")
KEYS_MAX = 12
_SLOT_COUNT = 20
_ENTRIES_POSITION = HEADER_SIZE + _SLOT_COUNT * SLOT_SIZE
_PREPARED, _COMMITTED, _ROLLED_BACK = 0x4, 0x8, 0xC


def config_of(place: Place, role: BrokerRole, **changes: object) -> MessageStoreConfig:
    config = MessageStoreConfig(
        store_path_root_dir=place.root,
        broker_role=role,
        mapped_file_size_commit_log=FILE_SIZE,
        mapped_file_size_consume_queue=400,
        mapped_file_size_consume_queue_ext=2048,
        max_hash_slot_num=_SLOT_COUNT,
        max_index_num=100,
        max_message_size=2048,
        flush_consume_queue_thorough_interval=3000,
        enable_multi_dispatch=True,
    )
    return attrs.evolve(config, **changes)  # type: ignore[arg-type]


@asynccontextmanager
async def opened_as(
    role: BrokerRole,
    place: Place,
    *,
    clock: Clock | None = None,
    store_host: bytes = STORE_HOST,
    message_arriving: Callable[[str, int, int], None] | None = None,
    **changes: object,
) -> AsyncIterator[MessageStore]:
    """Open a store in a role."""
    async with open_message_store(
        config_of(place, role, **changes),
        disk=place.disk,
        clock=clock or ManualClock(),
        run_blocking=run_in_turn,
        store_host=store_host,
        tags_code=tags_code_of,
        message_arriving=message_arriving,
        memory_bytes=1 << 40,
    ) as store:
        yield store


@attrs.define
class Producers:
    """Puts messages of every kind that a broker stores, and deletes topics."""

    store: MessageStore
    random: Random
    clock: ManualClock = attrs.Factory(ManualClock)
    topics: tuple[str, ...] = TOPICS
    number: int = 0

    def put_some(self, count: int) -> None:
        """Put that many, in bursts."""
        kinds = (self.plain, self.plain, self.plain, self.batch, self.transaction, self.delayed, self.named)
        for _ in range(count):
            self.clock.advance_ms(self.random.randrange(3))
            self.random.choice(kinds)()
            if self.random.random() < 0.5:
                self.store.end_burst()
        self.store.end_burst()

    def plain(self, *, topic: str | None = None, queue_id: int | None = None, sys_flag: int = 0) -> None:
        """Put a message with or without keys and tags, over IPv4 or IPv6."""
        properties = self._properties()
        status, _, _ = self.store.put(
            self.random.choice(self.topics) if topic is None else topic,
            self.random.randrange(2) if queue_id is None else queue_id,
            self._body(),
            encode_properties(properties).encode(),
            tags_code(properties.get("TAGS")),
            index_keys_of(properties),
            self.random.randrange(3),
            sys_flag,
            self.clock.timestamp_ms(),
            self.random.choice((BORN_HOST, BORN_HOST, BORN_HOST_V6)),
            0,
        )
        assert status is PutMessageStatus.PUT_OK, self.store.writable_or_why()

    def transaction(self) -> None:
        """Put a message as prepared, committed or rolled back: some have no queue offset, some no keys."""
        self.plain(sys_flag=self.random.choice((_PREPARED, _COMMITTED, _ROLLED_BACK)))

    def batch(self) -> None:
        """Put a batch."""
        records = []
        for _ in range(self.random.randrange(1, 5)):
            properties = self._properties()
            text = encode_properties(properties).encode()
            records.append((0, self._body(), text, tags_code(properties.get("TAGS")), index_keys_of(properties)))
        status, _, _ = self.store.put_batch(
            self.random.choice(self.topics), 0, MessageBatch.of(records), 0, self.clock.timestamp_ms(), BORN_HOST, 0
        )
        assert status is PutMessageStatus.PUT_OK, self.store.writable_or_why()

    def delayed(self) -> None:
        """Put a message whose unit has its time of delivery."""
        level = self.random.randrange(1, 4)
        properties = {"DELAY": str(level), "REAL_TOPIC": "A", "REAL_QID": "0", **self._properties()}
        status, _, _ = self.store.put_timed(
            SCHEDULE_TOPIC,
            level - 1,
            self._body(),
            encode_properties(properties).encode(),
            delay_ms(level),
            index_keys_of(properties),
            0,
            0,
            self.clock.timestamp_ms(),
            BORN_HOST,
            0,
        )
        assert status is PutMessageStatus.PUT_OK, self.store.writable_or_why()

    def named(self, *names: str) -> None:
        """Put a message that goes into more queues than its own."""
        chosen = names or self.random.sample(("%LMQ%x", "%LMQ%y", *self.topics), self.random.randrange(1, 3))
        properties = {**self._properties(), "INNER_MULTI_DISPATCH": ",".join(chosen)}
        status, _, _ = self.store.put(
            "N",
            0,
            self._body(),
            encode_properties(properties).encode(),
            tags_code(properties.get("TAGS")),
            index_keys_of(properties),
            0,
            0,
            self.clock.timestamp_ms(),
            BORN_HOST,
            0,
        )
        assert status is PutMessageStatus.PUT_OK, self.store.writable_or_why()

    def delete_topic(self) -> None:
        """Delete a topic; its next message gets queue offset 0 again."""
        self.store.delete_topic_queues(self.random.choice(self.topics))

    def _body(self) -> bytes:
        self.number += 1
        return b"%d:" % self.number + self.random.randbytes(self.random.randrange(120))

    def _properties(self) -> dict[str, str]:
        properties = {}
        if self.random.random() < 0.8:
            properties["UNIQ_KEY"] = f"u{self.number}"
        if self.random.random() < 0.5:
            properties["KEYS"] = " ".join(self.random.sample([f"k{each}" for each in range(KEYS_MAX)], 2))
        if self.random.random() < 0.6:
            properties["TAGS"] = self.random.choice(("red", "green", "blau und grün"))
        return properties


def log_of(slave: MessageStore) -> FollowingCommitLog:
    """Return the log of a slave's store."""
    assert slave.following_log is not None, "a slave"
    return slave.following_log


def pieces(
    master: MessageStore, begin_offset: int, *, random: Random | None = None, size_max: int = 1500
) -> Iterator[VerifiedPiece]:
    """Yield the log of a master from an offset on, in pieces as they arrive in parts of random sizes."""
    source = master.log_source
    stream = VerifiedStream(begin_offset, file_size=source.file_size)
    offset = begin_offset
    while offset < source.end_offset:
        part = source.read_nowait(offset, size_max if random is None else random.randrange(1, size_max))
        assert part, "it is in the cache, and in the log"
        offset += len(part)
        yield from stream.receive(part)


def follow(master: MessageStore, slave: MessageStore, *, begin_offset: int = 0, random: Random | None = None) -> None:
    """Bring a slave's log to the end of its master's; an empty one begins at ``begin_offset``."""
    log = log_of(slave)
    for piece in pieces(master, begin_offset if log.is_empty else log.end_offset, random=random):
        log.append(piece)


def log_bytes(store: MessageStore) -> tuple[int, bytes]:
    """Return the offset of a log and all its bytes."""
    source, content = store.log_source, b""
    while source.min_offset + len(content) < source.end_offset:
        part = source.read_nowait(source.min_offset + len(content), 1 << 20)
        assert part, "it is in the cache"
        content += part
    return source.min_offset, content


@attrs.frozen
class Dispatched:
    """What became of the records of a log: queues, and the answers of the index."""

    ends: dict[tuple[str, int], tuple[int, int]]
    units: dict[tuple[str, int], list[tuple[int, int, int]]]
    """Physical offset, size and tags code, in an extension or not."""
    found: dict[tuple[str, str], bytes]
    """For keys that many messages have."""
    keys: list[tuple[int, int]]
    """Hash and physical offset of each in the index."""
    queue_files: dict[str, bytes]
    """Not those of extensions: the addresses in them depend on what was stored before."""


async def dispatched(store: MessageStore, place: Place) -> Dispatched:
    """Return the queues and the index, once that is complete."""
    while store.index_behind:
        await trio.sleep(0.002)
    ends = {key: (store.min_offset_in_queue(*key), store.max_offset_in_queue(*key)) for key in store.queues()}
    found = {}
    for topic in (*TOPICS, "N", SCHEDULE_TOPIC):
        for key in (f"k{number}" for number in range(KEYS_MAX)):
            found[topic, key] = (await store.query_message(topic, key, 10_000, 0, 1 << 62)).body
    units = {key: await _units(store, *key) for key in ends}
    index_files = place.files(f"{place.root}/index").values()
    entries = (entry for content in index_files for entry in ENTRY.iter_unpack(content[_ENTRIES_POSITION:]))
    keys = sorted(entry[:2] for entry in entries if any(entry))
    has_ext = place.disk.is_directory(f"{place.root}/consumequeue_ext")
    return Dispatched(ends, units, found, keys, {} if has_ext else place.files(place.consume_queue))


async def _units(store: MessageStore, topic: str, queue_id: int) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    queue_offset, end = store.min_offset_in_queue(topic, queue_id), store.max_offset_in_queue(topic, queue_id)
    while queue_offset < end:
        listing = await store.list_units(topic, queue_id, queue_offset, end - queue_offset)
        assert listing is not None
        assert listing.units, (topic, queue_id, queue_offset)
        for unit in listing.units:
            tags = unit.tags_code if unit.ext is None else unit.ext.tags_code
            found.append((unit.physical_offset, unit.size, tags))
        queue_offset += len(listing.units)
    return found


async def recovered(place: Place, **changes: object) -> Dispatched:
    """Return what recovery makes of the log of a store, from nothing but its files."""
    copy = Place(SimDisk(), "/copy")
    for name, content in place.files(place.commit_log).items():
        copy.write(f"{copy.commit_log}/{name}", content)
    async with opened_as(BrokerRole.SLAVE, copy, **changes) as store:
        return await dispatched(store, copy)
