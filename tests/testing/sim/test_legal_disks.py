"""That the disks after a loss of power are all there are, each once, and where that is too much the telling ones."""

from __future__ import annotations

from random import Random

import pytest

from rocketpy.testing.sim.choices import Choose, all_outcomes
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.sim.disk_state import DiskState
from rocketpy.testing.sim.legal_disks import LegalDisks

PAGE = 4096
SECTOR = 1024


def small_scene() -> SimDisk:
    """Three dirty pages, a length, a name that comes and moves and one that goes: eight units with the tear."""
    disk = SimDisk(sector_size=SECTOR)
    file = disk.open("/log", create=True)
    file.write(0, b"o" * 2 * PAGE)
    file.sync()
    disk.open("/gone", create=True).close()
    disk.sync_directory("/")
    file.write(SECTOR, b"n" * 2 * SECTOR)
    file.write(2 * PAGE - 10, b"n" * 20)
    disk.open("/staged", create=True).close()
    disk.rename("/staged", "/new")
    disk.unlink("/gone")
    return disk


def large_scene(count: int) -> DiskState:
    disk = SimDisk()
    file = disk.open("/f", create=True)
    file.reserve(0, count * PAGE)
    file.sync()
    disk.sync_directory("/")
    for number in range(count):
        file.write(number * PAGE, b"%d" % number)
    return disk.state()


def everything_on(disk: SimDisk) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, disk.open(f"/{name}").read(0, 1 << 20)) for name in disk.list_directory("/"))


def test_few_units_give_every_disk_that_a_loss_of_power_can_leave() -> None:
    legal = LegalDisks(small_scene().state())
    assert legal.unit_count == 8
    disks = [everything_on(SimDisk(state=disk)) for _, disk in legal.disks(samples=0, seed=0)]
    assert len(set(disks)) == len(disks), "each comes once"

    def lose_power(choose: Choose) -> tuple[tuple[str, bytes], ...]:
        disk = small_scene()
        disk.lose_power(choose)
        return everything_on(disk)

    assert set(disks) == all_outcomes(lose_power, runs_max=100_000)
    assert len(disks) <= legal.possible_count


def test_many_units_give_beginnings_single_ones_and_all_but_one() -> None:
    def kept(disk: DiskState) -> str:
        content = SimDisk(state=disk).open("/f").read(0, 10 * PAGE)
        return "".join("1" if content[number * PAGE] else "0" for number in range(10))

    legal = LegalDisks(large_scene(10))
    assert legal.unit_count == 10
    assert legal.possible_count == 1024
    disks = {kept(disk) for _, disk in legal.disks(samples=0, seed=0)}
    singles = ["0" * number + "1" + "0" * (9 - number) for number in range(10)]
    assert disks == {
        *("1" * number + "0" * (10 - number) for number in range(11)),
        *singles,
        *(each.translate(str.maketrans("01", "10")) for each in singles),
    }
    sampled = [kept(disk) for _, disk in legal.disks(samples=20, seed=7)]
    assert len(set(sampled) - disks) > 10
    assert sampled == [kept(disk) for _, disk in legal.disks(samples=20, seed=7)]
    assert len(list(legal.disks(samples=0, seed=0, units_max=10))) == 1024


def test_a_large_page_is_torn_in_telling_places() -> None:
    disk = SimDisk()
    file = disk.open("/f", create=True)
    file.reserve(0, 9 * PAGE)
    file.sync()
    disk.sync_directory("/")
    file.write(0, b"x" * PAGE)
    for number in range(1, 9):
        file.write(number * PAGE, b"x")

    def first_page(disk: DiskState) -> str:
        content = SimDisk(state=disk).open("/f").read(0, PAGE)
        return "".join("1" if content[start] else "0" for start in range(0, PAGE, 512))

    legal = LegalDisks(disk.state())
    pages = {first_page(disk) for _, disk in legal.disks(samples=0, seed=0)}
    assert {"11110000", "11101111", "01111111", "00000000", "11111111"} <= pages
    assert legal.possible_count == 2**9 + (2**8 - 2) * 2**8


def test_a_length_in_between_may_survive() -> None:
    disk = SimDisk()
    file = disk.open("/f", create=True)
    file.truncate(5)
    file.truncate(9)
    disk.sync_directory("/")
    sizes = {SimDisk(state=disk).file_size("/f") for _, disk in LegalDisks(disk.state()).disks(samples=0, seed=0)}
    assert sizes == {0, 5, 9}


def test_what_survives_is_described() -> None:
    state = small_scene().state()
    legal = LegalDisks(state)
    for survival, disk in legal.disks(samples=0, seed=0):
        assert state.after_power_loss(survival).fingerprint == disk.fingerprint
        lines = list(state.describe(survival))
        assert len(lines) == 7
        assert {line.partition(":")[0].partition(",")[0] for line in lines} <= {"kept", "lost", "torn"}
    assert "torn, sectors 110 were new and 10 are kept: page 0 of /log" in {
        line for survival, _ in legal.disks(samples=0, seed=0) for line in state.describe(survival)
    }


@pytest.mark.parametrize("seed", range(5))
def test_disks_are_equal_exactly_if_they_look_the_same(seed: int) -> None:
    random = Random(seed)
    seen: dict[int, object] = {}
    for _ in range(100):
        disk = small_scene()
        disk.lose_power(random.randrange)
        fingerprint, content = disk.state().fingerprint, everything_on(disk)
        assert seen.setdefault(fingerprint, content) == content
    assert len(set(map(str, seen.values()))) == len(seen)
