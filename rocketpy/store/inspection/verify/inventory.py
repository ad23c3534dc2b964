"""Inventory of a store directory: its files, and which of them are unexpected. Reads names and lengths, no contents.

A log or queue file begins at the offset in its name. Its nominal length follows from its neighbours: up to the next
file, but not more than the usual file size of this store. A remaining gap between two files is a missing file.

Nominal lengths are not those of a start, on purpose. A start takes a file as it is, refuses a log with a gap and drops
the queue files after one. An inspection has to say what is missing, and does not know the configured file size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import attrs

from rocketpy.errors import StoreError
from rocketpy.store import layout
from rocketpy.store.disk.interface import Disk
from rocketpy.store.files.mapped_file_queue import begins_inside
from rocketpy.store.inspection.verify.findings import NOTHING, Finding, Severity

CONFIG_DIRECTORY = "config"
_FOREIGN_START = "rocketpy ignores it; a Java broker may not start with it"


@attrs.frozen
class StoreFile:
    """A numbered file: ``size`` is its nominal length, ``length`` its actual length."""

    path: str
    base_offset: int
    size: int
    length: int

    @property
    def end_offset(self) -> int:
        """The offset at which the next file begins."""
        return self.base_offset + self.size


@attrs.frozen
class QueueFiles:
    """The files of one queue, in order."""

    topic: str
    queue_id: int
    path: str
    files: tuple[StoreFile, ...]

    @property
    def min_offset(self) -> int:
        """The first queue offset that the files have room for."""
        return self.files[0].base_offset // layout.UNIT_SIZE if self.files else 0

    @property
    def end_offset(self) -> int:
        """The queue offset after the last unit that the files have room for."""
        return self.files[-1].end_offset // layout.UNIT_SIZE if self.files else 0


@attrs.frozen
class IndexFiles:
    """An index file and its length."""

    path: str
    size: int


@attrs.define(eq=False)
class Inventory:
    """The files of one store."""

    root: str
    commit_log_paths: tuple[str, ...]
    log_files: list[StoreFile] = attrs.field(factory=list)
    usual_log_size: int = 0
    log_leftovers: list[str] = attrs.field(factory=list)
    """Empty files at the end of the log."""
    misplaced: list[str] = attrs.field(factory=list)
    """Directories that have the name of a file, and files whose names lie within others."""
    queues: dict[tuple[str, int], QueueFiles] = attrs.field(factory=dict)
    extensions: dict[tuple[str, int], QueueFiles] = attrs.field(factory=dict)
    deleted_before: dict[str, int] = attrs.field(factory=dict)
    """Records of a topic before this physical offset were deleted with it."""
    index_files: list[IndexFiles] = attrs.field(factory=list)
    config_files: list[str] = attrs.field(factory=list)
    """The JSON files, without their ``.bak``."""
    findings: list[Finding] = attrs.field(factory=list)

    @property
    def log_min_offset(self) -> int:
        """The physical offset at which the log begins."""
        return self.log_files[0].base_offset if self.log_files else 0

    @property
    def log_bytes(self) -> int:
        """The bytes of the log to inspect."""
        return sum(min(file.size, file.length) for file in self.log_files)

    def path_in_root(self, name: str) -> str:
        """Return the path of a file of the store's directory."""
        return f"{self.root}/{name}"


def default_commit_log_paths(root: str) -> tuple[str, ...]:
    """Return the directories of the log unless others are configured."""
    return (f"{root}/{layout.COMMIT_LOG_DIRECTORY}",)


def read_inventory(disk: Disk, root: str, commit_log_paths: Sequence[str] = ()) -> Inventory:
    """List all files. StoreError only if ``root`` itself is no directory."""
    root = root.rstrip("/") or "/"
    if not disk.is_directory(root):
        raise StoreError("expected a directory of a store, found none", path=root)
    inventory = Inventory(root, tuple(commit_log_paths) or default_commit_log_paths(root))
    _find_log(disk, inventory)
    _find_queues(disk, inventory, layout.CONSUME_QUEUE_DIRECTORY, inventory.queues)
    _find_queues(disk, inventory, layout.CONSUME_QUEUE_EXT_DIRECTORY, inventory.extensions)
    _find_index(disk, inventory)
    config_path = inventory.path_in_root(CONFIG_DIRECTORY)
    names = {name.removesuffix(".bak") for name in disk.list_directory(config_path)}
    inventory.config_files = sorted(f"{config_path}/{name}" for name in names if name.endswith(".json"))
    return inventory


# ---- the log --------------------------------------------------------------------------------------------------------


def _find_log(disk: Disk, inventory: Inventory) -> None:
    found: dict[int, tuple[str, int]] = {}
    for directory in inventory.commit_log_paths:
        for path, base_offset, length in _numbered_files(disk, directory, inventory):
            other = found.get(base_offset)
            if other is not None:
                inventory.findings.append(
                    Finding(
                        severity=Severity.ERROR,
                        path=path,
                        expected="one file of each name in all directories of the log",
                        found=f"another one: {other[0]}",
                        start="refuses the store",
                        repair=NOTHING,
                    )
                )
            else:
                found[base_offset] = path, length
    listed = [(path, base_offset, length) for base_offset, (path, length) in sorted(found.items())]
    while listed and not listed[-1][2]:
        path, _, _ = listed.pop()
        inventory.log_leftovers.append(path)
        inventory.findings.append(
            Finding(
                severity=Severity.NOTICE,
                path=path,
                expected="a file of full length",
                found="no bytes: a crash while it was created",
                start="removes it; a Java broker does not start with it",
                repair="removes it",
            )
        )
    listed = _without_intruders(listed, inventory)
    inventory.log_files, inventory.usual_log_size = measured(listed)
    for index, file in enumerate(inventory.log_files):
        is_last = index == len(inventory.log_files) - 1
        if file.length != file.size:
            inventory.findings.append(_wrong_length(file, is_last=is_last))


