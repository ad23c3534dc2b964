"""Small stores of chosen records, written without a broker: CommitLog files, ConsumeQueues, and what should be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_message, encode_blank, encode_message
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.index.file import IndexLayout, create_index_file
from rocketpy.store.index.hash import hash_index_key
from rocketpy.store.layout import UNIT, UNIT_SIZE

FILE_SIZE = 4096
QUEUE_FILE_SIZE = 10 * UNIT_SIZE
START_MS = 1_700_000_000_000
INDEX_LAYOUT = IndexLayout(10, 41)


@attrs.frozen
class Spec:
    """A message to be stored. ``decoy``: its body holds a whole record that names its own position as its offset."""

    body_size: int = 20
    topic: str = "T"
    queue_id: int = 0
    ipv6: bool = False
    decoy: bool = False
    keys: str = ""
    tags: str = "A"


@attrs.define
class BuiltStore:
    """A store on disk. ``records`` are the physical offset and bytes of each, in order."""

    root: Path
    records: list[tuple[int, bytes]] = attrs.field(factory=list)

    @property
    def offsets(self) -> list[int]:
        """The physical offsets of all records."""
        return [offset for offset, _ in self.records]

    def log_file(self, number: int) -> Path:
        """Return one of the CommitLog files."""
        return sorted((self.root / "commitlog").iterdir())[number]

    def spoil(self, physical_offset: int, content: bytes) -> None:
        """Overwrite bytes of the log."""
        path = self.root / "commitlog" / f"{physical_offset // FILE_SIZE * FILE_SIZE:020d}"
        with path.open("r+b") as file:
            file.seek(physical_offset % FILE_SIZE)
            file.write(content)


def record(physical_offset: int, spec: Spec = Spec(), queue_offset: int = 0, number: int = 0) -> bytes:
    """Return the record of a message at a physical offset."""
    head = 112 if spec.ipv6 else 88
    body = b"x" * spec.body_size
    if spec.decoy:
        inner = record(physical_offset + head, Spec(topic=spec.topic, queue_id=spec.queue_id), queue_offset)
        body = inner + record(physical_offset + head + len(inner), Spec(topic=spec.topic), queue_offset + 1)
    message = MessageExt(
        topic=spec.topic,
        body=body,
        properties={"UNIQ_KEY": f"{number:032X}", "TAGS": spec.tags} | ({"KEYS": spec.keys} if spec.keys else {}),
        queue_id=spec.queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        born_timestamp=START_MS + number,
        born_host="[2001:db8::1]:5000" if spec.ipv6 else "10.0.0.1:5000",
        store_timestamp=START_MS + 1000 * number,
        store_host="[2001:db8::2]:10911" if spec.ipv6 else "10.0.0.2:10911",
    )
    return encode_message(message)


def build_store(root: Path, specs: Iterable[Spec], *, preallocated: int = 1, with_queues: bool = True) -> BuiltStore:
    """Write a store as a broker would have, with some empty files after the last record's."""
    store = BuiltStore(root)
    files, queues, next_offsets = [bytearray()], {}, {}
    for number, spec in enumerate(specs):
        queue = (spec.topic, spec.queue_id)
        queue_offset = next_offsets.get(queue, 0)
        size = len(record(0, spec, queue_offset, number))
        if len(files[-1]) + size + 8 > FILE_SIZE:
            files[-1] += encode_blank(FILE_SIZE - len(files[-1]))
            files[-1] += b"\x5a" * (FILE_SIZE - len(files[-1]))
            files.append(bytearray())
        offset = (len(files) - 1) * FILE_SIZE + len(files[-1])
        content = record(offset, spec, queue_offset, number)
        files[-1] += content
        store.records.append((offset, content))
        queues.setdefault(queue, bytearray()).extend(UNIT.pack(offset, size, 0))
        next_offsets[queue] = queue_offset + 1
    write_log(root / "commitlog", [*map(bytes, files), *[b""] * preallocated])
    if with_queues:
        for (topic, queue_id), units in queues.items():
            write_queue(root / "consumequeue" / topic / str(queue_id), bytes(units))
    return store


def write_log(directory: Path, files: Sequence[bytes]) -> Path:
    """Write files of one size, the rest of each filled with zeros."""
    directory.mkdir(parents=True)
    for number, content in enumerate(files):
        (directory / f"{number * FILE_SIZE:020d}").write_bytes(content.ljust(FILE_SIZE, b"\0"))
    return directory


def write_queue(directory: Path, units: bytes) -> None:
    """Write the files of a ConsumeQueue, the last one preallocated."""
    directory.mkdir(parents=True)
    for start in range(0, len(units) + 1, QUEUE_FILE_SIZE):
        content = units[start : start + QUEUE_FILE_SIZE].ljust(QUEUE_FILE_SIZE, b"\0")
        (directory / f"{start:020d}").write_bytes(content)


def write_index(store: BuiltStore, records: slice) -> Path:
    """Write one file of the index with the keys of some records, as a broker does; it has room for 40."""
    path = store.root / "index" / f"{20260101000000000 + (records.start or 0)}"
    path.parent.mkdir(exist_ok=True)
    file = create_index_file(OsDisk(), str(path), f"{path}.tmp", INDEX_LAYOUT, None)
    for offset, content in store.records[records]:
        message = decode_message(content)
        keys = [message.properties["UNIQ_KEY"], *message.properties.get("KEYS", "").split()]
        hashes = [hash_index_key(message.topic, key) for key in keys]
        file.put(hashes, [offset] * len(keys), [message.store_timestamp] * len(keys))
    file.close()
    return path
