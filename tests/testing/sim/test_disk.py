"""Faults of the simulated disk.

Its files by themselves: ``test_inode.py``; its names: ``test_disk_state.py``; every disk that a loss of power can
leave: ``test_legal_disks.py``; that it works like a real one without faults: ``tests/store/disk/test_interface.py``.
"""

from __future__ import annotations

import os

import pytest

from rocketpy.clock import ManualClock
from rocketpy.errors import DescriptorShortageError, DiskFullError, StartError, StoreError
from rocketpy.store.disk.interface import DiskFile
from rocketpy.store.disk.text_files import persist_text, read_text
from rocketpy.testing.sim.choices import Choose, all_outcomes
from rocketpy.testing.sim.disk import ProcessDied, SimDisk

PAGE = 4096


def new(count: int) -> int:
    """Let everything survive (and tear nothing: 0 is only asked of more than two)."""
    return 1 if count == 2 else 0


def old(count: int) -> int:
    """Let nothing survive that is not durable."""
    return 0


def chosen(*choices: int) -> Choose:
    """Make these choices, then the first possibility of each."""
    rest = list(choices)
    return lambda count: rest.pop(0) if rest else 0


@pytest.fixture
def disk() -> SimDisk:
    return new_disk()


def new_disk(choose: Choose | None = None) -> SimDisk:
    disk = SimDisk(choose=choose)
    disk.make_directories("/store")
    disk.sync_directory("/store")
    return disk


def written(disk: SimDisk, path: str, content: bytes) -> DiskFile:
    """Return a new open file of a content that no sync has made durable."""
    file = disk.open(path, create=True)
    file.write(0, content)
    return file


def durable(disk: SimDisk, path: str, content: bytes) -> DiskFile:
    """Return a new open file whose content and name are durable."""
    file = written(disk, path, content)
    file.sync()
    disk.sync_directory(os.path.dirname(path))
    return file


def test_a_killed_process_loses_nothing_written(disk: SimDisk) -> None:
    file = written(disk, "/store/f", b"abc")
    disk.kill_process()
    with pytest.raises(ProcessDied):
        file.read(0, 3)
    with pytest.raises(ProcessDied):
        file.size()
    file.close()
    assert disk.open("/store/f").read(0, 3) == b"abc"


def test_a_kill_ends_locks(disk: SimDisk) -> None:
    lock = disk.lock("/store/lock")
    disk.kill_process()
    other = disk.lock("/store/lock")
    lock.release()
    with pytest.raises(StartError):
        disk.lock("/store/lock")
    other.release()


def test_without_power_what_is_synced_stays(disk: SimDisk) -> None:
    file = durable(disk, "/store/f", b"abc")
    file.write(0, b"xyz" * PAGE)
    disk.kill_process()
    disk.lose_power(old)
    assert disk.open("/store/f").read(0, PAGE) == b"abc"
    assert disk.open("/store/f").size() == 3


def test_names_are_durable_with_their_directory(disk: SimDisk) -> None:
    disk.make_directories("/store/a/b")
    durable(disk, "/store/a/b/f", b"abc")
    disk.open("/store/a/g", create=True).close()
    disk.lose_power(old)
    assert disk.open("/store/a/b/f").read(0, 3) == b"abc"
    assert disk.list_directory("/store/a") == ["b"]


def test_without_sync_of_the_directory_a_name_may_be_lost_and_another_not(disk: SimDisk) -> None:
    for name in "abc":
        disk.open(f"/store/{name}", create=True).close()
    disk.lose_power(chosen(0, 1, 0))
    assert disk.list_directory("/store") == ["b"]
    disk.unlink("/store/b")
    disk.lose_power(old)
    assert disk.list_directory("/store") == ["b"]
    disk.unlink("/store/b")
    disk.lose_power(new)
    assert disk.list_directory("/store") == []


def test_a_removed_directory_may_come_back(disk: SimDisk) -> None:
    disk.make_directories("/store/d")
    disk.sync_directory("/store/d")
    disk.remove_directory("/store/d")
    disk.lose_power(old)
    assert disk.is_directory("/store/d")
    disk.remove_directory("/store/d")
    disk.sync_directory("/store")
    disk.lose_power(old)
    assert not disk.is_directory("/store/d")


