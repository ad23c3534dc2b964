"""A store that Java wrote, to be damaged in known ways; and short words for looking at one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import attrs

from rocketpy.protocol.stored_message import CheckedMessage
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.inspection.repair.kept_pieces import KEPT_PREFIX
from rocketpy.store.inspection.verify.findings import Finding
from rocketpy.store.inspection.verify.store_inspection import StoreInspection
from tests.store.golden_store import records, unpack_store

FILE_SIZE = 65536
QUEUE_FILE_SIZE = 6000
RECORD = 100  # the number of the record that is damaged, in the middle of the first file


@attrs.frozen
class BrokenStore:
    """A store on this disk."""

    root: Path

    def log_file(self, base_offset: int) -> Path:
        return self.root / "commitlog" / f"{base_offset:020d}"

    def queue_file(self, topic: str, base_offset: int = 0, queue_id: int = 0) -> Path:
        return self.root / "consumequeue" / topic / str(queue_id) / f"{base_offset:020d}"

    def index_file(self, number: int) -> Path:
        return sorted((self.root / "index").iterdir())[number]

    def overwrite(self, path: Path, position: int, content: bytes) -> None:
        with path.open("r+b") as file:
            file.seek(position)
            file.write(content)

    def flip(self, path: Path, position: int, bits: int = 1) -> None:
        self.overwrite(path, position, bytes((path.read_bytes()[position] ^ bits,)))

    def flip_log(self, physical_offset: int, bits: int = 1) -> None:
        base_offset = physical_offset // FILE_SIZE * FILE_SIZE
        self.flip(self.log_file(base_offset), physical_offset - base_offset, bits)

    def records(self) -> list[CheckedMessage]:
        """The valid records up to the first damage."""
        return list(records(self.root))

    def record(self) -> CheckedMessage:
        """The one that is damaged, before it is."""
        return self.records()[RECORD]

    def kept(self) -> dict[str, bytes]:
        """The pieces that repairs have kept."""
        return {path.name: path.read_bytes() for path in sorted(self.root.glob(f"{KEPT_PREFIX}*/0*")) if path.is_file()}

    def inspect(self) -> StoreInspection:
        return inspect(OsDisk(), str(self.root))

    def severe(self) -> list[Finding]:
        return severe(OsDisk(), str(self.root))


def unpack(name: str, directory: Path) -> BrokenStore:
    """Return a store to be damaged."""
    return BrokenStore(unpack_store(name, directory))


def inspect(disk: Disk, root: str, *, is_live: bool = False) -> StoreInspection:
    """Look at all of a store."""
    inspection = StoreInspection(disk, root, is_live=is_live)
    for _ in inspection.run():
        pass
    inspection.close()
    return inspection


def severe(disk: Disk, root: str) -> list[Finding]:
    """Return the severe findings."""
    return [finding for finding in inspect(disk, root).findings if finding.severity.is_severe]


# ---- damages --------------------------------------------------------------------------------------------------------


def flip_body(store: BrokenStore) -> None:
    store.flip_log(store.record().physical_offset + 90)


def flip_queue_offset(store: BrokenStore) -> None:
    store.flip_log(store.record().physical_offset + 27, 4)


def flip_topic(store: BrokenStore) -> None:
    record = store.record()
    content = store.log_file(0).read_bytes()
    store.flip_log(content.index(record.topic.encode(), record.physical_offset))


def flip_total_size(store: BrokenStore) -> None:
    store.flip_log(store.record().physical_offset + 3, 4)


def flip_physical_offset(store: BrokenStore) -> None:
    store.flip_log(store.record().physical_offset + 34)


def garbage_in_log(store: BrokenStore) -> None:
    store.overwrite(store.log_file(FILE_SIZE), 5000, Random(1).randbytes(4096))


def zeros_up_to_file_end(store: BrokenStore) -> None:
    store.overwrite(store.log_file(FILE_SIZE), 30_000, bytes(FILE_SIZE - 30_000))


def remove_log_file(store: BrokenStore) -> None:
    store.log_file(FILE_SIZE).unlink()


def remove_two_log_files(store: BrokenStore) -> None:
    store.log_file(FILE_SIZE).unlink()
    store.log_file(2 * FILE_SIZE).unlink()


def shorten_log_file(store: BrokenStore) -> None:
    os.truncate(store.log_file(FILE_SIZE), 30_000)


def empty_log_file(store: BrokenStore) -> None:
    os.truncate(store.log_file(FILE_SIZE), 0)


def directory_for_log_file(store: BrokenStore) -> None:
    store.log_file(FILE_SIZE).unlink()
    store.log_file(FILE_SIZE).mkdir()


def garbage_without_queues(store: BrokenStore) -> None:
    garbage_in_log(store)
    shutil.rmtree(store.root / "consumequeue")


def garbage_without_a_topic(store: BrokenStore) -> None:
    garbage_in_log(store)
    shutil.rmtree(store.root / "consumequeue" / "GoldB")


def remove_log_file_and_queues(store: BrokenStore) -> None:
    remove_log_file(store)
    shutil.rmtree(store.root / "consumequeue")


def unit_elsewhere(store: BrokenStore) -> None:
    store.overwrite(store.queue_file("GoldB"), 40, (12_345).to_bytes(8, "big"))


def hole_in_queue(store: BrokenStore) -> None:
    store.overwrite(store.queue_file("GoldB", QUEUE_FILE_SIZE), 400, bytes(400))


def wrong_tags_code(store: BrokenStore) -> None:
    store.flip(store.queue_file("GoldB"), 59)


def remove_queue_file(store: BrokenStore) -> None:
    store.queue_file("GoldB", QUEUE_FILE_SIZE).unlink()


def remove_topic(store: BrokenStore) -> None:
    shutil.rmtree(store.root / "consumequeue" / "GoldB")


def shorten_queue_file(store: BrokenStore) -> None:
    os.truncate(store.queue_file("GoldB", QUEUE_FILE_SIZE), 3001)


def index_entry_elsewhere(store: BrokenStore) -> None:
    store.flip(store.index_file(0), 40 + 500 * 4 + 20 * 5 + 9)


def index_count_too_large(store: BrokenStore) -> None:
    store.overwrite(store.index_file(0), 36, b"\x7f\0\0\0")


def cut_table(store: BrokenStore) -> None:
    os.truncate(store.root / "config" / "topics.json", 100)


def garbage_in_checkpoint(store: BrokenStore) -> None:
    store.overwrite(store.root / "checkpoint", 0, b"\x7f")


LOG_DAMAGES: tuple[Callable[[BrokenStore], None], ...] = (
    flip_body,
    flip_queue_offset,
    flip_topic,
    flip_total_size,
    flip_physical_offset,
    garbage_in_log,
    zeros_up_to_file_end,
    remove_log_file,
    remove_two_log_files,
    shorten_log_file,
    empty_log_file,
    directory_for_log_file,
    garbage_without_queues,
    garbage_without_a_topic,
    remove_log_file_and_queues,
)
OTHER_DAMAGES: tuple[Callable[[BrokenStore], None], ...] = (
    unit_elsewhere,
    hole_in_queue,
    wrong_tags_code,
    remove_queue_file,
    remove_topic,
    shorten_queue_file,
    index_entry_elsewhere,
    index_count_too_large,
    cut_table,
    garbage_in_checkpoint,
)
