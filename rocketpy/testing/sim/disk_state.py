"""Snapshot of a simulated disk, and the states that a loss of power could leave.

Unsynced changes are split into units that survive or are lost independently:

- a change of a name: created, renamed, removed (a rename moves the file itself: it is whole or not at all, and whatever
  else has had the same name meanwhile is left alone);
- a dirty page, as it was or as it is; one page of each file may be torn between sectors;
- a length: the durable one or any that the file has had since.

:class:`Survival` says what survives, :meth:`DiskState.after_power_loss` builds that disk, and
:class:`~rocketpy.testing.sim.legal_disks.LegalDisks` goes through them. The death of the process alone changes nothing.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property

import attrs

from rocketpy.testing.sim.inode import InodeState

ROOTS = ("", "/")


@attrs.frozen
class Change:
    """A name created, renamed or removed: ``create``, ``rename``, ``unlink`` of a file, ``make``, ``remove`` of a
    directory."""

    kind: str
    path: str
    new_path: str = ""
    inode: int = 0
    """The number of the file that it is about."""

    def __str__(self) -> str:
        return f"{self.kind} {self.path}" + (f" to {self.new_path}" if self.new_path else "")

    @property
    def directory(self) -> str:
        """The directory whose sync makes it durable."""
        return os.path.dirname(self.new_path or self.path)


@attrs.define
class Tree:
    """Names: the numbers of files by path, and directories."""

    files: dict[str, int] = attrs.Factory(dict)
    directories: set[str] = attrs.Factory(lambda: set(ROOTS))

    def apply(self, change: Change) -> None:
        """Do what a change does, or nothing where what it builds on is not there."""
        kind, path = change.kind, change.path
        if kind == "unlink":
            if self.files.get(path) == change.inode:
                del self.files[path]
        elif kind == "remove":
            # It was empty then: what was removed of it before leads nowhere, whether that is durable itself or not.
            prefix = f"{path}/"
            for name in [name for name in self.files if name.startswith(prefix)]:
                del self.files[name]
            self.directories = {each for each in self.directories if each != path and not each.startswith(prefix)}
        elif change.directory not in self.directories:
            pass
        elif kind == "make":
            self.directories.add(path)
        elif kind == "rename":
            for name in [name for name, inode in self.files.items() if inode == change.inode]:
                del self.files[name]
            self.files[change.new_path] = change.inode
        else:
            self.files[path] = change.inode

    def names_in(self, directory: str) -> list[str]:
        """Return the names in a directory, in order."""
        prefix = directory.rstrip("/") + "/"
        start = len(prefix)
        return sorted(
            name[start:]
            for names in (self.files, self.directories)
            for name in names
            if name.startswith(prefix) and "/" not in name[start:] and name not in ROOTS
        )

    def copy(self) -> Tree:
        """Return one that can be changed apart."""
        return Tree(dict(self.files), set(self.directories))


@attrs.frozen
class Survival:
    """Unsynced changes that survive a loss of power; all others are lost."""

    changes: Set[int] = frozenset()
    """Indexes into :attr:`DiskState.pending`."""

    lengths: Mapping[int, int] = attrs.Factory(dict)
    """By the number of the file."""

    sectors: Mapping[int, Mapping[int, int]] = attrs.Factory(dict)
    """By the number of the file and of the page: which sectors are the new ones, as bits."""


@attrs.frozen(eq=False, slots=False)
class DiskState:
    """Names and files, as they look and as they are on the disk."""

    files: Mapping[str, int]
    directories: Set[str]
    durable_files: Mapping[str, int]
    durable_directories: Set[str]
    pending: Sequence[Change]
    """What lies between the two, in order."""

    inodes: Mapping[int, InodeState]
    sector_size: int
    boot_count: int = 1
    """How often the machine was started."""

    @property
    def inode_count(self) -> int:
        """A number above that of every file."""
        return max(self.inodes, default=0) + 1

    def names_that_survive(self, changes: Set[int]) -> Tree:
        """Return the tree that is there after a loss of power."""
        tree = Tree(dict(self.durable_files), set(self.durable_directories))
        for number, change in enumerate(self.pending):
            if number in changes:
                tree.apply(change)
        return tree

    def after_power_loss(self, survival: Survival) -> DiskState:
        """Return the disk that a loss of power leaves."""
        tree = self.names_that_survive(survival.changes)
        inodes = {
            number: self.inodes[number].survived(
                survival.lengths.get(number, self.inodes[number].durable_size),
                survival.sectors.get(number, {}),
                self.sector_size,
            )
            for number in tree.files.values()
        }
        return self.clean(tree, inodes, self.sector_size, boot_count=self.boot_count + 1)

    @classmethod
    def clean(cls, tree: Tree, inodes: Mapping[int, InodeState], sector_size: int, *, boot_count: int = 1) -> DiskState:
        """Return a disk on which everything is durable."""
        return cls(tree.files, tree.directories, tree.files, tree.directories, (), inodes, sector_size, boot_count)

    @cached_property
    def fingerprint(self) -> int:
        """Equal for disks that look the same, and for others different except by an accident of 64 bits."""
        files = frozenset((path, self.inodes[number].fingerprint) for path, number in self.files.items())
        return hash((files, frozenset(self.directories), self.boot_count))

    def path_of(self, inode: int) -> str:
        """Return a name of a file, now, or on the disk, or in between."""
        names = [path for path, number in (*self.files.items(), *self.durable_files.items()) if number == inode]
        names += [change.new_path or change.path for change in self.pending if change.inode == inode]
        return names[0] if names else f"file {inode}"

    def describe(self, survival: Survival) -> Iterator[str]:
        """Say of each unit whether it survives."""
        for number, change in enumerate(self.pending):
            yield f"{'kept' if number in survival.changes else 'lost'}: {change}"
        for number, inode in self.inodes.items():
            path = self.path_of(number)
            if inode.lengths:
                length = survival.lengths.get(number, inode.durable_size)
                yield f"{'kept' if length == inode.size else 'lost'}: length of {path}: {length}"
            masks = survival.sectors.get(number, {})
            for page in sorted(inode.dirty):
                changed = inode.changed_sectors(page, self.sector_size)
                if changed:
                    yield f"{_word(masks.get(page, 0) & changed, changed)}: page {page} of {path}"


def _word(mask: int, changed: int) -> str:
    if not mask:
        return "lost"
    return "kept" if mask == changed else f"torn, sectors {changed:b} were new and {mask:b} are kept"
