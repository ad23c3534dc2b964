"""Enumeration of the disks that a loss of power may leave: all of them, or a sample if there are too many.

A unit survives or is lost (see :mod:`rocketpy.testing.sim.disk_state`); a torn page is a unit too. With few units every
legal disk is generated, and equal ones only once. With more, a sample is: each prefix of the changes in the order in
which they happened; each unit alone; all but one; each torn page with everything else new; and seeded random choices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, product
from random import Random

import attrs

from rocketpy.testing.sim.disk_state import DiskState, Survival, Tree
from rocketpy.testing.sim.inode import PAGE_SIZE, InodeState

UNITS_MAX = 8
"""With so many units, at most, every disk comes."""

_TEARS_ALL = 3
"""In a page with so many changed sectors, at most, every tear comes."""


@attrs.frozen
class _Variant:
    """One possible state of a file after a loss of power."""

    length: int | None
    """None if it is the durable one."""

    sectors: Mapping[int, int]
    state: InodeState


class LegalDisks:
    """The disks that may be there when power is lost at one moment."""

    def __init__(self, state: DiskState) -> None:
        self.state = state
        self._whole = (1 << PAGE_SIZE // state.sector_size) - 1
        # Of every file: the pages that differ from the disk, with their changed sectors.
        self._dirty = {
            number: {
                page: changed
                for page in sorted(inode.dirty)
                if (changed := inode.changed_sectors(page, state.sector_size))
            }
            for number, inode in state.inodes.items()
        }

    @property
    def unit_count(self) -> int:
        """Number of changes that survive or are lost independently."""
        inodes = self.state.inodes
        return len(self.state.pending) + sum(
            bool(inodes[number].lengths) + len(pages) + any(changed & changed - 1 for changed in pages.values())
            for number, pages in self._dirty.items()
        )

    @property
    def possible_count(self) -> int:
        """Number of combinations, including those of the sectors of a torn page."""
        count: int = 2 ** len(self.state.pending)
        for number, pages in self._dirty.items():
            tears = sum(2 ** changed.bit_count() - 2 for changed in pages.values())
            # At most one page of a file is torn, whatever becomes of the others.
            files = 2 ** len(pages) + tears * 2 ** max(0, len(pages) - 1)
            count *= files * (1 + len(self.state.inodes[number].lengths))
        return count

    def disks(self, *, samples: int, seed: int, units_max: int = UNITS_MAX) -> Iterator[tuple[Survival, DiskState]]:
        """Yield disks with what survives on them: all if there are few units, else the choice that the module says."""
        if self.unit_count <= units_max:
            yield from self._all()
        else:
            for survival in chain(self._telling(), self._sampled(samples, Random(seed))):
                yield survival, self.state.after_power_loss(survival)

    # ---- all of them ----------------------------------------------------------------------------------------------

    def _all(self) -> Iterator[tuple[Survival, DiskState]]:
        variants: dict[int, list[_Variant]] = {}
        for changes, tree in self._trees():
            numbers = list(tree.files.values())
            for number in numbers:
                if number not in variants:
                    variants[number] = self._variants(number)
            for chosen in product(*(variants[number] for number in numbers)):
                of_each = dict(zip(numbers, chosen, strict=True))
                survival = Survival(
                    changes,
                    {number: each.length for number, each in of_each.items() if each.length is not None},
                    {number: each.sectors for number, each in of_each.items() if each.sectors},
                )
                inodes = {number: each.state for number, each in of_each.items()}
                yield (
                    survival,
                    DiskState.clean(tree, inodes, self.state.sector_size, boot_count=self.state.boot_count + 1),
                )

    def _trees(self) -> Iterator[tuple[frozenset[int], Tree]]:
        """Yield every tree of names once, with changes that lead to it."""
        seen = set()
        for changes in _subsets(range(len(self.state.pending))):
            tree = self.state.names_that_survive(frozenset(changes))
            key = frozenset(tree.files.items()), frozenset(tree.directories)
            if key not in seen:
                seen.add(key)
                yield frozenset(changes), tree

    def _variants(self, number: int) -> list[_Variant]:
        """Return what may become of a file, each once."""
        inode, pages = self.state.inodes[number], self._dirty[number]
        variants: dict[int, _Variant] = {}
        for length in (None, *inode.lengths):
            for sectors in self._sectors(pages):
                size = inode.durable_size if length is None else length
                state = inode.survived(size, sectors, self.state.sector_size)
                variants.setdefault(state.fingerprint, _Variant(length, sectors, state))
        return list(variants.values())

    def _sectors(self, pages: Mapping[int, int]) -> Iterator[dict[int, int]]:
        """Yield which sectors of each dirty page of a file survive: all or none, and of one page at most some."""
        for kept in _subsets(pages):
            yield dict.fromkeys(kept, self._whole)
        for page, changed in pages.items():
            for tear in _tears(changed):
                for kept in _subsets([other for other in pages if other != page]):
                    yield {page: tear, **dict.fromkeys(kept, self._whole)}

    # ---- a choice -------------------------------------------------------------------------------------------------

    def _telling(self) -> Iterator[Survival]:
        units = self._units()
        yield Survival()
        for index in range(len(units)):
            yield _all_of(units[: index + 1])
            yield _all_of(units[index : index + 1])
            yield _all_of([*units[:index], *units[index + 1 :]])
        for number, pages in self._dirty.items():
            for page, changed in pages.items():
                for tear in _tears(changed):
                    everything = _all_of(units)
                    of_file = {**everything.sectors.get(number, {}), page: tear}
                    yield attrs.evolve(everything, sectors={**everything.sectors, number: of_file})
            for length in self.state.inodes[number].lengths[:-1]:
                everything = _all_of(units)
                yield attrs.evolve(everything, lengths={**everything.lengths, number: length})

    def _sampled(self, count: int, random: Random) -> Iterator[Survival]:
        units = self._units()
        for _ in range(count):
            survival = _all_of([unit for unit in units if random.random() < 0.5])
            number = random.choice(list(self._dirty))
            tears = [(page, tear) for page, changed in self._dirty[number].items() for tear in _tears(changed)]
            if tears and random.random() < 0.5:
                page, tear = random.choice(tears)
                of_file = {**survival.sectors.get(number, {}), page: tear}
                survival = attrs.evolve(survival, sectors={**survival.sectors, number: of_file})
            yield survival

    def _units(self) -> list[Survival]:
        """Return the units, each as the survival of nothing else, in the order in which they came to be."""
        units = [Survival(changes=frozenset((number,))) for number in range(len(self.state.pending))]
        for number, pages in self._dirty.items():
            inode = self.state.inodes[number]
            if inode.lengths:
                units.append(Survival(lengths={number: inode.lengths[-1]}))
            units += [Survival(sectors={number: {page: self._whole}}) for page in pages]
        return units


def _all_of(units: Sequence[Survival]) -> Survival:
    changes: set[int] = set()
    lengths: dict[int, int] = {}
    sectors: dict[int, dict[int, int]] = {}
    for unit in units:
        changes |= unit.changes
        lengths |= unit.lengths
        for number, masks in unit.sectors.items():
            sectors.setdefault(number, {}).update(masks)
    return Survival(frozenset(changes), lengths, sectors)


def _subsets(of: Iterable[int]) -> Iterator[tuple[int, ...]]:
    numbers = list(of)
    return chain.from_iterable(combinations(numbers, size) for size in range(len(numbers) + 1))


def _tears(changed: int) -> Iterable[int]:
    """Return which of the changed sectors may survive when not all or none do: every choice, or where there are many
    the first ones, and all but one.
    """
    sectors = [1 << index for index in range(changed.bit_length()) if changed >> index & 1]
    if len(sectors) <= _TEARS_ALL:
        masks = {sum(each) for size in range(1, len(sectors)) for each in combinations(sectors, size)}
    else:
        masks = {sum(sectors[:count]) for count in range(1, len(sectors))}
        masks |= {changed - sector for sector in sectors}
    return sorted(masks - {0, changed})
