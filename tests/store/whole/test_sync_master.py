"""What a store that is a SYNC_MASTER answers, and when: a real store, slaves played by the test, a clock that jumps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from rocketpy.errors import StoreError
from rocketpy.store.config import BrokerRole, FlushDiskType
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store.ha.sync_master import SyncMaster, open_sync_master
from tests.store.opened_store import send

Jumping = trio.testing.MockClock
OK = PutMessageStatus.PUT_OK
TIMEOUT = PutMessageStatus.FLUSH_SLAVE_TIMEOUT
NONE = PutMessageStatus.SLAVE_NOT_AVAILABLE
SYNC = FlushDiskType.SYNC_FLUSH
EXACT_S = 0.02


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked()


def check_written(master: SyncMaster) -> None:
    """Whatever an answer says of slaves and syncs, its message was written before."""
    assert all(answer.end <= answer.written_end for answer in master.answers), master.answers


# ---- the statuses ---------------------------------------------------------------------------------------------------


async def test_without_a_slave_the_answer_leaves_with_its_burst(autojump_clock: Jumping) -> None:
    async with open_sync_master() as master:
        assert master.store.waits_for_storing
        master.put()
        master.put()
        assert master.answers == []
        master.store.end_burst()
        assert master.statuses == [NONE, NONE]
        assert master.flushes == [2]
        check_written(master)


async def test_what_a_slave_reports_is_answered_in_one_go(autojump_clock: Jumping) -> None:
    async with open_sync_master() as master:
        slave = await master.slave()
        end = master.burst(b"1", b"2", b"3")
        assert master.answers == []
        await slave.receive(end)
        assert master.answers == [], "sent is not received"
        await slave.report(end)
        await settle()
        assert (master.statuses, master.flushes) == ([OK] * 3, [3])
        assert trio.current_time() == pytest.approx(master.answers[0].time), "nobody has waited for a timer"
        check_written(master)


@pytest.mark.parametrize("timeout_ms", [0, 500, 7000])
async def test_how_long_a_slave_is_waited_for(timeout_ms: int, autojump_clock: Jumping) -> None:
    """``slaveTimeout``"""
    async with open_sync_master(slave_timeout=timeout_ms) as master:
        await master.slave()
        began = trio.current_time()
        master.burst()
        await trio.sleep(20)
        (answer,) = master.answers
        assert answer.status is TIMEOUT
        assert answer.time - began == pytest.approx(timeout_ms / 1000, abs=EXACT_S)


@pytest.mark.parametrize(("lacks_more", "status"), [(-1, TIMEOUT), (0, NONE), (1, NONE)])
async def test_how_far_behind_a_slave_may_be(lacks_more: int, status: object, autojump_clock: Jumping) -> None:
    """``haSlaveFallbehindMax``: the best slave lacks the log from its last report to the end of the message."""
    limit = 3000
    async with open_sync_master(ha_slave_fallbehind_max=limit) as master:
        far, near = await master.slave(), await master.slave()
        end = master.burst(b"x" * 1000)
        await near.receive(end)
        await near.report(end)
        await settle()
        assert master.statuses == [OK]
        record_size = end - master.store.log_source.min_offset - 1000
        master.burst(b"y" * (limit - record_size + lacks_more))
        await trio.sleep(10)
        assert master.statuses[1:] == [status]
        await far.stream.aclose()


# ---- bursts ---------------------------------------------------------------------------------------------------------


async def end_burst(store: MessageStore) -> None:
    store.end_burst()


@pytest.mark.parametrize(
    "ends_burst",
    [lambda store: store.get_message("T", 0, 0, 32), MessageStore.flush, end_burst],
    ids=["read", "flush", "end of burst"],
)
@pytest.mark.parametrize("flush_disk_type", FlushDiskType)
async def test_whatever_writes_wakes_the_slaves_and_no_answer_is_earlier(
    ends_burst: Callable[[MessageStore], Awaitable[object]], flush_disk_type: FlushDiskType, autojump_clock: Jumping
) -> None:
    async with open_sync_master(flush_disk_type=flush_disk_type) as master:
        slave = await master.slave()
        began = trio.current_time()
        end = master.put()
        assert slave.received == b""
        await ends_burst(master.store)
        await slave.receive(end)
        assert trio.current_time() == began, "no heartbeat, and no other timer"
        await slave.report(end)
        await settle()
        check_written(master)
        await trio.sleep(1)
        assert master.statuses == [OK]


async def test_a_burst_that_cannot_be_written_is_never_answered(autojump_clock: Jumping) -> None:
    disk = SimDisk()
    answers = []
    with pytest.raises(ExceptionGroup) as raised:
        async with open_sync_master(disk=disk) as master:
            answers = master.answers
            master.put()
            disk.fail_call("write")
            await trio.sleep(1)
    assert raised.value.subgroup(StoreError) is not None
    assert answers == []


async def test_with_a_transient_pool_an_answer_promises_what_the_pool_does(autojump_clock: Jumping) -> None:
    """SEND_OK means "in the memory of the broker" there; slaves get what is committed."""
    settings = {"transient_store_pool_enable": True, "commit_interval_commit_log": 200}
    async with open_sync_master(**settings) as master:
        master.burst()
        assert master.statuses == [NONE]
        slave = await master.slave()
        end = master.burst()
        await slave.receive(end)
        await slave.report(end)
        await settle()
        assert master.statuses == [NONE, OK]


# ---- the end --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_given_up", [True, False])
async def test_at_the_end_nothing_is_answered_that_is_not_so(is_given_up: bool, autojump_clock: Jumping) -> None:
    async with open_sync_master() as master:
        slave = await master.slave()
        end = master.burst(b"1", b"2")
        await slave.receive(end)
        if is_given_up:
            master.put(b"3")
            master.store.give_up_waits()
            assert master.statuses == [TIMEOUT] * 3
    assert master.statuses == ([TIMEOUT] * 3 if is_given_up else [])


# ---- other roles ----------------------------------------------------------------------------------------------------


async def test_an_async_master_waits_for_nobody_and_serves_slaves(autojump_clock: Jumping) -> None:
    async with open_sync_master(broker_role=BrokerRole.ASYNC_MASTER) as master:
        assert not master.store.waits_for_storing
        with pytest.raises(AssertionError, match="ASYNC_MASTER"):
            master.store.wait_stored(0, lambda status: None)
        slave = await master.slave()
        began = trio.current_time()
        send(master.store, b"body")
        master.store.end_burst()
        await slave.receive(master.store.wrote_offset)
        await slave.report(master.store.wrote_offset)
        await settle()
        assert [each.acknowledged_offset for each in master.store.ha_service.slaves()] == [master.store.wrote_offset]
        assert trio.current_time() == began
        master.store.give_up_waits()


async def test_an_async_master_with_sync_flush_waits_for_the_disk_only(autojump_clock: Jumping) -> None:
    async with open_sync_master(broker_role=BrokerRole.ASYNC_MASTER, flush_disk_type=SYNC) as master:
        master.burst()
        await settle()
        assert master.statuses == [OK]


@pytest.mark.parametrize("interval_ms", [1000, 4000])
async def test_slaves_are_served_by_the_stores_settings(interval_ms: int, autojump_clock: Jumping) -> None:
    async with open_sync_master(ha_send_heartbeat_interval=interval_ms) as master:
        slave = await master.slave()
        await slave.heartbeat()  # the answer to its request
        began = trio.current_time()
        await slave.heartbeat()
        assert trio.current_time() - began == pytest.approx(interval_ms / 1000, abs=EXACT_S)
