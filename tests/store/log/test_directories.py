"""Which directory of a log gets the next file."""

from __future__ import annotations

import pytest

from rocketpy.errors import StartError
from rocketpy.store.log.directories import LogDirectories
from rocketpy.testing.sim.disk import SimDisk


def chosen(directories: LogDirectories, count: int = 6) -> str:
    return "".join(directories.for_file(number)[0][-1] for number in range(count))


def test_files_go_round_in_the_order_of_names() -> None:
    assert chosen(LogDirectories(["/c", "/a", "/b"])) == "abcabc"


def test_of_one_directory_no_disk_is_asked() -> None:
    def never(path: str) -> bool:
        raise AssertionError(path)

    assert LogDirectories(["/a"], read_only=["/b"], takes_new_files=never).for_file(7) == ["/a"]


def test_read_only_ones_get_none_and_are_read() -> None:
    directories = LogDirectories(["/a", "/b", "/c"], read_only=["/b", "/old"])
    assert chosen(directories) == "acacac"
    assert directories.paths == ("/a", "/b", "/c", "/old")


def test_disks_that_are_nearly_full_get_none_while_there_are_others() -> None:
    full = {"/b"}
    directories = LogDirectories(["/a", "/b", "/c"], takes_new_files=lambda path: path not in full)
    assert chosen(directories) == "acacac"
    full |= {"/a", "/c"}
    assert chosen(directories) == "abcabc", "it cannot be helped"


def test_after_the_chosen_one_the_others_are_tried_the_roomy_ones_first() -> None:
    directories = LogDirectories(["/a", "/b", "/c"], takes_new_files=lambda path: path != "/a")
    assert directories.for_file(0) == ["/b", "/c", "/a"]


def test_without_any_for_new_files_the_store_does_not_open() -> None:
    with pytest.raises(StartError, match="/a, /b are read-only"):
        LogDirectories(["/a"], read_only=["/b", "/a"])


def test_missing_ones_are_made_but_not_the_read_only_ones() -> None:
    """A disk that is not mounted must not look like messages that have expired."""
    disk = SimDisk()
    LogDirectories(["/x/a", "/x/b"]).make(disk)
    assert disk.list_directory("/x") == ["a", "b"]
    with pytest.raises(StartError, match="no directory /old"):
        LogDirectories(["/x/a"], read_only=["/old"]).make(disk)
    assert not disk.exists("/old")
