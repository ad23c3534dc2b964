"""The contents of a simulated file against plain byte strings: what is read, and what a loss of power may leave."""

from __future__ import annotations

import random

import pytest

from rocketpy.testing.sim.inode import PAGE_SIZE, SimInode, pages_of

SECTOR = 512
PAGES = 4


@pytest.mark.parametrize(
    ("position", "size", "pages"),
    [(0, 0, []), (0, 1, [0]), (0, 4096, [0]), (4095, 1, [0]), (4095, 2, [0, 1]), (4096, 1, [1]), (0, 8193, [0, 1, 2])],
)
def test_the_pages_of_a_range(position: int, size: int, pages: list[int]) -> None:
    assert list(pages_of(position, size)) == pages


class Model:
    """The same file as two byte strings: now, and as of the last sync."""

    def __init__(self) -> None:
        self.now = bytearray()
        self.durable = b""

    def write(self, position: int, content: bytes) -> None:
        self.truncate(max(len(self.now), position + len(content)))
        self.now[position : position + len(content)] = content

    def truncate(self, size: int) -> None:
        del self.now[size:]
        self.now.extend(bytes(size - len(self.now)))

    def sync(self) -> None:
        self.durable = bytes(self.now)


@pytest.mark.parametrize("seed", range(30))
def test_it_reads_as_the_bytes_that_were_written_and_survives_as_those_that_were_synced(seed: int) -> None:
    choose = random.Random(seed)
    inode, model = SimInode(), Model()
    for _ in range(60):
        action = choose.randrange(8)
        if action < 4:
            content = choose.randbytes(choose.choice((1, 100, PAGE_SIZE, 2 * PAGE_SIZE + 7)))
            position = choose.randrange(PAGES * PAGE_SIZE)
            inode.write(position, content)
            model.write(position, content)
        elif action < 6:
            size = choose.randrange(PAGES * PAGE_SIZE)
            inode.truncate(size)
            model.truncate(size)
        elif action == 6:
            inode.sync()
            model.sync()
        else:
            inode = SimInode(state=inode.state())
        assert inode.size == len(model.now)
        assert inode.read(0, 1 << 30) == bytes(model.now)
        position = choose.randrange(PAGES * PAGE_SIZE)
        assert inode.read(position, 100) == bytes(model.now[position : position + 100])
        assert inode.reads_zero_from(position) == (not any(model.now[position:]))
        state = inode.state()
        left = SimInode(state=state.survived(state.durable_size, {}, SECTOR))
        assert left.read(0, 1 << 30) == model.durable, "nothing of what was not synced has survived"


@pytest.mark.parametrize("seed", range(20))
def test_any_sectors_of_dirty_pages_may_survive(seed: int) -> None:
    """Each sector is the old one or the new one, whatever lies beside it."""
    choose = random.Random(seed)
    inode = SimInode()
    old, new = choose.randbytes(2 * PAGE_SIZE), choose.randbytes(2 * PAGE_SIZE)
    inode.write(0, old)
    inode.sync()
    inode.write(0, new)
    state = inode.state()
    assert state.dirty == {0, 1}
    masks = {page: choose.getrandbits(8) for page in state.dirty}
    left = SimInode(state=state.survived(2 * PAGE_SIZE, masks, SECTOR)).read(0, 2 * PAGE_SIZE)
    for index in range(16):
        page, sector = divmod(index, 8)
        wanted = new if masks[page] >> sector & 1 else old
        assert left[index * SECTOR : (index + 1) * SECTOR] == wanted[index * SECTOR : (index + 1) * SECTOR]
    assert state.changed_sectors(0, SECTOR) == 0xFF


def test_only_what_differs_counts_as_changed() -> None:
    inode = SimInode()
    inode.write(0, b"a" * PAGE_SIZE)
    inode.sync()
    inode.write(SECTOR, b"b")
    inode.write(3 * SECTOR, b"a")
    assert inode.state().changed_sectors(0, SECTOR) == 0b10
    assert inode.state().changed_sectors(7, SECTOR) == 0


def test_every_length_since_the_last_sync_may_be_the_one() -> None:
    inode = SimInode()
    inode.write(0, b"x" * 10)
    inode.sync()
    for size in (30, 20, 30):
        inode.truncate(size)
    assert (inode.state().durable_size, inode.state().lengths) == (10, (20, 30))
    inode.truncate(10)
    assert inode.state().lengths == (20, 30), "it is the durable one already"
    inode.sync()
    assert inode.state().lengths == ()


def test_what_is_cut_off_and_grows_again_is_zeros_also_in_the_middle_of_a_page() -> None:
    inode = SimInode()
    inode.write(0, b"x" * 100)
    inode.sync()
    inode.truncate(50)
    inode.truncate(100)
    assert inode.read(0, 100) == b"x" * 50 + bytes(50)
    state = inode.state()
    assert SimInode(state=state.survived(100, {}, SECTOR)).read(0, 100) == b"x" * 100, "the disk has the old page still"


def test_space_is_of_what_is_written_and_given_back_by_a_cut() -> None:
    inode = SimInode()
    inode.write(PAGE_SIZE, b"x")
    assert inode.allocated == {1}
    inode.truncate(3 * PAGE_SIZE)
    assert inode.allocated == {1}, "a hole costs nothing"
    inode.truncate(0)
    assert inode.allocated == set()


def test_after_a_failed_sync_no_page_is_written_any_more() -> None:
    inode = SimInode()
    inode.write(0, b"a" * (2 * PAGE_SIZE))
    answers = iter((1, 0))
    inode.fail_sync(lambda count: next(answers))
    assert inode.read(0, 1 << 30) == b"a" * (2 * PAGE_SIZE), "memory has it all"
    inode.sync()
    inode.evict()
    assert inode.is_cold
    assert inode.read(0, 1 << 30) == b"a" * PAGE_SIZE + bytes(PAGE_SIZE)


def test_eviction_takes_nothing_that_is_dirty() -> None:
    inode = SimInode()
    inode.write(0, b"a")
    inode.evict()
    assert inode.read(0, 1) == b"a"


def test_a_flipped_bit_is_in_memory_and_on_the_disk() -> None:
    inode = SimInode()
    inode.write(0, b"\0\0")
    inode.sync()
    inode.flip_bit(1, 3)
    assert inode.read(0, 2) == b"\0\x08"
    state = inode.state()
    assert SimInode(state=state.survived(2, {}, SECTOR)).read(0, 2) == b"\0\x08"


def test_a_state_is_a_value_that_later_changes_do_not_reach() -> None:
    inode = SimInode()
    inode.write(0, b"before")
    state = inode.state()
    assert inode.state() is state, "the same one while nothing changes"
    inode.write(0, b"after!")
    assert SimInode(state=state).read(0, 10) == b"before"
    assert inode.state() is not state


def test_files_that_read_the_same_have_one_fingerprint() -> None:
    first, second = SimInode(), SimInode()
    first.write(0, b"x" + bytes(3 * PAGE_SIZE))
    second.write(0, b"x")
    second.truncate(3 * PAGE_SIZE + 1)
    assert first.state().fingerprint == second.state().fingerprint, "a page of zeros and a hole"
    second.truncate(3 * PAGE_SIZE)
    assert first.state().fingerprint != second.state().fingerprint