def test_a_rename_between_directories_is_whole(disk: SimDisk) -> None:
    """A staged file is under its old or its new name; synced in the target directory, under the new one."""

    def run(choose: Choose, *, is_synced: bool) -> str:
        disk = SimDisk()
        disk.make_directories("/staging")
        disk.make_directories("/log")
        disk.sync_directory("/")
        written(disk, "/staging/f", b"abc").sync()
        disk.rename("/staging/f", "/log/f")
        if is_synced:
            disk.sync_directory("/log")
        disk.lose_power(choose)
        for path in ("/log/f", "/staging/f"):
            assert not disk.exists(path) or disk.open(path).read(0, 9) == b"abc"
        return " ".join(disk.list_directory("/staging") + ["|"] + disk.list_directory("/log"))

    assert all_outcomes(lambda choose: run(choose, is_synced=False)) == {"|", "f |", "| f"}
    assert all_outcomes(lambda choose: run(choose, is_synced=True)) == {"| f"}


def test_a_rename_moves_the_file_and_not_a_later_one_of_its_name() -> None:
    """Several files staged under one name one after the other: each is under its own number, or under none."""

    def run(choose: Choose) -> tuple[tuple[str, bytes], ...]:
        disk = SimDisk()
        for name in "ab":
            file = written(disk, "/staged", name.encode())
            file.sync()
            file.close()
            disk.rename("/staged", f"/{name}")
        disk.lose_power(choose)
        return tuple((name, disk.open(f"/{name}").read(0, 9)) for name in disk.list_directory("/"))

    outcomes = all_outcomes(run)
    assert all(content.decode() == name for each in outcomes for name, content in each if name != "staged")
    assert {tuple(name for name, _ in each) for each in outcomes} == {
        (), ("a",), ("b",), ("staged",), ("a", "b"), ("a", "staged"), ("b", "staged"),
    }  # fmt: skip
    assert (("a", b"a"), ("staged", b"b")) in outcomes
    assert (("b", b"b"), ("staged", b"a")) in outcomes


def test_a_name_may_survive_without_the_contents() -> None:
    disk = SimDisk()
    written(disk, "/staged", b"abc")
    disk.rename("/staged", "/f")
    disk.sync_directory("/")
    disk.lose_power(old)
    assert disk.list_directory("/") == ["f"]
    assert disk.file_size("/f") == 0


def test_a_synced_rename_leaves_nothing_of_the_old_name(disk: SimDisk) -> None:
    disk.make_directories("/store/log")
    disk.sync_directory("/store/log")
    disk.open("/store/staged", create=True).close()
    disk.rename("/store/staged", "/store/log/f")
    disk.sync_directory("/store/log")
    disk.unlink("/store/log/f")
    disk.sync_directory("/store/log")
    disk.lose_power(new)
    assert disk.list_directory("/store") == ["log"]
    assert disk.list_directory("/store/log") == []


@pytest.mark.parametrize("call", range(1, 40))
def test_persisted_text_is_old_or_new_after_every_death(call: int) -> None:
    def run(choose: Choose) -> str:
        disk = SimDisk()
        persist_text(disk, "/table", "1")
        persist_text(disk, "/table", "2")
        disk.die_at_call(call)
        try:
            persist_text(disk, "/table", "3")
        except ProcessDied:
            pass
        disk.lose_power(lambda count: choose(count) if count == 2 else 0)
        return read_text(disk, "/table") or "nothing"

    assert all_outcomes(run) in ({"2"}, {"2", "3"}, {"3"})


def test_a_process_that_died_stays_dead(disk: SimDisk) -> None:
    file = disk.open("/store/f", create=True)
    disk.die_at_call(2)
    file.write(0, b"abc")
    with pytest.raises(ProcessDied):
        file.sync()
    for call in (lambda: file.read(0, 1), lambda: disk.exists("/store/f"), lambda: disk.open("/store/f")):
        with pytest.raises(ProcessDied):
            call()
    disk.kill_process()
    assert disk.open("/store/f").read(0, 3) == b"abc"


def test_a_write_dies_in_the_middle() -> None:
    def run(choose: Choose) -> str:
        disk = SimDisk(choose=choose)
        file = disk.open("/f", create=True)
        disk.die_at_call(1)
        with pytest.raises(ProcessDied):
            file.write(0, b"x" * 3 * PAGE)
        disk.kill_process()
        return str(disk.file_size("/f"))

    assert all_outcomes(run) == {"0", "4096", "8192", "12288"}


def test_the_call_that_was_arranged_fails(disk: SimDisk) -> None:
    file = disk.open("/store/f", create=True)
    disk.fail_call("write", 2)
    file.write(0, b"a")
    with pytest.raises(StoreError, match=r"write: simulated failure \(/store/f\)"):
        file.write(1, b"b")
    file.write(2, b"c")
    assert disk.calls["write"] == 3


def test_a_failed_sync_loses_pages_that_later_syncs_take_for_clean() -> None:
    disk = new_disk(choose=old)
    file = disk.open("/store/f", create=True)
    disk.sync_directory("/store")
    file.write(0, b"abc")
    disk.fail_call("sync")
    for _ in range(2):
        with pytest.raises(StoreError):
            file.sync()
    assert file.read(0, 3) == b"abc"
    disk.kill_process()
    disk.open("/store/f").sync()
    disk.lose_power(new)
    assert disk.open("/store/f").read(0, 3) == bytes(3)


