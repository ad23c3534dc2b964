"""The whole store under a mock clock lives several lives, each ended by a kill or a power loss in some disk call.

At the beginning of each life everything that was promised is there, in order, once, and the index finds it. The wall
clock begins somewhere else each time, often earlier.
"""

from __future__ import annotations

from random import Random

import attrs
import pytest
import trio
from trio.testing import MockClock

from rocketpy.clock import ManualClock
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.config import FlushDiskType
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.store.results import GetMessageStatus, PutMessageStatus
from rocketpy.testing.sim.disk import ProcessDied, SimDisk
from tests.store.opened_store import config_for, send
from tests.store.parts import STORE_HOST, Place
from tests.turns import run_in_turn

LIVES = 5
LOOKED_UP = 5


@attrs.define
class Witness:
    """What was promised, outside the disk."""

    sent: list[bytes] = attrs.Factory(list)
    written: int = 0  # so many were in a burst that ended: they survive a kill
    synced: int = 0  # so many were acknowledged by the disk: they survive a power loss
    number: int = 0


async def live(disk: SimDisk, witness: Witness, random: Random, flush: FlushDiskType, *, power_lost: bool) -> None:
    clock = ManualClock(1_700_000_000_000 + random.randrange(1_000_000))
    config = config_for(
        Place(disk, "/store"),
        flush_disk_type=flush,
        mapped_file_size_commit_log=8192,
        mapped_file_size_consume_queue=400,
        max_hash_slot_num=20,
        max_index_num=60,
        flush_consume_queue_thorough_interval=3000,
    )
    async with open_message_store(
        config, disk=disk, clock=clock, run_blocking=run_in_turn, store_host=STORE_HOST, memory_bytes=1 << 40
    ) as store:
        await check(store, witness, random, promised=witness.synced if power_lost else witness.written)
        for _ in range(random.randrange(60)):
            clock.advance_ms(500)
            for _ in range(random.randrange(1, 4)):
                key = b"%d" % witness.number
                witness.number += 1
                witness.sent.append(key + b"." * random.randrange(300))
                send(store, witness.sent[-1], key=key)
            store.end_burst()
            witness.written = len(witness.sent)
            if store.waits_for_storing:
                store.wait_stored(store.wrote_offset, Acknowledgement(witness, len(witness.sent)))
            await trio.sleep(0.3)
    witness.written = witness.synced = len(witness.sent)


@attrs.frozen
class Acknowledgement:
    """What a producer waits for."""

    witness: Witness
    count: int

    def __call__(self, status: PutMessageStatus) -> None:
        assert status is PutMessageStatus.PUT_OK
        self.witness.synced = max(self.witness.synced, self.count)


async def check(store: MessageStore, witness: Witness, random: Random, *, promised: int) -> None:
    found: list[bytes] = []
    while (result := await store.get_message("T", 0, len(found), 32)).status is GetMessageStatus.FOUND:
        found += [message.body for message in decode_messages(result.body)]
    assert len(found) >= promised
    assert found == witness.sent[: len(found)]
    del witness.sent[len(found) :]
    witness.written = witness.synced = len(found)
    await store.wait_indexed()
    for body in random.sample(found, min(len(found), LOOKED_UP)):
        result_of_key = await store.query_message("T", body.decode().rstrip("."), 64, 0, 1 << 62)
        assert body in [message.body for message in decode_messages(result_of_key.body)]
        assert result_of_key.why_incomplete == ""


def died(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(died, error.exceptions))
    return isinstance(error, ProcessDied)


@pytest.mark.parametrize("flush", FlushDiskType)
@pytest.mark.parametrize("power_lost", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_several_lives(seed: int, power_lost: bool, flush: FlushDiskType) -> None:
    random = Random(seed)
    disk = SimDisk(choose=random.randrange, sector_size=random.choice((64, 512)))
    witness = Witness()

    async def one_life() -> None:
        await live(disk, witness, random, flush, power_lost=power_lost)

    for _ in range(LIVES):
        disk.die_at_call(random.randrange(1, 400))
        try:
            trio.run(one_life, clock=MockClock(autojump_threshold=0))
        except BaseException as error:
            if not died(error):
                raise
        if power_lost:
            disk.lose_power()
        else:
            disk.kill_process()
    trio.run(one_life, clock=MockClock(autojump_threshold=0))
