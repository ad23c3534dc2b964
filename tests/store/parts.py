"""A store taken apart, for tests: the same parts as in ``open_message_store``, without services and without Trio."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import attrs

from rocketpy import BUILD
from rocketpy.clock import ManualClock
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.append.appender import MessageAppender
from rocketpy.store.append.options import AppendOptions
from rocketpy.store.append.transient_store_pool import TransientStorePool
from rocketpy.store.append.unit_extensions import UnitExtensions
from rocketpy.store.disk.interface import Disk
from rocketpy.store.files.mapped_file import OpenFiles
from rocketpy.store.index.feed import IndexWork
from rocketpy.store.index.kernels import IndexKernels
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.log.directories import LogDirectories
from rocketpy.store.queue.extension import BitMapOf, ExtLocation
from rocketpy.store.queue.multi_dispatch import MultiDispatch
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.read.message_reader import MessageReader
from rocketpy.store.read.queue_scan import ReadLimits
from rocketpy.store.read.steps import read_now
from rocketpy.store.recovery.checkpoint import DurableEnds, StoreCheckpoint
from rocketpy.store.recovery.last_stop import LastStop
from rocketpy.store.recovery.marker_files import RecoveryMark
from rocketpy.store.recovery.recovery import RecoveryReport, StoreRecovery
from rocketpy.store.results import GetMessageResult, MessageFilter, PutMessageStatus

BORN_HOST = bytes((10, 0, 0, 1)) + (50_000).to_bytes(4, "big")
BORN_HOST_V6 = bytes(range(16)) + (50_000).to_bytes(4, "big")
STORE_HOST = bytes((10, 0, 0, 2)) + (10_911).to_bytes(4, "big")
STORE_HOST_V6 = bytes(range(16, 32)) + (10_911).to_bytes(4, "big")
LOG_FILE_SIZE = 8192
QUEUE_FILE_SIZE = 400  # 20 units
LIMITS = ReadLimits(
    bytes_in_memory=262_144, count_in_memory=32, bytes_in_disk=65_536, count_in_disk=8, memory_bytes=1 << 40
)


@attrs.frozen
class Place:
    """A disk, and a directory on it."""

    disk: Disk
    root: str

    @property
    def commit_log(self) -> str:
        return f"{self.root}/commitlog"

    @property
    def consume_queue(self) -> str:
        return f"{self.root}/consumequeue"

    def log_file(self, base_offset: int = 0) -> str:
        return f"{self.commit_log}/{base_offset:020d}"

    def queue_file(self, topic: str, queue_id: int, base_offset: int = 0) -> str:
        return f"{self.consume_queue}/{topic}/{queue_id}/{base_offset:020d}"

    def read(self, path: str) -> bytes:
        """Return a whole file."""
        file = self.disk.open(path, read_only=True)
        content = file.read(0, file.size())
        file.close()
        return content

    def write(self, path: str, content: bytes, position: int = 0) -> None:
        """Write into a file, made if it is missing."""
        self.disk.make_directories(path.rpartition("/")[0])
        file = self.disk.open(path, create=True)
        file.write(position, content)
        file.close()

    def remove_tree(self, path: str) -> None:
        """Delete a directory with everything in it, or a file."""
        if not self.disk.is_directory(path):
            self.disk.unlink(path)
            return
        for name in self.disk.list_directory(path):
            self.remove_tree(f"{path}/{name}")
        self.disk.remove_directory(path)

    def files(self, path: str) -> dict[str, bytes]:
        """Return every file below a directory with its content, by path from there."""
        found: dict[str, bytes] = {}
        for name in self.disk.list_directory(path):
            below = f"{path}/{name}"
            if self.disk.is_directory(below):
                found |= {f"{name}/{each}": content for each, content in self.files(below).items()}
            else:
                found[name] = self.read(below)
        return found


class PlainAllocator:
    """Creates CommitLog files when they are taken, and records the requests to prepare."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.prepared: list[str] = []

    def prepare(self, path: str, size: int) -> None:
        self.prepared.append(path)

    def discard(self) -> None:
        self.prepared.clear()

    def take(self, path: str, size: int) -> None:
        staged = f"{path.rpartition('/')[0]}.staged"
        file = self._disk.open(staged, create=True)
        file.truncate(0)
        file.reserve(0, size)
        file.sync()
        file.close()
        self._disk.rename(staged, path)
        self._disk.sync_directory(path.rpartition("/")[0])


