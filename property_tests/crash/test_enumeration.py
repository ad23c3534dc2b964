"""Every workload, every disk call, every legal disk: recovery keeps what was promised.

ROCKETPY_TIER chooses how far this goes: in ``dev`` and ``ci`` seconds, in ``deep`` hours. What was tried is printed.
"""

from __future__ import annotations

import itertools
import os
import time

import attrs
import pytest

from property_tests.crash.enumeration import Counts, Effort, Enumeration, enumerate_all
from property_tests.crash.history import Lived, replay
from property_tests.crash.life import Setup, World, copied
from property_tests.crash.recovery import recover
from property_tests.crash.workloads import lives
from property_tests.planted_bugs import PLANTED
from rocketpy.store.config import FlushDiskType
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.sim.disk_state import Survival
from rocketpy.testing.sim.legal_disks import LegalDisks
from rocketpy.testing.store_model import Invariant, InvariantBroken

TIER = os.environ.get("ROCKETPY_TIER", "dev")
PROCESSES = min(4, len(os.sched_getaffinity(0)))

FEW = ("put", "put large", "acknowledge", "put meanwhile", "restart")
WITHOUT_ACKNOWLEDGEMENT = ("put", "put large", "checkpoint", "put meanwhile", "restart")
ALL = (*FEW, "put batch", "checkpoint", "sync fails", "clock back", "restart without queue")

SYNC = Setup("SYNC_FLUSH", FEW)
ASYNC = Setup("ASYNC_FLUSH with index", WITHOUT_ACKNOWLEDGEMENT, flush=FlushDiskType.ASYNC_FLUSH, has_index=True)
EVERYTHING = Setup("SYNC_FLUSH, every operation", ALL)
EXTENSIONS = Setup("SYNC_FLUSH with extensions", FEW, has_extensions=True)
POOL = Setup("ASYNC_FLUSH with pool", WITHOUT_ACKNOWLEDGEMENT, flush=FlushDiskType.ASYNC_FLUSH, has_pool=True)
SMALL_SECTORS = Setup("SYNC_FLUSH with index, sectors of 64 bytes", FEW, has_index=True, sector_size=64)

DEEP = Effort(5, samples=20, again_each=100, goes_on_each=100, every_later_moment=True)
EFFORTS = {
    "dev": [(each, Effort(1)) for each in (SYNC, ASYNC, EVERYTHING, EXTENSIONS, POOL, SMALL_SECTORS)],
    "ci": [
        *((each, Effort(2, again_each=200, goes_on_each=200)) for each in (SYNC, ASYNC, EVERYTHING, EXTENSIONS, POOL)),
        (SMALL_SECTORS, Effort(1)),
    ],
    "deep": [
        (SYNC, DEEP),
        *((each, attrs.evolve(DEEP, operations_max=4)) for each in (ASYNC, EVERYTHING, EXTENSIONS, POOL)),
        (SMALL_SECTORS, attrs.evolve(DEEP, operations_max=3)),
    ],
}


def test_every_crash_keeps_what_was_promised(capsys: pytest.CaptureFixture[str]) -> None:
    begin = time.perf_counter()
    results = enumerate_all(EFFORTS[TIER], PROCESSES)
    with capsys.disabled():
        print(f"\n  crash by enumeration, {TIER}, {time.perf_counter() - begin:.0f} s in {PROCESSES} processes:")
        for name, (counts, _) in results.items():
            print(f"    {name}: {counts}")
    failures = [failure for _, failures in results.values() for failure in failures]
    assert not failures, "\n\n".join(failures)


@pytest.mark.slow
def test_a_store_opened_in_full_finds_what_the_short_way_finds() -> None:
    """The enumeration recovers without services and without Trio; this is why that may be."""
    count = 0
    for life in lives(SYNC, 2):
        for moment in life.moments[::3]:
            for _, disk in list(LegalDisks(moment.disk).disks(samples=1, seed=count))[::7]:
                found = recover(SYNC, SimDisk(state=disk))
                world = World(SYNC.config, disk=SimDisk(state=disk))
                full = world.open()
                world.kill()
                assert {key: list(each) for key, each in full.queues.items() if each} == {
                    key: each for key, each in found.queues.items() if each
                }
                assert full.log == found.log
                assert full.abort_file_was_there == found.abort_file_was_there
                assert full.durable_end is not None
                assert found.durable_end is not None
                assert full.durable_end >= found.durable_end
                count += 1
    assert count > 100


def test_parts_together_are_the_whole_and_the_same_is_tried_every_time() -> None:
    setup = Setup("parts", ("put", "acknowledge"))
    whole = Enumeration(setup, Effort(2))
    whole.run()
    counts = Counts()
    for beginning in itertools.product(setup.alphabet, repeat=2):
        part = Enumeration(setup, Effort(2))
        part.run(beginning)
        counts.add(part.counts)
    assert (counts.workloads, counts.crash_points) == (whole.counts.workloads, whole.counts.crash_points)
    assert (counts.disks_possible, counts.disks_built) == (whole.counts.disks_possible, whole.counts.disks_built)


def test_a_failure_tells_how_to_see_it_again() -> None:
    with PLANTED["acknowledge before sync"].planted():
        enumeration = Enumeration(Setup("replay", ("put", "acknowledge")), Effort(2))
        enumeration.run()
        (failure,) = enumeration.failures
        text = str(failure)
        script = text[text.index("replay(") :]
        names = {"replay": replay, "Setup": Setup, "Lived": Lived, "Survival": Survival, "FlushDiskType": FlushDiskType}
        with pytest.raises(InvariantBroken) as raised:
            eval(script, names)
    assert raised.value.invariant is failure.invariant is Invariant.ACKNOWLEDGED_IS_THERE
    assert "power lost before call" in text
    assert "sync /store/commitlog/00000000000000000000" in text
    eval(script, names)  # without the bug nothing is wrong


def test_what_is_acknowledged_is_promised_at_the_next_disk_call() -> None:
    """And not only when the operation is over: else the bug that acknowledges too early would go unseen."""
    (life,) = lives(Setup("moments", ("acknowledge",)), 1)
    assert [moment.model.synced_count for moment in life.moments][-1] == 0
    life = next(iter(lives(Setup("moments", ("put", "acknowledge")), 2)))
    assert life.moments[-1].operations == ("open", "put", "put")
    life = list(lives(Setup("moments", ("put", "acknowledge")), 2))[1]
    syncs = [moment for moment in life.moments if moment.what == "sync /store/commitlog/00000000000000000000"]
    assert [moment.model.synced_count for moment in syncs] == [0]
    assert life.moments[-1].model.synced_count == 1
    model = copied(life.moments[-1].model)
    model.died(power_lost=True)
    assert (model.promised_count, life.moments[-1].model.written_count) == (1, 1)
