"""A start that clears units dies in each of its disk calls: what the next start finds clear stays so without power.

Units whose messages are not in the log are zeros after a recovery, and must be so on the disk. New records may soon
have the offsets and sizes of the missing ones: units that came back would then lead to them with foreign tags codes.

The last stop was a clean one, so when a queue has been cut it ends as that stop has noted: the next start takes the
stop for clean again, and only the mark of the killed recovery says that what is clear in memory may not be so on the
disk.
"""

from __future__ import annotations

from functools import cache

from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.sim.disk_state import DiskState
from tests.store.damaged import run
from tests.store.deaths import different_disks, noted_deaths
from tests.store.opened_store import bodies, killed, opened, send
from tests.store.parts import Place

COUNT = 5
LOST = 3
"""Messages that the queue has units of, and the log does not."""


def nothing(count: int) -> int:
    """Let nothing survive a loss of power that is not durable."""
    return 0


def units_after_the_end(place: Place) -> bytes:
    return place.read(place.queue_file("T", 0))[COUNT * UNIT_SIZE : (COUNT + LOST) * UNIT_SIZE]


@cache
def deaths() -> list[DiskState]:
    """Return what kills leave of the first start after a clean shutdown with a queue that is longer than the log."""
    disk = SimDisk()
    place = Place(disk, "/store")

    async def live() -> list[DiskState]:
        async with opened(place) as store:
            for number in range(COUNT):
                send(store, b"%d" % number)
            store.end_burst()
            end, size = store.max_physical_offset, store.max_physical_offset // COUNT
        units = b"".join(UNIT.pack(end + number * size, size, 7) for number in range(LOST))
        place.write(place.queue_file("T", 0), units, COUNT * UNIT_SIZE)
        file = disk.open(place.queue_file("T", 0))
        file.sync()
        file.close()
        with noted_deaths(disk) as states:
            async with opened(place):
                pass
        return states

    return run(live)


def test_units_that_were_cleared_stay_so_over_a_loss_of_power() -> None:
    cleared = bytes(LOST * UNIT_SIZE)
    were_there = set()
    for disk in different_disks(deaths(), None):
        place = Place(disk, "/store")
        were_there.add(units_after_the_end(place) != cleared)

        async def live(place: Place = place) -> None:
            async with killed(place) as store:
                assert bodies(store) == [b"%d" % number for number in range(COUNT)]

        run(live)
        disk.lose_power(nothing)
        assert units_after_the_end(place) == cleared
    assert were_there == {True, False}