def _without_intruders(listed: Sequence[tuple[str, int, int]], inventory: Inventory) -> list[tuple[str, int, int]]:
    """Return the files without those that begin inside the previous one.

    If the store has other files of that shorter length, the previous file is too long instead, and both are kept.
    """
    lengths = {length for _, _, length in listed}
    kept: list[tuple[str, int, int]] = []
    for path, base_offset, length in listed:
        if kept:
            previous_path, previous_base, previous_length = kept[-1]
            allowed = base_offset - previous_base
            if begins_inside(previous_length, allowed, lengths):
                inventory.misplaced.append(path)
                inventory.findings.append(
                    Finding(
                        severity=Severity.ERROR,
                        path=path,
                        expected=f"no file before offset {previous_base + previous_length}, where {previous_path} ends",
                        found=f"one that begins at {base_offset}",
                        start="refuses the store",
                        repair="moves it away",
                    )
                )
                continue
        kept.append((path, base_offset, length))
    return kept


def measured(listed: Sequence[tuple[str, int, int]], *, usual_elsewhere: int = 0) -> tuple[list[StoreFile], int]:
    """Return files of (path, base offset, length) with their nominal sizes, and the usual size.

    For a single file the usual size of other queues in the store is the better estimate.
    """
    if not listed:
        return [], 0
    counts = Counter(length for _, _, length in listed if length)
    for (_, base_offset, length), (_, following, _) in pairwise(listed):
        counts[following - base_offset] += length != following - base_offset
    usual = max(counts, key=lambda size: (counts[size], size)) if counts else usual_elsewhere
    if len(listed) == 1 and usual < usual_elsewhere:
        usual = usual_elsewhere
    files = []
    for index, (path, base_offset, length) in enumerate(listed):
        size = max(length, usual)
        if index + 1 < len(listed):
            size = min(size, listed[index + 1][1] - base_offset)
        files.append(StoreFile(path, base_offset, size, length))
    return files, usual


def _wrong_length(file: StoreFile, *, is_last: bool) -> Finding:
    is_short = file.length < file.size
    if is_short and is_last:
        start = "extends it; a Java broker does not start with it"
    elif is_short:
        start = "refuses the store: what is missing was written"
    else:
        start = "reads it as far as the next file; a Java broker does not start with it"
    return Finding(
        severity=Severity.ERROR if is_short and not is_last else Severity.NOTICE,
        path=file.path,
        position=min(file.length, file.size),
        expected=f"a length of {file.size}",
        found=f"{file.length}",
        start=start,
        repair="extends it" if is_short else "truncates it to that length",
    )


# ---- queues and index -----------------------------------------------------------------------------------------------


def _find_queues(disk: Disk, inventory: Inventory, name: str, queues: dict[tuple[str, int], QueueFiles]) -> None:
    root = inventory.path_in_root(name)
    found: list[tuple[str, int, str, list[tuple[str, int, int]]]] = []
    for topic in disk.list_directory(root):
        topic_path = f"{root}/{topic}"
        if not disk.is_directory(topic_path):
            inventory.findings.append(_foreign(topic_path, "a directory named like a topic"))
            continue
        for entry in disk.list_directory(topic_path):
            path = f"{topic_path}/{entry}"
            if (physical_offset := layout.deletion_of(entry)) is not None:
                inventory.deleted_before[topic] = physical_offset
            elif (queue_id := layout.queue_id_of(entry)) is not None and disk.is_directory(path):
                listed = sorted(_numbered_files(disk, path, inventory), key=lambda each: each[1])
                found.append((topic, queue_id, path, listed))
            elif not entry.endswith(".staged"):
                inventory.findings.append(_foreign(path, "a directory named like a queue id"))
    counts = Counter(length for _, _, _, listed in found for _, _, length in listed)
    usual = max(counts, key=lambda size: (counts[size], size), default=0)
    for topic, queue_id, path, listed in found:
        files, _ = measured(listed, usual_elsewhere=usual)
        queues[topic, queue_id] = QueueFiles(topic, queue_id, path, tuple(files))


def _find_index(disk: Disk, inventory: Inventory) -> None:
    path = inventory.path_in_root(layout.INDEX_DIRECTORY)
    for name in disk.list_directory(path):
        if name.isascii() and name.isdigit() and not disk.is_directory(f"{path}/{name}"):
            inventory.index_files.append(IndexFiles(f"{path}/{name}", disk.file_size(f"{path}/{name}")))
        else:
            inventory.findings.append(_foreign(f"{path}/{name}", "a file named like a time"))


def _numbered_files(disk: Disk, directory: str, inventory: Inventory) -> Iterator[tuple[str, int, int]]:
    """Yield path, base offset and length of every file that is named by 20 digits."""
    for name in disk.list_directory(directory):
        path = f"{directory}/{name}"
        base_offset = layout.base_offset_of(name)
        if base_offset is None:
            inventory.findings.append(_foreign(path, "a file named by 20 digits"))
        elif disk.is_directory(path):
            inventory.misplaced.append(path)
            inventory.findings.append(
                Finding(
                    severity=Severity.ERROR,
                    path=path,
                    expected="a file",
                    found="a directory",
                    start="fails",
                    repair="moves it away",
                )
            )
        else:
            yield path, base_offset, disk.file_size(path)


def _foreign(path: str, expected: str) -> Finding:
    return Finding(
        severity=Severity.NOTICE,
        path=path,
        expected=expected,
        found=f"{path.rpartition('/')[2]!r}",
        start=_FOREIGN_START,
        repair=NOTHING,
    )
