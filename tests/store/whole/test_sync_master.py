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
from tests.store.held_syncs import HeldSyncs
from tests.store.opened_store import send

Jumping = trio.testing.MockClock
OK = PutMessageStatus.PUT_OK
TIMEOUT = PutMessageStatus.FLUSH_SLAVE_TIMEOUT
NONE = PutMessageStatus.SLAVE_NOT_AVAILABLE
DISK = PutMessageStatus.FLUSH_DISK_TIMEOUT
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
        master.put()
        master.put()
        assert master.answers == []
        master.store.end_burst()
        assert master.statuses == [NONE, NONE]
        assert master.flushes == [2]
        check_written(master)


@pytest.mark.parametrize("first_bytes", [b"", b"\0\0\0"])
async def test_a_connection_that_has_not_asked_is_no_slave(first_bytes: bytes, autojump_clock: Jumping) -> None:
    async with open_sync_master() as master:
        await master.connect().stream.send_all(first_bytes or b"\0")
        await settle()
        master.burst()
        assert master.statuses == [NONE]


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


async def test_a_report_answers_whole_messages_only(autojump_clock: Jumping) -> None:
    async with open_sync_master() as master:
        slave = await master.slave()
        first, second = master.burst(), master.burst()
        await slave.receive(second)
        await slave.report(second - 1)
        await settle()
        assert [answer.end for answer in master.answers] == [first]


async def test_a_silent_slave_costs_exactly_the_timeout(autojump_clock: Jumping) -> None:
    async with open_sync_master() as master:
        slave = await master.slave()
        began = trio.current_time()
        end = master.burst()
        await trio.sleep(1.234)
        master.burst()
        await trio.sleep(10)
        assert master.statuses == [TIMEOUT, TIMEOUT]
        late = [answer.time - began - due for answer, due in zip(master.answers, (3, 4.234), strict=True)]
        assert all(0 <= each <= EXACT_S for each in late), late
        await slave.receive(end)
        await slave.report(end)
        await settle()
        assert len(master.answers) == 2, "each is answered once"


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


async def test_a_request_says_how_far_a_slave_is(autojump_clock: Jumping) -> None:
    """A slave that has just come back is waited for, although it has acknowledged nothing on this connection."""
    async with open_sync_master(ha_slave_fallbehind_max=1000) as master:
        assert master.burst(b"x" * 900) < 1100
        assert master.statuses == [NONE], "nobody was there"
        await master.slave()
        master.burst(b"x" * 800)
        assert master.statuses == [NONE], "this one is waited for"


# ---- acknowledgements count only while they can be true -------------------------------------------------------------


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(lambda sent: sent + 1, id="beyond what was sent"),
        pytest.param(lambda sent: 1 << 40, id="absurd"),
        pytest.param(lambda sent: -1, id="negative"),
        pytest.param(lambda sent: 0, id="goes back"),
    ],
)
async def test_a_report_that_cannot_be_true_acknowledges_nothing(
    lie: Callable[[int], int], autojump_clock: Jumping
) -> None:
    async with open_sync_master() as master:
        begin = master.burst(b"before it came")
        slave = await master.slave()
        end = master.burst()
        await slave.receive(end - begin)
        await slave.report(lie(end))
        assert await slave.is_closed()
        await trio.sleep(10)
        assert master.statuses == [NONE, TIMEOUT]


@pytest.mark.parametrize("request_offset", [1 << 40, 2000])
async def test_a_first_report_is_no_acknowledgement(request_offset: int, autojump_clock: Jumping) -> None:
    """RocketMQ believes it: one write of a large number, and everything is answered PUT_OK from then on."""
    async with open_sync_master() as master:
        master.burst()
        liar = master.connect(request_offset)
        await liar.report(request_offset)
        assert await liar.is_closed()
        master.burst()
        assert master.statuses == [NONE, NONE]


async def test_an_acknowledgement_ends_with_its_connection(autojump_clock: Jumping) -> None:
    async with open_sync_master() as master:
        slave = await master.slave()
        end = master.burst()
        await slave.receive(end)
        await slave.report(end)
        await settle()
        await slave.stream.aclose()
        await settle()
        again: list[PutMessageStatus] = []
        master.store.wait_stored(end, again.append)
        master.store.end_burst()
        assert (master.statuses, again) == ([OK], [NONE])


async def test_a_slave_that_goes_does_not_end_the_waits_of_others(autojump_clock: Jumping) -> None:
    async with open_sync_master() as master:
        going, staying = await master.slave(), await master.slave()
        end = master.burst()
        await going.stream.aclose()
        await staying.receive(end)
        await trio.sleep(2)
        assert master.answers == []
        await staying.report(end)
        await settle()
        assert master.statuses == [OK]


# ---- flush and slave ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_flush_first", [True, False])
async def test_with_sync_flush_both_are_waited_for_at_once(is_flush_first: bool, autojump_clock: Jumping) -> None:
    syncs = HeldSyncs()
    async with open_sync_master(flush_disk_type=SYNC, run_blocking=syncs.run_blocking) as master:
        slave = await master.slave()
        syncs.hold()
        end = master.burst()
        await settle()
        assert syncs.held_count == 1
        await slave.receive(end)  # it is sent without waiting for the disk

        async def flush() -> None:
            syncs.release()

        async def acknowledge() -> None:
            await slave.report(end)

        steps: list[Callable[[], Awaitable[None]]] = [flush, acknowledge]
        for step in steps if is_flush_first else steps[::-1]:
            assert master.answers == []
            await step()
            await settle()
        assert master.statuses == [OK]
        assert master.store.durable_offset >= end


