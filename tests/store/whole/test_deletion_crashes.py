"""A store that deletes what has expired lives several lives, each ended by a kill or a power loss in some disk call.

At the beginning of each life every promised message is there that is not old enough to go, in order, once; what is gone
was at the beginning; and the store opens, so no crash has left a gap.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from random import Random

import attrs
import pytest
import trio
from trio.testing import MockClock

from rocketpy.clock import ManualClock
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.store.results import GetMessageStatus, PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import config_for, send
from tests.store.parts import STORE_HOST, Place
from tests.store.whole.test_whole_store_crashes import died
from tests.turns import run_in_turn

HOUR_MS = 3_600_000
RESERVED_HOURS = 5
START_MS = 1_700_000_000_000
LIVES = 6


@attrs.define
class Witness:
    """What was promised, outside the disk. Positions in ``sent`` are queue offsets."""

    clock: ManualClock
    sent: list[tuple[bytes, int]] = attrs.Factory(list)  # with the time
    written: int = 0
    synced: int = 0
    min_offset: int = 0  # what was gone once stays gone, unless power was lost
    number: int = 0

    def acknowledge(self, count: int) -> Callable[[PutMessageStatus], None]:
        def acknowledged(status: PutMessageStatus) -> None:
            assert status is PutMessageStatus.PUT_OK
            self.synced = max(self.synced, count)

        return acknowledged


def config(disk: SimDisk, flush: FlushDiskType, directories: int) -> MessageStoreConfig:
    return config_for(
        Place(disk, "/store"),
        store_path_commit_log=",".join(f"/{name}/log" for name in "abc"[:directories]),
        flush_disk_type=flush,
        mapped_file_size_commit_log=8192,
        mapped_file_size_consume_queue=400,
        max_hash_slot_num=20,
        max_index_num=40,
        flush_consume_queue_thorough_interval=3000,
        file_reserved_time=RESERVED_HOURS,
        delete_when=";".join(map(str, range(24))),
        clean_resource_interval=2000,
        disk_space_warning_level_ratio=100,
    )


async def check(store: MessageStore, witness: Witness, *, promised: int) -> None:
    """Compare what is there with what was promised, and go on from there."""
    min_offset = store.min_offset_in_queue("T", 0)
    max_offset = store.max_offset_in_queue("T", 0)
    found: list[bytes] = []
    while (result := await store.get_message("T", 0, min_offset + len(found), 32)).status is GetMessageStatus.FOUND:
        found += [message.body for message in decode_messages(result.body)]
    assert min_offset + len(found) == max_offset >= promised
    assert found == [body for body, _ in witness.sent[min_offset:max_offset]]
    expired_ms = witness.clock.timestamp_ms() - RESERVED_HOURS * HOUR_MS
    assert all(stored_ms <= expired_ms for _, stored_ms in witness.sent[:min_offset]), "it was too young to go"
    del witness.sent[max_offset:]
    witness.written = witness.synced = max_offset


async def live(store: MessageStore, witness: Witness, random: Random, *, steps: int) -> None:
    for _ in range(steps):
        witness.clock.advance_ms(random.randrange(HOUR_MS // 3))
        for _ in range(random.randrange(1, 4)):
            body = b"%d" % witness.number + b"." * random.randrange(600)
            witness.number += 1
            witness.sent.append((body, witness.clock.timestamp_ms()))
            send(store, body, key=b"%d" % witness.number)
        store.end_burst()
        witness.written = len(witness.sent)
        if store.waits_for_storing:
            store.wait_stored(store.wrote_offset, witness.acknowledge(len(witness.sent)))
        await trio.sleep(random.random() * 5)


@pytest.mark.parametrize("flush", FlushDiskType)
@pytest.mark.parametrize("power_lost", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_several_lives(seed: int, power_lost: bool, flush: FlushDiskType) -> None:
    random = Random(seed)
    disk = SimDisk(choose=random.randrange, sector_size=random.choice((64, 512)))
    witness = Witness(ManualClock(START_MS))
    settings = config(disk, flush, directories=1 + seed % 3)
    deleted = 0

    async def one_life(steps: int) -> None:
        nonlocal deleted
        async with open_message_store(
            settings,
            disk=disk,
            clock=witness.clock,
            run_blocking=run_in_turn,
            store_host=STORE_HOST,
            memory_bytes=1 << 40,
        ) as store:
            await check(store, witness, promised=witness.synced if power_lost else witness.written)
            try:
                await live(store, witness, random, steps=steps)
            finally:
                deleted += store.clean_statistics().deleted_count
        witness.written = witness.synced = len(witness.sent)

    for _ in range(LIVES):
        disk.die_at_call(random.randrange(1, 700))
        try:
            trio.run(one_life, random.randrange(80), clock=MockClock(autojump_threshold=0))
        except BaseException as error:
            if not died(error):
                raise
        if power_lost:
            disk.lose_power()
        else:
            disk.kill_process()
    trio.run(one_life, 80, clock=MockClock(autojump_threshold=0))
    assert deleted


# ---- every call of one deletion -----------------------------------------------------------------------------------


@cache
def filled(directories: int) -> tuple[SimDisk, Witness]:
    """A store that was stopped in order, of some files of the log, of which most have expired."""
    disk, witness = SimDisk(), Witness(ManualClock(START_MS))

    async def fill() -> None:
        async with open_message_store(
            config(disk, FlushDiskType.ASYNC_FLUSH, directories),
            disk=disk,
            clock=witness.clock,
            run_blocking=run_in_turn,
            store_host=STORE_HOST,
            memory_bytes=1 << 40,
        ) as store:
            for number in range(100):
                witness.clock.advance_ms(HOUR_MS // 8)
                witness.sent.append((b"%d" % number + bytes(300), witness.clock.timestamp_ms()))
                send(store, witness.sent[-1][0], key=b"%d" % number)
                store.end_burst()
                await trio.sleep(0.01)
        witness.synced = len(witness.sent)

    trio.run(fill, clock=MockClock(autojump_threshold=0))
    return disk, witness


@pytest.mark.parametrize("directories", [1, 2])
@pytest.mark.parametrize("keeps", ["nothing", "everything", "something", "power"])
def test_death_at_every_call_of_a_deletion(directories: int, keeps: str) -> None:
    """Killed, or with whatever a loss of power keeps of what is not durable yet; and recovered twice."""
    call = 0
    is_over = False
    while not is_over:
        call += 1
        disk, witness = deepcopy(filled(directories))
        settings = config(disk, FlushDiskType.ASYNC_FLUSH, directories)

        async def delete(
            die_at: int, disk: SimDisk = disk, witness: Witness = witness, settings: MessageStoreConfig = settings
        ) -> bool:
            async with open_message_store(
                settings,
                disk=disk,
                clock=witness.clock,
                run_blocking=run_in_turn,
                store_host=STORE_HOST,
                memory_bytes=1 << 40,
            ) as store:
                await check(store, witness, promised=100)
                if not die_at:
                    return store.min_physical_offset > 0
                await trio.sleep(59)
                disk.die_at_call(die_at)
                await trio.sleep(10)
                return store.clean_statistics().deleted_count > 0

        try:
            assert trio.run(delete, call, clock=MockClock(autojump_threshold=0))
            is_over = True
        except BaseException as error:
            if not died(error):
                raise
        choices = {"nothing": lambda _: 0, "everything": lambda _: 1, "something": Random(call).randrange}
        if keeps == "power":
            disk.kill_process()
        else:
            disk.lose_power(choices[keeps])
        for _ in range(2):
            has_begun = trio.run(delete, 0, clock=MockClock(autojump_threshold=0))
        assert has_begun or not is_over
    assert call > 20