class PlainIndex:
    """Keeps what it is given, and can say that it has no space."""

    def __init__(self) -> None:
        self.pending: list[IndexWork] = []
        self.packed: list[tuple[int, ...]] = []
        """What the kernels have read: hash, physical offset and timestamp of each key."""
        self.burst_count = 0
        self.has_packed: list[bool] = []
        """Of each burst."""
        self.no_space: str | None = None

    def end_burst(self, *, has_packed: bool = False) -> None:
        self.burst_count += 1
        self.has_packed.append(has_packed)

    def build_packed(self, keys: bytes, kernels: IndexKernels) -> None:
        self.packed += struct.iter_unpack(">iqq", keys)

    def writable_or_why(self) -> str | None:
        return self.no_space

    @property
    def is_full(self) -> bool:
        return False

    def build_slice(self) -> None:
        raise AssertionError("it is never full")


class Parts:
    """The parts of one store, recovered and ready to append."""

    def __init__(
        self,
        place: Place,
        *,
        is_clean: bool = True,
        durable_before_ms: int = 0,
        log_file_size: int = LOG_FILE_SIZE,
        queue_file_size: int = QUEUE_FILE_SIZE,
        message_size_max: int = 4096,
        store_host: bytes = STORE_HOST,
        clock: ManualClock | None = None,
        durable_ends: DurableEnds | None = None,
        rewrite: bool = False,
        limits: ReadLimits = LIMITS,
        open_max: int = 100,
        corrects_offsets: bool = True,
        ext_location: ExtLocation | None = None,
        unit_extensions: UnitExtensions | None = None,
        bit_map_of: BitMapOf | None = None,
        has_multi_dispatch: bool = False,
        pool: TransientStorePool | None = None,
        hands_over_to_index: bool = True,
        has_kernels: bool = BUILD.has_kernels,
    ) -> None:
        self.place = place
        self.clock = clock or ManualClock()
        self.index = PlainIndex()
        self.index_work = self.index.pending
        self.arrivals: list[tuple[str, int, int]] = []
        self.open_files = OpenFiles(disk=place.disk, open_max=open_max)
        self.commit_log = CommitLog(
            directories=LogDirectories([place.commit_log]),
            disk=place.disk,
            open_files=self.open_files,
            file_size=log_file_size,
        )
        self.queues = ConsumeQueueTable(
            path=place.consume_queue,
            disk=place.disk,
            open_files=self.open_files,
            file_size=queue_file_size,
            ext_location=ext_location,
        )
        self.recovery = StoreRecovery(
            disk=place.disk,
            commit_log=self.commit_log,
            queues=self.queues,
            tags_code=_tags_code,
            bit_map_of=bit_map_of,
            last_stop=LastStop(seems_clean=is_clean, durable_before_ms=durable_before_ms, ends=durable_ends, note=None),
            checkpoint=StoreCheckpoint(place.disk, f"{place.root}/checkpoint", ends=durable_ends),
            check_crc=True,
            rewrite=rewrite,
            is_multi_dispatch=has_multi_dispatch,
            mark=(mark := RecoveryMark(place.disk, f"{place.root}/recovering")),
        )
        place.disk.make_directories(place.root)
        self.slices = sum(1 for _ in self.recovery.run())
        mark.remove()
        self.report: RecoveryReport = self.recovery.report
        self.allocator = PlainAllocator(place.disk)
        self.commit_log.open_at(
            self.report.end_offset,
            timestamp_ms=max(self.report.timestamp_ms, durable_before_ms + 3000),
            allocator=self.allocator,
        )
        self.appender = MessageAppender(
            commit_log=self.commit_log,
            queues=self.queues,
            clock=self.clock,
            options=AppendOptions(
                store_host=store_host,
                message_size_max=message_size_max,
                multi_dispatch=MultiDispatch(queues=self.queues) if has_multi_dispatch else None,
                unit_extensions=unit_extensions,
                pool=pool,
            ),
            index=self.index,
            message_arriving=lambda *arrival: self.arrivals.append(arrival),
            has_kernels=has_kernels,
        )
        if hands_over_to_index:
            self.appender.hand_over_to_index()
        self.reader = MessageReader(
            commit_log=self.commit_log, queues=self.queues, limits=limits, corrects_offsets=corrects_offsets
        )

    def put(
        self,
        body: bytes,
        topic: str = "TopicTest",
        queue_id: int = 0,
        *,
        properties: bytes = b"TAGS\x01TagA",
        tags: str = "TagA",
        keys: Sequence[bytes] = (),
        flag: int = 0,
        sys_flag: int = 0,
        born_host: bytes = BORN_HOST,
        born_timestamp: int = 1_600_000_000_000,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
    ) -> tuple[PutMessageStatus, int, int]:
        """Put one message; the burst goes on."""
        return self.appender.put(
            topic,
            queue_id,
            body,
            properties,
            tags_code(tags),
            keys,
            flag,
            sys_flag,
            born_timestamp,
            born_host,
            reconsume_times,
            prepared_transaction_offset,
        )

    def put_all(self, bodies: Sequence[bytes], topic: str = "TopicTest", queue_id: int = 0) -> list[int]:
        """Put messages in one burst and end it; return their physical offsets."""
        physical_offsets = []
        for body in bodies:
            status, physical_offset, _ = self.put(body, topic, queue_id)
            assert status is PutMessageStatus.PUT_OK
            physical_offsets.append(physical_offset)
        self.appender.end_burst()
        return physical_offsets

    def get(
        self,
        queue_offset: int = 0,
        topic: str = "TopicTest",
        queue_id: int = 0,
        *,
        max_msg_nums: int = 32,
        message_filter: MessageFilter | None = None,
    ) -> GetMessageResult:
        """Read from a queue, cold or not."""
        return read_now(self.reader.get_message(topic, queue_id, queue_offset, max_msg_nums, message_filter))

    def messages(self, topic: str = "TopicTest", queue_id: int = 0) -> list[MessageExt]:
        """Return everything in a queue, checking that offsets are consecutive."""
        queue = self.queues.find(topic, queue_id)
        messages: list[MessageExt] = []
        queue_offset = queue.min_offset
        while queue_offset < queue.max_offset:
            result = self.get(queue_offset, topic, queue_id)
            found = decode_messages(result.body)
            assert [each.queue_offset for each in found] == list(range(queue_offset, result.next_begin_offset))
            messages += found
            queue_offset = result.next_begin_offset
        return messages

    def bodies(self, topic: str = "TopicTest", queue_id: int = 0) -> list[bytes]:
        """Return the bodies of everything in a queue."""
        return [message.body for message in self.messages(topic, queue_id)]

    def flush(self) -> None:
        """End the burst, and make log and queues durable."""
        self.appender.end_burst()
        if (flush_range := self.commit_log.begin_flush()) is not None:
            flush_range.sync()
            self.commit_log.end_flush(flush_range, is_synced=True)
        flush_queues(self.queues)

    def close(self) -> None:
        """Shut down cleanly: everything durable, every descriptor closed."""
        self.flush()
        self.open_files.close_all()

    def kill(self) -> None:
        """End as SIGKILL does: what was not written in an ended burst is gone."""
        self.open_files.close_all()


def flush_queues(queues: ConsumeQueueTable) -> list[int]:
    """Make all queues durable; return how many were in each range."""
    counts = []
    while (flush_range := queues.begin_flush()) is not None:
        flush_range.sync()
        queues.end_flush(flush_range, is_synced=True)
        counts.append(len(flush_range.queues))
    return counts


def _tags_code(topic: str, properties: Mapping[str, str], store_timestamp_ms: int) -> int:
    return tags_code(properties.get("TAGS"))
