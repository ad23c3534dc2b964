"""Names that a loss of power brings back or takes, and how the disk that is left is described."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.sim.disk_state import Change, DiskState, Survival, Tree
from rocketpy.testing.sim.inode import PAGE_SIZE


def tree(*changes: Change) -> Tree:
    made = Tree()
    for change in changes:
        made.apply(change)
    return made


MAKE_D = Change("make", "/d")


def test_names_come_and_go() -> None:
    made = tree(MAKE_D, Change("create", "/d/a", inode=1), Change("create", "/d/b", inode=2))
    assert made.names_in("/d") == ["a", "b"]
    assert made.names_in("/") == ["d"]
    made.apply(Change("unlink", "/d/a", inode=1))
    made.apply(Change("rename", "/d/b", "/d/c", inode=2))
    assert made.files == {"/d/c": 2}


def test_what_builds_on_a_directory_that_is_lost_is_lost_with_it() -> None:
    assert tree(Change("create", "/d/a", inode=1), Change("make", "/d/e")).files == {}


def test_a_rename_whose_name_was_lost_still_moves_the_file() -> None:
    """The journal of a file system knows files by number."""
    assert tree(MAKE_D, Change("rename", "/d/a", "/d/b", inode=1)).files == {"/d/b": 1}


def test_an_unlink_takes_no_other_file_of_the_same_name() -> None:
    made = tree(MAKE_D, Change("create", "/d/a", inode=2))
    made.apply(Change("unlink", "/d/a", inode=1))
    assert made.files == {"/d/a": 2}


def test_a_directory_that_was_removed_takes_names_along_whose_removal_is_not_durable() -> None:
    made = tree(MAKE_D, Change("create", "/d/a", inode=1), Change("make", "/d/e"), Change("remove", "/d"))
    assert (made.names_in("/"), made.files) == ([], {})


def test_a_copy_changes_apart() -> None:
    first = tree(MAKE_D)
    second = first.copy()
    second.apply(Change("create", "/d/a", inode=1))
    assert first.files == {}


@pytest.mark.parametrize(
    ("change", "text", "directory"),
    [
        (Change("create", "/d/a", inode=1), "create /d/a", "/d"),
        (Change("rename", "/d/a", "/e/b", inode=1), "rename /d/a to /e/b", "/e"),
    ],
)
def test_a_change_says_what_it_was_and_which_sync_keeps_it(change: Change, text: str, directory: str) -> None:
    assert (str(change), change.directory) == (text, directory)


def disk() -> SimDisk:
    """A disk with a durable file of two pages, both of them changed since, and a file that is new."""
    made = SimDisk()
    made.make_directories("/d")
    made.sync_directory("/")
    file = made.open("/d/old", create=True)
    file.write(0, b"o" * (2 * PAGE_SIZE))
    file.sync()
    made.sync_directory("/d")
    file.write(0, b"n" * (2 * PAGE_SIZE))
    file.truncate(3 * PAGE_SIZE)
    made.open("/d/new", create=True).close()
    return made


def content(state: DiskState, path: str = "/d/old") -> bytes:
    return SimDisk(state=state).open(path).read(0, 1 << 20)


def test_nothing_of_what_was_not_synced_need_survive() -> None:
    left = disk().state().after_power_loss(Survival())
    assert sorted(left.files) == ["/d/old"]
    assert content(left) == b"o" * (2 * PAGE_SIZE)
    assert not left.pending
    again = left.after_power_loss(Survival())
    assert again.boot_count == left.boot_count + 1
    same_boot = attrs.evolve(again, boot_count=left.boot_count)
    assert same_boot.fingerprint == left.fingerprint, "all of it is durable now"


def test_all_of_it_may_survive() -> None:
    state = disk().state()
    number = state.files["/d/old"]
    everything = Survival(frozenset(range(len(state.pending))), {number: 3 * PAGE_SIZE}, {number: {0: 0xFF, 1: 0xFF}})
    left = state.after_power_loss(everything)
    assert sorted(left.files) == ["/d/new", "/d/old"]
    assert content(left) == b"n" * (2 * PAGE_SIZE) + bytes(PAGE_SIZE)


def test_a_disk_that_lost_something_is_described_unit_by_unit() -> None:
    state = disk().state()
    number = state.files["/d/old"]
    assert list(state.describe(Survival(lengths={number: 3 * PAGE_SIZE}, sectors={number: {0: 0xFF, 1: 0b1}}))) == [
        "lost: create /d/new",
        f"kept: length of /d/old: {3 * PAGE_SIZE}",
        "kept: page 0 of /d/old",
        "torn, sectors 11111111 were new and 1 are kept: page 1 of /d/old",
    ]


def test_a_file_that_has_no_name_any_more_is_still_called_something() -> None:
    made = disk()
    number = made.state().files["/d/old"]
    made.unlink("/d/old")
    assert made.state().path_of(number) == "/d/old", "on the disk it has"
    assert made.state().path_of(99) == "file 99"


def test_a_new_file_gets_a_number_that_no_other_has() -> None:
    state = disk().state()
    assert state.inode_count > max(state.inodes)
    assert DiskState.clean(Tree(), {}, 512).inode_count == 1
