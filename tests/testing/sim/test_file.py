"""Files and locks of a simulated disk by themselves: what they ask of their disk, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from rocketpy.store.disk.os_file import WORD_SIZE
from rocketpy.testing.sim.file import ProcessDied, SimFile, SimLock
from rocketpy.testing.sim.inode import PAGE_SIZE, SimInode

PATH = "/f"


@attrs.define(eq=False)
class Disk:
    """Notes what it is asked, and does nothing else but what the file relies on."""

    asked: list[tuple[object, ...]] = attrs.Factory(list)
    before_change: Callable[[str, str], None] | None = None

    def require_descriptor(self, action: str, path: str) -> None:
        """There always is one."""

    def count_call(self, method: str, path: str, *, is_change: bool = False) -> None:
        self.asked.append((method, is_change))

    def allocate(self, inode: SimInode, path: str, position: int, size: int) -> None:
        inode.allocated.update(range(position // PAGE_SIZE, -(-(position + size) // PAGE_SIZE)))

    def write_inode(self, inode: SimInode, path: str, position: int, content: bytes) -> None:
        inode.write(position, content)

    def sync_inode(self, inode: SimInode, path: str) -> None:
        self.asked.append(("sync_inode", path))

    def close_file(self, file: SimFile) -> None:
        self.asked.append(("close_file", file.path))

    def release_lock(self, path: str, lock: SimLock) -> None:
        self.asked.append(("release_lock", path))


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def file(disk: Disk) -> SimFile:
    return SimFile(disk, PATH, SimInode(), read_only=False)


def test_words_are_exchanged_in_reserved_space_only(disk: Disk, file: SimFile) -> None:
    file.reserve(0, 16)
    assert file.exchange_words([0, WORD_SIZE], [1, 2]) == [0, 0]
    assert file.exchange_words([WORD_SIZE, WORD_SIZE], [3, 4]) == [2, 3], "one after the other"
    assert file.read(0, 2 * WORD_SIZE) == b"\0\0\0\1\0\0\0\4"
    with pytest.raises(AssertionError, match="not reserved"):
        file.exchange_words([PAGE_SIZE], [1])


def test_a_death_may_come_in_the_middle_of_an_exchange(disk: Disk, file: SimFile) -> None:
    """What the process has exchanged until then stands."""
    file.reserve(0, 32)
    seen: list[bytes] = []
    disk.before_change = lambda method, path: seen.append(file.inode.read(0, 32))
    file.exchange_words([0, 8, 16, 24], [1, 2, 3, 4])
    (half,) = seen
    assert [int.from_bytes(half[at : at + WORD_SIZE], "big") for at in (0, 8, 16, 24)] == [1, 2, 0, 0]


def test_words_lie_at_multiples_of_their_size(file: SimFile) -> None:
    file.reserve(0, 16)
    with pytest.raises(AssertionError):
        file.exchange_words([WORD_SIZE - 1], [1])


CALLS = {
    "size": lambda file: file.size(),
    "read": lambda file: file.read(0, 1),
    "read_nowait": lambda file: file.read_nowait(0, 1),
    "reads_zero_from": lambda file: file.reads_zero_from(0),
    "write": lambda file: file.write(0, b"x"),
    "exchange_words": lambda file: file.exchange_words([], []),
    "exchange_packed": lambda file: file.exchange_packed(b"", 1),
    "sync": lambda file: file.sync(),
    "reserve": lambda file: file.reserve(0, 1),
    "truncate": lambda file: file.truncate(0),
}


@pytest.mark.parametrize("method", CALLS)
def test_the_file_of_a_dead_process_can_only_be_closed(disk: Disk, file: SimFile, method: str) -> None:
    file.is_dead = True
    with pytest.raises(ProcessDied, match=f"{method} of {PATH}") as caught:
        CALLS[method](file)
    assert not caught.value.is_now
    file.close()
    assert disk.asked == [("close_file", PATH)]


@pytest.mark.parametrize("method", CALLS)
def test_using_a_closed_file_is_a_mistake_of_the_caller(file: SimFile, method: str) -> None:
    file.close()
    with pytest.raises(AssertionError, match="is closed"):
        CALLS[method](file)


def test_a_lock_is_let_go_where_it_was_taken(disk: Disk) -> None:
    SimLock(disk, PATH).release()
    assert disk.asked == [("release_lock", PATH)]
