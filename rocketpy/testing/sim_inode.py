"""The contents of one simulated file, twice: as the page cache shows them, and as they are on the disk.

Between the two lie the dirty pages. ``sync`` closes the gap; ``lose_power`` goes back to the disk, except for what it
chooses to have reached it in time. Space is counted in pages; where it comes from is :class:`SimDisk`'s affair.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from rocketpy.testing.choices import Choose

PAGE_SIZE = 4096
_ZEROS = bytes(PAGE_SIZE)


def pages_of(position: int, size: int) -> range:
    """Return the numbers of the pages that a range of bytes touches."""
    return range(position // PAGE_SIZE, -(-(position + size) // PAGE_SIZE))


@attrs.define(eq=False)
class SimInode:
    """One file, under whatever names. A page that is missing holds zeros."""

    size: int = 0
    modified_timestamp_ms: int = 0
    is_cold: bool = False
    allocated: set[int] = attrs.Factory(set)
    """The pages that have space, written or reserved."""
    _pages: dict[int, bytearray] = attrs.Factory(dict)
    _dirty: set[int] = attrs.Factory(set)
    _durable_size: int = 0
    _durable_pages: dict[int, bytes] = attrs.Factory(dict)
    _durable_allocated: set[int] = attrs.Factory(set)

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
        """Whether nothing but zeros lies behind a position."""
        first, start = divmod(position, PAGE_SIZE)
        return not any(
            any(memoryview(page)[start if number == first else 0 :])
            for number, page in self._pages.items()
            if number >= first
        )

    def write(self, position: int, content: bytes) -> None:
        """Change the page cache; the pages are allocated and dirty afterwards."""
        done = 0
        while done < len(content):
            number, start = divmod(position + done, PAGE_SIZE)
            part = content[done : done + PAGE_SIZE - start]
            page = self._pages.get(number)
            if page is None:
                page = self._pages[number] = bytearray(PAGE_SIZE)
            page[start : start + len(part)] = part
            self._dirty.add(number)
            self.allocated.add(number)
            done += len(part)
        self.size = max(self.size, position + len(content))

    def truncate(self, size: int) -> None:
        """Set the length; what is cut off is zeros if the file grows again."""
        if size < self.size:
            kept = -(-size // PAGE_SIZE)
            for number in [number for number in {*self._pages, *self._durable_pages} if number >= kept]:
                self._pages.pop(number, None)
                self._dirty.add(number)
            self.allocated = {number for number in self.allocated if number < kept}
            if size % PAGE_SIZE and (page := self._pages.get(kept - 1)) is not None:
                page[size % PAGE_SIZE :] = bytes(PAGE_SIZE - size % PAGE_SIZE)
                self._dirty.add(kept - 1)
        self.size = size

    def sync(self) -> None:
        """Make the disk hold what the page cache shows."""
        self._persist(self._dirty)
        self._dirty.clear()
        self._durable_size = self.size
        self._durable_allocated = set(self.allocated)

    def fail_sync(self, choose: Choose) -> None:
        """A sync that fails: some pages reach the disk and all are taken for clean, so no later one writes the rest."""
        self._persist([number for number in sorted(self._dirty) if choose(2)])
        self._dirty.clear()

    def lose_power(self, choose: Choose, sector_size: int) -> None:
        """Become what the disk has: each dirty page new or old as chosen, one of them perhaps torn between sectors."""
        if self.size != self._durable_size and choose(2):
            self._durable_size = self.size
        dirty = sorted(self._dirty)
        torn = choose(len(dirty) + 1) if dirty else 0
        for index, number in enumerate(dirty):
            if index + 1 == torn:
                self._durable_pages[number] = self._torn_page(number, choose, sector_size)
            elif choose(2):
                self._persist([number])
        self._restore()

    def flip_bit(self, position: int, bit: int) -> None:
        """Change one bit, on the disk and in the page cache."""
        number, start = divmod(position, PAGE_SIZE)
        page = bytearray(self._pages.get(number, _ZEROS))
        page[start] ^= 1 << bit
        self._pages[number] = page
        durable = bytearray(self._durable_pages.get(number, _ZEROS))
        durable[start] ^= 1 << bit
        self._durable_pages[number] = bytes(durable)

    def _persist(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            page = self._pages.get(number)
            if page is None:
                self._durable_pages.pop(number, None)
            else:
                self._durable_pages[number] = bytes(page)

    def _torn_page(self, number: int, choose: Choose, sector_size: int) -> bytes:
        new, old = bytes(self._pages.get(number, _ZEROS)), self._durable_pages.get(number, _ZEROS)
        starts = range(0, PAGE_SIZE, sector_size)
        return b"".join((new if choose(2) else old)[start : start + sector_size] for start in starts)

    def _restore(self) -> None:
        self.size = self._durable_size
        end = -(-self.size // PAGE_SIZE)
        self._pages = {number: bytearray(page) for number, page in self._durable_pages.items() if number < end}
        if self.size % PAGE_SIZE and (page := self._pages.get(end - 1)) is not None:
            page[self.size % PAGE_SIZE :] = bytes(PAGE_SIZE - self.size % PAGE_SIZE)
        self._durable_pages = {number: bytes(page) for number, page in self._pages.items()}
        self.allocated = {number for number in self._durable_allocated if number < end} | set(self._pages)
        self._durable_allocated = set(self.allocated)
        self._dirty.clear()
        self.is_cold = True
