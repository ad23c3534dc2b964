"""In-memory disk with fault injection; without faults it passes the tests of the real disk.

It implements the fault model of ``rocketpy.store.disk.interface`` literally:

- :meth:`SimDisk.kill_process` ends the process: open files and locks are gone, everything written is there.
- :meth:`SimDisk.lose_power` ends the machine: of the pages that were not synced any subset is there, at most one per
  file torn between sectors; a length that was not synced is the old one or any that the file has had since; of the
  names that were created, renamed or removed since their directory was synced any subset is as if nothing had happened.
  It may follow a kill.
- :meth:`SimDisk.die_at_call` ends the process in the middle of a disk call: :class:`ProcessDied` flies from there, and
  from every call after it until one of the two above says what became of the disk. A write then is done in part.
- :meth:`SimDisk.fail_call` makes one call fail. A sync that fails has written some pages and marked all as clean, so
  that the rest is lost without a word: what really happens to a program that tries again.
- ``capacity_bytes`` is how much fits. ``descriptors_max`` is how many descriptors there are, for files, mappings and
  locks; :meth:`SimDisk.run_out_of_descriptors` lets some calls find none. Such a call changes nothing.
- :meth:`SimDisk.flip_bit` damages, :meth:`SimDisk.evict` makes a file cold.
- :meth:`SimDisk.state` is the disk as a value, and ``SimDisk(state=...)`` a copy of it; ``before_change`` is called
  just before every change. So one run shows what a crash in any of its calls would have left.

Every nondeterministic outcome is chosen by ``choose``, so one seed replays everything. Nothing here sleeps or blocks.
"""

from __future__ import annotations

import os.path
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from rocketpy.clock import Clock, ManualClock
from rocketpy.errors import DescriptorShortageError, DiskFullError, StartError, StoreError
from rocketpy.store.disk.interface import DiskFile, DiskLock
from rocketpy.store.disk.os_file import LOCK_TEXT
from rocketpy.testing.sim.choices import Choose
from rocketpy.testing.sim.disk_state import ROOTS, Change, DiskState, Survival, Tree
from rocketpy.testing.sim.file import ProcessDied, SimFile, SimLock
from rocketpy.testing.sim.inode import PAGE_SIZE, SimInode, pages_of

__all__ = ["ProcessDied", "SimDisk"]

_UNLIMITED = 1 << 50