def test_a_full_disk_refuses_and_reserved_space_is_kept() -> None:
    disk = SimDisk(capacity_bytes=3 * PAGE)
    file = disk.open("/f", create=True)
    file.reserve(0, 2 * PAGE)
    assert disk.free_bytes("/") == PAGE
    with pytest.raises(DiskFullError, match=r"8192 bytes wanted, 4096 bytes free \(/f\)"):
        file.reserve(2 * PAGE, 2 * PAGE)
    other = written(disk, "/g", b"x" * PAGE)
    with pytest.raises(DiskFullError):
        other.write(PAGE, b"x")
    file.write(0, b"y" * 2 * PAGE)
    disk.unlink("/g")
    assert disk.free_bytes("/") == 0, "it is still open"
    other.close()
    assert disk.free_bytes("/") == PAGE
    assert disk.total_bytes("/") == 3 * PAGE
    file.truncate(0)
    assert disk.free_bytes("/") == 3 * PAGE


def test_a_disk_can_be_made_from_the_state_of_another(disk: SimDisk) -> None:
    file = written(disk, "/store/f", b"abc")
    state = disk.state()
    file.write(0, b"xyz")
    disk.unlink("/store/f")
    for choose, names in ((new, ["f"]), (old, [])):
        other = SimDisk(state=state)
        assert other.open("/store/f").read(0, 3) == b"abc"
        other.open("/store/g", create=True).write(0, b"ghi")
        assert other.open("/store/f").read(0, 3) == b"abc"
        other.unlink("/store/g")
        other.lose_power(choose)
        assert other.list_directory("/store") == names
    assert disk.list_directory("/store") == []


def test_every_change_is_announced_and_a_long_write_page_by_page() -> None:
    seen: list[tuple[str, str, int]] = []
    disk = SimDisk()
    disk.before_change = lambda method, path: seen.append((method, path, disk.state().inodes[1].size if seen else 0))
    file = disk.open("/f", create=True)
    file.write(100, b"x" * 2 * PAGE)
    file.read(0, 1)
    file.exchange_words([0, 4], [1, 2])
    file.sync()
    assert seen == [
        ("open", "/f", 0),
        ("write", "/f", 0),
        ("write", "/f", PAGE),
        ("write", "/f", 2 * PAGE),
        ("exchange_words", "/f", 2 * PAGE + 100),
        ("exchange_words", "/f", 2 * PAGE + 100),
        ("sync", "/f", 2 * PAGE + 100),
    ]


def test_files_carry_the_time_of_the_clock() -> None:
    clock = ManualClock(1_700_000_000_000)
    disk = SimDisk(clock=clock)
    file = disk.open("/f", create=True)
    clock.advance_ms(5)
    file.write(0, b"x")
    clock.advance_ms(5)
    assert disk.modified_timestamp_ms("/f") == 1_700_000_000_005


def test_the_same_seed_makes_the_same_disk() -> None:
    def run() -> bytes:
        disk = SimDisk()
        file = disk.open("/f", create=True)
        disk.sync_directory("/")
        file.write(0, b"x" * 40 * PAGE)
        disk.lose_power()
        return disk.open("/f").read(0, 40 * PAGE)

    assert run() == run()


def test_descriptors_run_out_by_count_and_by_plan() -> None:
    """Files, their mappings and locks count; a call that finds none changes nothing."""
    disk = SimDisk(descriptors_max=3)
    lock = disk.lock("/lock")
    first = disk.open("/f", create=True)
    first.reserve(0, 4096)
    assert first.exchange_words([0], [1]) == [0]
    assert disk.descriptor_count == 3
    for call in (
        lambda: disk.open("/g", create=True),
        lambda: disk.sync_directory("/"),
        lambda: disk.list_directory("/"),
    ):
        with pytest.raises(DescriptorShortageError):
            call()
    assert not disk.exists("/g")
    assert first.exchange_words([0], [2]) == [1], "it is mapped already"
    first.truncate(4096)
    second = disk.open("/g", create=True)
    with pytest.raises(DescriptorShortageError, match="cannot map"):
        first.exchange_words([0], [3])
    first.close()
    lock.release()
    disk.run_out_of_descriptors(2)
    disk.sync_directory("/")
    with pytest.raises(DescriptorShortageError):
        disk.open("/f")
    disk.open("/f").close()
    disk.run_out_of_descriptors(1, 1000)
    second.sync()
    disk.kill_process()
    assert disk.list_directory("/") == ["f", "g", "lock"]
