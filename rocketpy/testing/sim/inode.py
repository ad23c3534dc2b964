"""The contents of one simulated file, twice: as the page cache shows them, and as they are on the disk.

Between the two lie the dirty pages, and the lengths that the file has had since its last sync. ``sync`` closes the gap;
what a loss of power leaves of it is :meth:`InodeState.survived`. Space is counted in pages; where it comes from is
up to :class:`SimDisk`.

Pages are immutable, so a state of a file is a value that shares them with the file and with other states.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property

import attrs

from rocketpy.testing.sim.choices import Choose

PAGE_SIZE = 4096
_ZEROS = bytes(PAGE_SIZE)


def pages_of(position: int, size: int) -> range:
    """Return the numbers of the pages that a range of bytes touches."""
    return range(position // PAGE_SIZE, -(-(position + size) // PAGE_SIZE))


@attrs.frozen(eq=False, slots=False)
class InodeState:
    """A file at one moment, whatever its names. A page that is missing holds zeros."""

    size: int
    pages: Mapping[int, bytes]
    allocated: frozenset[int]
    dirty: frozenset[int]
    """The pages that a sync would write; of the others the disk has what it has."""
    lengths: tuple[int, ...]
    """The lengths other than the durable one that it had since the last sync, the last one last."""
    durable_size: int
    durable_pages: Mapping[int, bytes]
    durable_allocated: frozenset[int]
    modified_timestamp_ms: int
    is_cold: bool
    _survivors: dict[Hashable, InodeState] = attrs.field(factory=dict, init=False)

    @cached_property
    def fingerprint(self) -> int:
        """Equal for files that read the same, and for others different except by an accident of 64 bits."""
        pages = tuple((number, page) for number, page in sorted(self.pages.items()) if page.count(0) != PAGE_SIZE)
        return hash((self.size, pages))

    def changed_sectors(self, number: int, sector_size: int) -> int:
        """Return which sectors of a page differ from the disk, as bits: the first sector is the lowest one."""
        new, old = self.pages.get(number, _ZEROS), self.durable_pages.get(number, _ZEROS)
        if new == old:
            return 0
        return sum(
            1 << index
            for index, start in enumerate(range(0, PAGE_SIZE, sector_size))
            if new[start : start + sector_size] != old[start : start + sector_size]
        )

    def survived(self, size: int, sectors: Mapping[int, int], sector_size: int) -> InodeState:
        """Return what is on the disk when power is lost: this length, and of these pages these sectors as bits.

        The same one when asked for the same.
        """
        key = size, tuple(sectors.items()), sector_size
        survivor = self._survivors.get(key)
        if survivor is None:
            survivor = self._survivors[key] = self._survivor(size, sectors, sector_size)
        return survivor

    def _survivor(self, size: int, sectors: Mapping[int, int], sector_size: int) -> InodeState:
        pages = dict(self.durable_pages)
        for number, mask in sectors.items():
            pages[number] = self._mixed(number, mask, sector_size)
        end = -(-size // PAGE_SIZE)
        pages = {number: page for number, page in pages.items() if number < end}
        if size % PAGE_SIZE and (tail := pages.get(end - 1)) is not None:
            pages[end - 1] = tail[: size % PAGE_SIZE].ljust(PAGE_SIZE, b"\0")
        allocated = frozenset(number for number in self.durable_allocated if number < end) | frozenset(pages)
        return InodeState(
            size, pages, allocated, frozenset(), (), size, pages, allocated, self.modified_timestamp_ms, is_cold=True
        )

    def _mixed(self, number: int, mask: int, sector_size: int) -> bytes:
        new, old = self.pages.get(number, _ZEROS), self.durable_pages.get(number, _ZEROS)
        count = PAGE_SIZE // sector_size
        if not mask or mask == (1 << count) - 1:
            return new if mask else old
        starts = range(0, PAGE_SIZE, sector_size)
        return b"".join(
            (new if mask >> index & 1 else old)[start : start + sector_size] for index, start in enumerate(starts)
        )


class SimInode:
    """One file, under whatever names. A page that is missing holds zeros."""

    def __init__(self, *, modified_timestamp_ms: int = 0, state: InodeState | None = None) -> None:
        """Make an empty file, or one in a state."""
        self.size = 0
        self.modified_timestamp_ms = modified_timestamp_ms
        self.is_cold = False
        self.allocated: set[int] = set()
        """The pages that have space, written or reserved."""
        self._pages: dict[int, bytes] = {}
        self._dirty: set[int] = set()
        self._lengths: list[int] = []
        self._durable_size = 0
        self._durable_pages: dict[int, bytes] = {}
        self._durable_allocated: set[int] = set()
        self._state: InodeState | None = None  # the last one asked for, if nothing has changed since
        if state is not None:
            self._become(state)

    def state(self) -> InodeState:
        """Return what the file is now, as a value; the same one while it does not change."""
        state = self._state
        if (
            state is None
            or state.is_cold != self.is_cold
            or state.modified_timestamp_ms != self.modified_timestamp_ms
            or len(state.allocated) != len(self.allocated)  # between two changes it only grows
        ):
            state = self._state = InodeState(
                self.size,
                dict(self._pages),
                frozenset(self.allocated),
                frozenset(self._dirty),
                tuple(self._lengths),
                self._durable_size,
                dict(self._durable_pages),
                frozenset(self._durable_allocated),
                self.modified_timestamp_ms,
                self.is_cold,
            )
        return state

    def read(self, position: int, size: int) -> bytes:
        """Return what the page cache has."""
        end = min(position + size, self.size)
        parts = []
        while position < end:
            number, start = divmod(position, PAGE_SIZE)
            stop = min(PAGE_SIZE, start + end - position)
            parts.append(self._pages.get(number, _ZEROS)[start:stop])
            position += stop - start
        return b"".join(parts)

    def reads_zero_from(self, position: int) -> bool:
        """Whether the file holds only zeros from a position on."""
        first, start = divmod(position, PAGE_SIZE)
        return all(
            page.count(0, start if number == first else 0) == PAGE_SIZE - (start if number == first else 0)
            for number, page in self._pages.items()
            if number >= first
        )

    def write(self, position: int, content: bytes) -> None:
        """Change the page cache; the pages are allocated and dirty afterwards."""
        self._state = None
        done = 0
        while done < len(content):
            number, start = divmod(position + done, PAGE_SIZE)
            part = content[done : done + PAGE_SIZE - start]
            if len(part) < PAGE_SIZE:
                page = self._pages.get(number, _ZEROS)
                part = b"".join((page[:start], part, page[start + len(part) :]))
            self._pages[number] = part
            self._dirty.add(number)
            self.allocated.add(number)
            done = (number + 1) * PAGE_SIZE - position
        self._set_size(max(self.size, position + len(content)))

    def truncate(self, size: int) -> None:
        """Set the length; what is cut off is zeros if the file grows again."""
        self._state = None
        if size < self.size:
            kept = -(-size // PAGE_SIZE)
            for number in [number for number in {*self._pages, *self._durable_pages} if number >= kept]:
                self._pages.pop(number, None)
                self._dirty.add(number)
            self.allocated = {number for number in self.allocated if number < kept}
            if size % PAGE_SIZE and (page := self._pages.get(kept - 1)) is not None:
                self._pages[kept - 1] = page[: size % PAGE_SIZE].ljust(PAGE_SIZE, b"\0")
                self._dirty.add(kept - 1)
        self._set_size(size)

    def sync(self) -> None:
        """Make the disk hold what the page cache shows."""
        self._state = None
        self._persist(self._dirty)
        self._dirty.clear()
        self._lengths.clear()
        self._durable_size = self.size
        self._durable_allocated = set(self.allocated)

    def fail_sync(self, choose: Choose) -> None:
        """A sync that fails: some pages reach the disk and all are taken for clean, so no later one writes the rest."""
        self._state = None
        self._persist([number for number in sorted(self._dirty) if choose(2)])
        self._dirty.clear()

    def evict(self) -> None:
        """Throw clean pages out of the page cache: where a sync has failed, what is read next is what the disk has."""
        self._state = None
        self.is_cold = True
        for number in {*self._pages, *self._durable_pages} - self._dirty:
            self._pages.pop(number, None)
            if number in self._durable_pages and number * PAGE_SIZE < self.size:
                self._pages[number] = self._durable_pages[number]

    def flip_bit(self, position: int, bit: int) -> None:
        """Change one bit, on the disk and in the page cache."""
        self._state = None
        number, start = divmod(position, PAGE_SIZE)
        for pages in (self._pages, self._durable_pages):
            page = bytearray(pages.get(number, _ZEROS))
            page[start] ^= 1 << bit
            pages[number] = bytes(page)

    def _become(self, state: InodeState) -> None:
        self.size = state.size
        self.modified_timestamp_ms = state.modified_timestamp_ms
        self.is_cold = state.is_cold
        self.allocated = set(state.allocated)
        self._pages = dict(state.pages)
        self._dirty = set(state.dirty)
        self._lengths = list(state.lengths)
        self._durable_size = state.durable_size
        self._durable_pages = dict(state.durable_pages)
        self._durable_allocated = set(state.durable_allocated)
        self._state = state

    def _set_size(self, size: int) -> None:
        if size == self.size:
            return
        self.size = size
        if size in self._lengths:
            self._lengths.remove(size)
        if size != self._durable_size:
            self._lengths.append(size)

    def _persist(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            page = self._pages.get(number)
            if page is None:
                self._durable_pages.pop(number, None)
            else:
                self._durable_pages[number] = page
