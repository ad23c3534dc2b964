"""A deletion of what has expired dies in each of its disk calls, by a kill or a loss of power: no death leaves a gap.

After each death the store opens twice. Every message is there that is too young to go, in order, once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import cache, partial
from random import Random

import attrs
import pytest
import trio

from rocketpy.clock import ManualClock
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import GetMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.sim.disk_state import DiskState
from tests.store.damaged import run
from tests.store.deaths import different_disks, noted_deaths
from tests.store.opened_store import opened, send
from tests.store.parts import Place

HOUR_MS = 3_600_000
RESERVED_HOURS = 5
COUNT = 100
"""Messages of the store, of which most have expired."""


@attrs.define
class Witness:
    """The store's disk and clock, and what was sent to its queue: bodies with their times."""

    disk: SimDisk = attrs.Factory(SimDisk)
    clock: ManualClock = attrs.Factory(lambda: ManualClock(1_700_000_000_000))
    sent: list[tuple[bytes, int]] = attrs.Factory(list)

    @asynccontextmanager
    async def opened(self, directories: int) -> AsyncIterator[MessageStore]:
        """Open the store, whose log lies in one or more directories."""
        async with opened(
            Place(self.disk, "/store"),
            clock=self.clock,
            store_path_commit_log=",".join(f"/{name}/log" for name in "abc"[:directories]),
            mapped_file_size_commit_log=8192,
            mapped_file_size_consume_queue=400,
            max_hash_slot_num=20,
            max_index_num=40,
            flush_consume_queue_thorough_interval=3000,
            file_reserved_time=RESERVED_HOURS,
            delete_when=";".join(map(str, range(24))),
            clean_resource_interval=2000,
            disk_space_warning_level_ratio=100,
        ) as store:
            yield store

    async def check(self, store: MessageStore) -> None:
        """Compare the queue with what was sent."""
        min_offset, max_offset = store.min_offset_in_queue("T", 0), store.max_offset_in_queue("T", 0)
        found: list[bytes] = []
        while (result := await store.get_message("T", 0, min_offset + len(found), 32)).status is GetMessageStatus.FOUND:
            found += [message.body for message in decode_messages(result.body)]
        assert min_offset + len(found) == max_offset == COUNT
        assert found == [body for body, _ in self.sent[min_offset:]]
        expired_ms = self.clock.timestamp_ms() - RESERVED_HOURS * HOUR_MS
        assert all(stored_ms <= expired_ms for _, stored_ms in self.sent[:min_offset]), "it was too young to go"


@cache
def deaths(directories: int) -> tuple[Witness, list[DiskState]]:
    """A store, and what deaths leave in each call from its first deletion on, to the end of a clean shutdown."""
    witness = Witness()

    async def live() -> list[DiskState]:
        async with witness.opened(directories) as store:
            for number in range(COUNT):
                witness.clock.advance_ms(HOUR_MS // 8)
                witness.sent.append((b"%d" % number + bytes(300), witness.clock.timestamp_ms()))
                send(store, witness.sent[-1][0], key=b"%d" % number)
                store.end_burst()
                await trio.sleep(0.01)
        async with witness.opened(directories) as store:
            await witness.check(store)
            await trio.sleep(59)
            noted = noting.enter_context(noted_deaths(witness.disk))
            await trio.sleep(10)
            assert store.clean_statistics().deleted_count > 0
        return noted

    with ExitStack() as noting:
        return witness, run(live)


async def reopen(witness: Witness, directories: int) -> bool:
    """Open the store and check it; return whether files of its log are gone."""
    async with witness.opened(directories) as store:
        await witness.check(store)
        return store.min_physical_offset > 0


SURVIVES: dict[str, Callable[[int], int] | None] = {
    "killed": None,
    "nothing": lambda count: 0,
    "everything": lambda count: 1,
    "something": Random(1).randrange,
}
"""What a loss of power leaves of that which is not durable yet."""


@pytest.mark.parametrize("directories", [1, 2])
@pytest.mark.parametrize("survives", SURVIVES)
def test_a_deletion_that_dies_in_any_call_leaves_no_gap(directories: int, survives: str) -> None:
    witness, states = deaths(directories)
    assert len(states) > 20
    are_deleted = []
    for disk in different_disks(states, SURVIVES[survives]):
        for _ in range(2):
            are_deleted.append(run(partial(reopen, attrs.evolve(witness, disk=disk), directories)))
    assert are_deleted[0]