@pytest.mark.parametrize(
    ("sync_s", "acknowledges_s", "status", "answered_s"),
    [
        pytest.param(1.0, 2.0, OK, 2.0, id="ok after both"),
        pytest.param(9.0, 2.0, DISK, 5.0, id="the disk is late"),
        pytest.param(1.0, 9.0, TIMEOUT, 3.0, id="the slave is late"),
        pytest.param(9.0, 9.0, TIMEOUT, 5.0, id="both are late, the slave says why"),
        pytest.param(4.0, 9.0, TIMEOUT, 4.0, id="a slave's failure is answered after the flush"),
    ],
)
async def test_the_status_of_two_waits(
    sync_s: float, acknowledges_s: float, status: PutMessageStatus, answered_s: float, autojump_clock: Jumping
) -> None:
    """``CommitLog.asyncPutMessage``: the later of the two answers, the failure of the replica counts more."""
    syncs = HeldSyncs()
    settings = {"flush_disk_type": SYNC, "sync_flush_timeout": 5000, "slave_timeout": 3000}
    async with open_sync_master(run_blocking=syncs.run_blocking, **settings) as master:
        slave = await master.slave()
        syncs.hold()
        began = trio.current_time()
        end = master.burst()

        async def sync() -> None:
            await trio.sleep(sync_s)
            syncs.release()

        async def acknowledge() -> None:
            await slave.receive(end)
            await trio.sleep(acknowledges_s)
            await slave.report(end)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sync)
            nursery.start_soon(acknowledge)
        await trio.sleep(10)
        (answer,) = master.answers
        assert answer.status is status
        assert answer.time - began == pytest.approx(answered_s, abs=EXACT_S)


async def test_without_a_slave_the_flush_is_waited_for_all_the_same(autojump_clock: Jumping) -> None:
    syncs = HeldSyncs()
    async with open_sync_master(flush_disk_type=SYNC, run_blocking=syncs.run_blocking) as master:
        await settle()
        syncs.hold()
        master.burst()
        await trio.sleep(1)
        assert master.answers == []
        syncs.release()
        await settle()
        assert master.statuses == [NONE]


@pytest.mark.parametrize("comes_back", [True, False])
async def test_a_slave_that_goes_between_its_report_and_the_flush_does_not_count(
    comes_back: bool, autojump_clock: Jumping
) -> None:
    """PUT_OK means that a live slave has the message when it is answered."""
    syncs = HeldSyncs()
    async with open_sync_master(flush_disk_type=SYNC, run_blocking=syncs.run_blocking) as master:
        slave = await master.slave()
        syncs.hold()
        began = trio.current_time()
        begin, end = master.store.max_physical_offset, master.burst()
        await slave.receive(end)
        await slave.report(end)
        await settle()
        await slave.stream.aclose()
        await settle()
        syncs.release()
        await trio.sleep(1)
        assert master.answers == []
        if comes_back:
            slave = master.connect(begin or None)
            await slave.report(begin)
            await slave.receive(end - begin)
            await slave.report(end)
            await settle()
            assert master.statuses == [OK]
        else:
            await trio.sleep(10)
            assert master.statuses == [TIMEOUT]
            assert master.answers[0].time - began == pytest.approx(3, abs=EXACT_S)


# ---- bursts ---------------------------------------------------------------------------------------------------------


async def read(store: MessageStore) -> None:
    await store.get_message("T", 0, 0, 32)


async def flush(store: MessageStore) -> None:
    await store.flush()


async def end_burst(store: MessageStore) -> None:
    store.end_burst()


@pytest.mark.parametrize("ends_burst", [read, flush, end_burst])
@pytest.mark.parametrize("flush_disk_type", FlushDiskType)
async def test_whatever_writes_wakes_the_slaves_and_no_answer_is_earlier(
    ends_burst: Callable[[MessageStore], Awaitable[None]], flush_disk_type: FlushDiskType, autojump_clock: Jumping
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


async def test_who_waits_without_ending_the_burst_is_answered_soon(autojump_clock: Jumping) -> None:
    async with open_sync_master() as master:
        began = trio.current_time()
        master.put()
        await trio.sleep(EXACT_S)
        assert master.statuses == [NONE]
        assert master.flushes == [1]
        assert master.answers[0].time - began <= EXACT_S
        check_written(master)


async def test_who_waits_for_what_was_written_before_is_answered_at_the_end_of_the_burst(
    autojump_clock: Jumping,
) -> None:
    """As an end of a transaction that had ended before: nothing was put, and nothing is to be written."""
    async with open_sync_master() as master:
        slave = await master.slave()
        end = master.burst()
        await slave.receive(end)
        await slave.report(end)
        await settle()
        again: list[PutMessageStatus] = []
        master.store.wait_stored(end, again.append)
        assert again == []
        master.store.end_burst()
        assert again == [OK]


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