class SimDisk:
    """A file system of its own, empty at first, in which paths begin with ``/``."""

    def __init__(
        self,
        *,
        choose: Choose | None = None,
        clock: Clock | None = None,
        capacity_bytes: int = _UNLIMITED,
        descriptors_max: int = _UNLIMITED,
        sector_size: int = 512,
        state: DiskState | None = None,
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.descriptors_max = descriptors_max
        self.calls: Counter[str] = Counter()
        """How often each method was called."""
        self.change_count = 0
        """How many calls there were that change something: what ``die_at_call`` counts."""
        self.descriptor_call_count = 0
        """How many calls there were that need a descriptor: what ``run_out_of_descriptors`` counts."""
        self.before_change: Callable[[str, str], None] | None = None
        """Called with method and path before something changes; in the middle of a long write for each of its pages."""
        self._choose = choose if choose is not None else random.Random(0).randrange
        self._clock = clock if clock is not None else ManualClock()
        self._sector_size = sector_size
        self._now = Tree()
        self._durable = Tree()
        self._pending: list[Change] = []  # what lies between the two, in order
        self._inodes: dict[int, SimInode] = {}  # by number; one without a name lasts until the process ends
        self._inode_count = 1
        self._boot_count = 1
        self._open_files: set[SimFile] = set()
        self._locks: dict[str, SimLock] = {}
        self._failed_syncs: set[SimInode] = set()
        self._failures: list[tuple[str, int]] = []  # method, and the number of the call that is to fail
        self._short_calls = range(0)
        self._dies_at = -1
        self._is_dead = False
        if state is not None:
            self._become(state)

    # ---- the whole disk as a value ----------------------------------------------------------------------------------

    def state(self) -> DiskState:
        """Return the disk as it is now, with what is durable of it."""
        self._forget_nameless()
        return DiskState(
            dict(self._now.files),
            frozenset(self._now.directories),
            dict(self._durable.files),
            frozenset(self._durable.directories),
            tuple(self._pending),
            {number: inode.state() for number, inode in self._inodes.items()},
            self._sector_size,
            self._boot_count,
        )

    def peek(self, directory: str) -> dict[str, bytes]:
        """Return the contents of the files of a directory as the page cache has them, without a call of a program."""
        prefix = directory.rstrip("/") + "/"
        return {
            path[len(prefix) :]: self._inodes[number].read(0, self._inodes[number].size)
            for path, number in self._now.files.items()
            if path.startswith(prefix) and "/" not in path[len(prefix) :]
        }

    def peek_tree(self, directory: str) -> dict[str, bytes]:
        """Return the contents of all files below a directory, by their paths from there, as :meth:`peek` does."""
        prefix = directory.rstrip("/") + "/"
        return {
            path[len(prefix) :]: self._inodes[number].read(0, self._inodes[number].size)
            for path, number in self._now.files.items()
            if path.startswith(prefix)
        }

    # ---- faults -----------------------------------------------------------------------------------------------------

    def kill_process(self) -> None:
        """End the process as SIGKILL does. A file that is still open can only be closed."""
        for file in self._open_files:
            file.is_dead = True
        self._open_files.clear()
        self._locks.clear()
        self._failed_syncs.clear()
        self._failures.clear()
        self._short_calls = range(0)
        self._dies_at = -1
        self._is_dead = False

    @property
    def has_failed_sync(self) -> bool:
        """Whether a sync of some file has failed in this life."""
        return bool(self._failed_syncs)

    def lose_power(self, choose: Choose | None = None) -> None:
        """End the machine: go back to what is durable, and to what ``choose`` lets survive beyond that."""
        choose = choose if choose is not None else self._choose
        self.kill_process()
        state = self.state()
        self._become(state.after_power_loss(_choose_survival(state, choose)))

    def die_at_call(self, number: int) -> None:
        """Let the process end at the ``number``-th call from now that changes something, 1 for the next."""
        self._dies_at = self.change_count + number

    def end_process(self) -> None:
        """End the process between two calls: from here on each call raises ProcessDied, as after ``die_at_call``."""
        self.kill_process()
        self._is_dead = True

    def fail_call(self, method: str, number: int = 1) -> None:
        """Let the ``number``-th call of a method from now fail with StoreError, 1 for the next."""
        self._failures.append((method, self.calls[method] + number))

    def run_out_of_descriptors(self, number: int = 1, count: int = 1) -> None:
        """Let the ``number``-th call from now that needs a descriptor find none, and ``count`` - 1 calls after it."""
        first = self.descriptor_call_count + number
        self._short_calls = range(first, first + count)

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Damage a file, wherever its bytes are."""
        self._inode(path).flip_bit(position, bit)

    def evict(self, path: str) -> None:
        """Make a file cold: ``read_nowait`` has nothing until it is read once, and then it is what the disk has."""
        self._inode(path).evict()

    # ---- Disk -------------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile:
        """Open a file."""
        self.require_descriptor("cannot open", path)
        number = self._now.files.get(path)
        if number is None:
            if not create:
                self.count_call("open", path)
                raise StoreError("cannot open: no such file or directory", path=path)
            self._require_parent(path, "cannot open")
            self.count_call("open", path, is_change=True)
            number = self._inode_count
            self._inode_count += 1
            self._inodes[number] = SimInode(modified_timestamp_ms=self._clock.timestamp_ms())
            self._change(Change("create", path, inode=number))
        else:
            self.count_call("open", path)
        file = SimFile(self, path, self._inodes[number], read_only=read_only)
        self._open_files.add(file)
        return file

    def create_private(self, path: str) -> DiskFile:
        """Create a file; permissions are not simulated."""
        if path in self._now.files:
            raise StoreError("cannot create: file exists", path=path)
        return self.open(path, create=True)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of that name."""
        self.count_call("exists", path)
        return path in self._now.files or self._has_directory(path)

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory of that name."""
        self.count_call("is_directory", path)
        return self._has_directory(path)

    def file_size(self, path: str) -> int:
        """Return the length of a file."""
        self.count_call("file_size", path)
        return self._inode(path).size

    def modified_timestamp_ms(self, path: str) -> int:
        """Return when it was written last, by the disk's clock."""
        self.count_call("modified_timestamp_ms", path)
        return self._inode(path).modified_timestamp_ms

    def identity(self, path: str) -> str:
        """Return boots so far, and the file's number."""
        self.count_call("identity", path)
        self._inode(path)
        return f"{self._boot_count}/{self._now.files[path]}"

    def list_directory(self, path: str) -> list[str]:
        """Return the names in order."""
        self.count_call("list_directory", path)
        self.require_descriptor("cannot list directory", path)
        return self._now.names_in(path)

    def make_directories(self, path: str) -> None:
        """Make a directory and those above it."""
        missing = []
        while not self._has_directory(path):
            if path in self._now.files:
                raise StartError(f"cannot make directory {path}: a file has that name")
            missing.append(path)
            path = os.path.dirname(path)
        for directory in reversed(missing):
            self.count_call("make_directories", directory, is_change=True)
            self._change(Change("make", directory))

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file, also over another."""
        self.count_call("rename", path, is_change=True)
        self._inode(path)
        self._require_parent(new_path, f"cannot rename to {new_path}")
        self._change(Change("rename", path, new_path, self._now.files[path]))

    def copy_mode(self, path: str, new_path: str) -> None:
        """Do nothing: permissions are not simulated."""

    def unlink(self, path: str) -> None:
        """Remove a file's name."""
        self.count_call("unlink", path, is_change=True)
        self._inode(path)
        self._change(Change("unlink", path, inode=self._now.files[path]))

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        if not self._has_directory(path) or self.list_directory(path):
            raise StoreError("cannot remove directory: missing or not empty", path=path)
        self.count_call("remove_directory", path, is_change=True)
        self._change(Change("remove", path))

    def sync_directory(self, path: str) -> None:
        """Make durable the changes of one directory, and that the directory is there."""
        self.require_descriptor("cannot sync directory", path)
        self.count_call("sync_directory", path, is_change=True)
        if not self._has_directory(path):
            raise StoreError("cannot sync directory: no such directory", path=path)
        lineage = [path]
        while lineage[-1] not in ROOTS:
            lineage.append(os.path.dirname(lineage[-1]))
        rest: list[Change] = []
        for change in self._pending:
            if change.directory == path or (change.kind == "make" and change.path in lineage):
                self._durable.apply(change)
                if change.kind == "rename":  # then it has no other name, whatever is known of those it had before
                    rest = [each for each in rest if each.inode != change.inode]
            else:
                rest.append(change)
        self._pending = rest

    def free_bytes(self, path: str) -> int:
        """Return what fits yet."""
        return max(0, self.capacity_bytes - self.used_bytes(path))

    def total_bytes(self, path: str) -> int:
        """Return the capacity."""
        return self.capacity_bytes

    def used_bytes(self, path: str) -> int:
        """Return what files take, those that are open without a name included."""
        inodes = {self._inodes[number] for number in self._now.files.values()}
        inodes.update(file.inode for file in self._open_files)
        return PAGE_SIZE * sum(len(inode.allocated) for inode in inodes)

    def lock(self, path: str) -> DiskLock:
        """Lock a file until release, or until the process ends."""
        if path in self._locks:
            raise StartError(f"another process has locked {path}")
        file = self.open(path, create=True)
        file.write(0, LOCK_TEXT)
        file.sync()
        file.close()
        self._locks[path] = lock = SimLock(self, path)
        return lock

    def wait_lock(self, path: str) -> DiskLock:
        """Lock a file until release, or until the process ends. Nobody waits here: a second lock fails at once."""
        if path in self._locks:
            raise StoreError("another process has it locked", path=path)
        self.open(path, create=True).close()
        self._locks[path] = lock = SimLock(self, path)
        return lock

    # ---- for the files ----------------------------------------------------------------------------------------------

    def count_call(self, method: str, path: str, *, is_change: bool = False) -> None:
        """Count a call; raises what was arranged for it."""
        if self._is_dead:
            raise ProcessDied(method, path, is_now=False)
        self.calls[method] += 1
        self.change_count += is_change
        if is_change and self.change_count == self._dies_at:
            self._is_dead = True
            raise ProcessDied(method, path, is_now=True)
        if is_change and self.before_change is not None:
            self.before_change(method, path)
        if (method, self.calls[method]) in self._failures:
            self._failures.remove((method, self.calls[method]))
            raise StoreError(f"{method}: simulated failure", path=path)

    @property
    def descriptor_count(self) -> int:
        """Number of descriptors in use: by open files, their mappings and locks."""
        return len(self._open_files) + sum(file.is_mapped for file in self._open_files) + len(self._locks)

    def require_descriptor(self, action: str, path: str) -> None:
        """Raise DescriptorShortageError if there is no descriptor left, or if that was arranged for this call."""
        self.descriptor_call_count += 1
        is_over_limit = self.descriptors_max < _UNLIMITED and self.descriptor_count >= self.descriptors_max
        if is_over_limit or self.descriptor_call_count in self._short_calls:
            raise DescriptorShortageError(action, path=path, reason="simulated limit")

    def allocate(self, inode: SimInode, path: str, position: int, size: int) -> None:
        """Take space for a range of a file, DiskFullError if there is not enough."""
        missing = [number for number in pages_of(position, size) if number not in inode.allocated]
        if missing and self.capacity_bytes < _UNLIMITED:
            free_bytes = self.free_bytes(path)
            if len(missing) * PAGE_SIZE > free_bytes:
                raise DiskFullError(path=path, wanted_bytes=size, free_bytes=free_bytes)
        inode.allocated.update(missing)

    def write_inode(self, inode: SimInode, path: str, position: int, content: bytes) -> None:
        """Write into a file; a death or failure in the middle leaves a part."""
        try:
            self.count_call("write", path, is_change=True)
            self.allocate(inode, path, position, len(content))
        except (ProcessDied, StoreError) as end:
            if not isinstance(end, ProcessDied) or end.is_now:
                part = self._choose(len(content) // PAGE_SIZE + 1) * PAGE_SIZE
                with suppress(DiskFullError):
                    self.allocate(inode, path, position, part)
                    inode.write(position, content[:part])
            raise
        if self.before_change is None:
            inode.write(position, content)
        else:
            for number in pages_of(position, len(content)):
                begin = max(0, number * PAGE_SIZE - position)
                if begin:
                    self.before_change("write", path)
                inode.write(position + begin, content[begin : (number + 1) * PAGE_SIZE - position])
        inode.modified_timestamp_ms = self._clock.timestamp_ms()

    def sync_inode(self, inode: SimInode, path: str) -> None:
        """Sync a file unless that has failed before."""
        if inode in self._failed_syncs:
            raise StoreError("a sync of this file has failed before, which is final", path=path)
        try:
            self.count_call("sync", path, is_change=True)
        except StoreError:
            self._failed_syncs.add(inode)
            inode.fail_sync(self._choose)
            raise
        inode.sync()

    def close_file(self, file: SimFile) -> None:
        """Forget an open file."""
        self._open_files.discard(file)

    def release_lock(self, path: str, lock: SimLock) -> None:
        """Let a lock go, if it is still the one that holds."""
        if self._locks.get(path) is lock:
            del self._locks[path]

    # ---- private ----------------------------------------------------------------------------------------------------

    def _change(self, change: Change) -> None:
        self._now.apply(change)
        self._pending.append(change)

    def _become(self, state: DiskState) -> None:
        self._now = Tree(dict(state.files), set(state.directories))
        self._durable = Tree(dict(state.durable_files), set(state.durable_directories))
        self._pending = list(state.pending)
        self._inodes = {number: SimInode(state=each) for number, each in state.inodes.items()}
        self._inode_count = max(self._inode_count, state.inode_count)
        self._sector_size = state.sector_size
        self._boot_count = state.boot_count

    def _forget_nameless(self) -> None:
        """Forget files that nothing can lead to any more."""
        named = {*self._now.files.values(), *self._durable.files.values(), *(each.inode for each in self._pending)}
        used = {file.inode for file in self._open_files}
        for number in [number for number, inode in self._inodes.items() if number not in named and inode not in used]:
            del self._inodes[number]

    def _has_directory(self, path: str) -> bool:
        return (path.rstrip("/") or "/") in self._now.directories

    def _require_parent(self, path: str, action: str) -> None:
        if os.path.dirname(path) not in self._now.directories:
            raise StoreError(f"{action}: no such directory", path=path)

    def _inode(self, path: str) -> SimInode:
        number = self._now.files.get(path)
        if number is None:
            raise StoreError("no such file", path=path)
        return self._inodes[number]


def _choose_survival(state: DiskState, choose: Choose) -> Survival:
    changes = frozenset(number for number in range(len(state.pending)) if choose(2))
    lengths: dict[int, int] = {}
    sectors: dict[int, dict[int, int]] = {}
    count = PAGE_SIZE // state.sector_size
    for number in dict.fromkeys(state.names_that_survive(changes).files.values()):
        inode = state.inodes[number]
        if inode.lengths:
            lengths[number] = (inode.durable_size, *inode.lengths)[choose(1 + len(inode.lengths))]
        masks = sectors[number] = {}
        torn = choose(len(inode.dirty) + 1) if inode.dirty else 0
        for index, page in enumerate(sorted(inode.dirty)):
            if index + 1 == torn:
                masks[page] = sum(choose(2) << sector for sector in range(count))
            else:
                masks[page] = choose(2) * ((1 << count) - 1)
    return Survival(changes, lengths, sectors)
