"""A queue of many files is gone, and the start that makes it again dies: units in the page cache pass for durable ones.

The checkpoint counts the units of the queue, and so does the note of a clean shutdown. When a start has made them again
there are as many as before, but no flush has made them durable. If it is killed then, the next start must not take them
for durable: it would sync the last file only, and a loss of power would leave a hole where nothing looks for one.
"""

from __future__ import annotations

from typing import Any

import pytest
from trio import sleep

from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.message_store import MessageStore
from rocketpy.store.recovery.checkpoint import CHECKPOINT_NUMBERS
from rocketpy.store.results import GetMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.sim.disk_state import Survival
from rocketpy.testing.sim.inode import PAGE_SIZE
from tests.store.damaged import run
from tests.store.deaths import different_disks, noted_deaths
from tests.store.opened_store import killed, opened, send
from tests.store.parts import Place

QUEUE = "/store/consumequeue/T/0/"
ALL_SECTORS = (1 << PAGE_SIZE // 512) - 1
COUNT = 30
MORE = 20
SETTINGS: dict[str, Any] = {
    "mapped_file_size_consume_queue": 100,  # five units
    "mapped_file_size_commit_log": 4096,  # ten records
    "max_message_size": 1000,
    "flush_consume_queue_thorough_interval": 1000,
}


def body(number: int) -> bytes:
    return b"%d." % number + bytes(300)


def lose_power(place: Place, *, kept_files: int = 0) -> Place:
    """Lose every page that is not durable, but those of the last files of the queue.

    Names and lengths of files, which the file system writes itself, are kept.
    """
    assert isinstance(place.disk, SimDisk)
    state = place.disk.state()
    lengths = {number: inode.lengths[-1] for number, inode in state.inodes.items() if inode.lengths}
    numbers = [number for path, number in sorted(state.files.items()) if path.startswith(QUEUE)]
    kept = numbers[len(numbers) - kept_files :]
    sectors = {number: dict.fromkeys(state.inodes[number].dirty, ALL_SECTORS) for number in kept}
    left = state.after_power_loss(Survival(frozenset(range(len(state.pending))), lengths, sectors))
    return Place(SimDisk(state=left), place.root)


def stopped_store(*, is_javas: bool) -> Place:
    """Return a store after a clean shutdown; one of a Java broker has no offsets in its checkpoint, and no note."""
    place = Place(SimDisk(), "/store")

    async def live() -> None:
        async with opened(place, **SETTINGS) as store:
            for number in range(COUNT):
                send(store, body(number))
            send(store, b"of another queue", queue_id=1)
            store.end_burst()

    run(live)
    if is_javas:
        content = place.read(f"{place.root}/checkpoint")
        durably_write(place, f"{place.root}/checkpoint", content[:24].ljust(CHECKPOINT_NUMBERS.size, b"\0"))
        place.disk.unlink(f"{place.root}/orderly-end")
        place.disk.sync_directory(place.root)
    return place


def durably_write(place: Place, path: str, content: bytes) -> None:
    file = place.disk.open(path)
    file.write(0, content)
    file.sync()
    file.close()


def remove_files(place: Place, kept: int) -> None:
    """Delete the files of the queue but the first ones, durably."""
    for name in place.disk.list_directory(QUEUE)[kept:]:
        place.disk.unlink(f"{QUEUE}{name}")
    place.disk.sync_directory(QUEUE)


def start_and_kill(place: Place) -> None:
    """Start, and be killed before a flush."""

    async def live() -> None:
        async with killed(place, **SETTINGS):
            pass

    run(live)


def go_on(place: Place) -> None:
    """Start and take messages that fill the last three files of the queue, until a checkpoint covers them."""

    async def live() -> None:
        async with killed(place, **SETTINGS) as store:
            for number in range(MORE):
                send(store, body(COUNT + number))
            store.end_burst()
            await sleep(10)

    run(live)


async def bodies(store: MessageStore, queue_id: int) -> list[bytes]:
    found: list[bytes] = []
    for _ in range(COUNT + MORE):  # at a hole it would find nothing forever
        result = await store.get_message("T", queue_id, len(found), 32)
        if result.status is GetMessageStatus.FOUND:
            found += [message.body for message in decode_messages(result.body)]
    return found


def check_whole(place: Place, count: int) -> None:
    async def live() -> None:
        async with opened(place, **SETTINGS) as store:
            assert await bodies(store, 0) == [body(number) for number in range(count)]
            assert await bodies(store, 1) == [b"of another queue"]

    run(live)


# A start after a clean shutdown of Java's walks the last three of four log files: to make the end of the queue again it
# need not go back further.
LOSSES = pytest.mark.parametrize(
    ("is_javas", "kept"), [(False, 0), (False, 2), (True, 0), (True, 2)], ids=["all", "end", "all, Java", "end, Java"]
)


@LOSSES
@pytest.mark.parametrize("kills", [1, 2])
def test_a_start_that_made_a_queue_again_is_killed(is_javas: bool, kept: int, kills: int) -> None:
    place = stopped_store(is_javas=is_javas)
    remove_files(place, kept)
    for _ in range(kills):
        start_and_kill(place)
    go_on(place)
    check_whole(lose_power(place), COUNT + MORE)


@LOSSES
def test_a_start_that_makes_a_queue_again_loses_power(is_javas: bool, kept: int) -> None:
    place = stopped_store(is_javas=is_javas)
    remove_files(place, kept)
    start_and_kill(place)
    check_whole(lose_power(place, kept_files=3), COUNT)


@LOSSES
def test_a_start_that_makes_a_queue_again_is_killed_in_any_call(is_javas: bool, kept: int) -> None:
    place = stopped_store(is_javas=is_javas)
    remove_files(place, kept)
    assert isinstance(place.disk, SimDisk)
    with noted_deaths(place.disk) as states:
        start_and_kill(place)
    count = 0
    for disk in different_disks(states, None):
        again = Place(disk, place.root)
        go_on(again)
        check_whole(lose_power(again), COUNT + MORE)
        count += 1
    assert count > 20
