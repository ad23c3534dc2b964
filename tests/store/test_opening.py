"""A store as it begins and ends: recovered, closed in order, killed, opened twice."""

from __future__ import annotations

import pytest
import trio

from rocketpy.clock import ManualClock
from rocketpy.errors import StartError
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.opening import open_message_store
from rocketpy.store.results import GetMessageStatus
from rocketpy.store.status import StoreReports
from rocketpy.testing.sim.disk import SimDisk
from tests.patience import PATIENCE_SECONDS
from tests.store.opened_store import Reports, bodies, config_for, kill, opened, send
from tests.store.parts import STORE_HOST, Place
from tests.turns import run_in_turn


async def test_a_clean_shutdown_leaves_no_preallocated_file_and_everything_durable() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    async with opened(place) as store:
        for number in range(300):
            send(store, b"x" * 500, queue_id=number % 3, key=b"key%d" % number)
        store.end_burst()
        await trio.lowlevel.checkpoint()
        end = store.max_physical_offset
    names = disk.list_directory(place.commit_log)
    assert len(names) == end // (1 << 16) + 1
    disk.lose_power(lambda count: 0)  # nothing survives that was not synced
    async with opened(place) as store:
        assert store.max_physical_offset == end
        for queue_id in range(3):  # nothing has read the log since: it is cold
            count = 0
            while count < 100:
                result = await store.get_message("T", queue_id, count, 32)
                assert result.status is GetMessageStatus.FOUND
                count += result.message_count
        found = await store.query_message("T", "key250", 32, 0, 1 << 62)
        assert len(decode_messages(found.body)) == 1


async def test_a_long_recovery_says_how_far_it_is(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.store.opening.PROGRESS_SECONDS", 0)
    async with opened(place) as store:
        for number in range(100):
            send(store, b"%d" % number)
        store.end_burst()
        end = store.wrote_offset
    place.write(f"{place.root}/abort", b"")
    place.disk.unlink(f"{place.root}/checkpoint")
    progress: list[tuple[int, int]] = []
    config = config_for(place)
    async with open_message_store(
        config,
        disk=place.disk,
        clock=ManualClock(),
        run_blocking=run_in_turn,
        store_host=STORE_HOST,
        reports=StoreReports(recovering=lambda reached, last: progress.append((reached, last))),
    ):
        assert progress[-1] == (end, config.mapped_file_size_commit_log)
        assert progress == sorted(progress)


async def test_after_a_kill_everything_whose_burst_ended_is_there(place: Place) -> None:
    scope = opened(place)
    store = await scope.__aenter__()
    sent = [b"%06d" % number * 20 for number in range(1500)]
    for body in sent:
        send(store, body, key=body[:6])
    store.end_burst()
    send(store, b"not acknowledged")
    await kill(scope)
    assert place.disk.exists(f"{place.root}/abort")
    reports: Reports = []
    async with opened(place, reports=reports) as store:
        assert reports[0].record_count == 1500
        assert bodies(store) == sent
        assert send(store, b"next")[1] == 1500
        store.end_burst()
        with trio.fail_after(PATIENCE_SECONDS):
            while store.index_behind:
                await trio.lowlevel.checkpoint()
        for number in (0, 700, 1499):
            found = await store.query_message("T", f"{number:06d}", 32, 0, 1 << 62)
            assert [each.body for each in decode_messages(found.body)] == [sent[number]]
    assert not place.disk.exists(f"{place.root}/abort")


async def test_messages_sent_while_the_index_catches_up_are_found(place: Place) -> None:
    scope = opened(place)
    store = await scope.__aenter__()
    for number in range(1000):
        send(store, b"x" * 100, key=b"old%d" % number)
    store.end_burst()
    await kill(scope)
    async with opened(place) as store:
        for number in range(100):
            send(store, b"y", key=b"new%d" % number)
            store.end_burst()
            await trio.lowlevel.checkpoint()
        with trio.fail_after(PATIENCE_SECONDS):
            while store.index_behind:
                await trio.lowlevel.checkpoint()
        for key in ("old0", "old999", "new0", "new99"):
            found = await store.query_message("T", key, 32, 0, 1 << 62)
            assert len(decode_messages(found.body)) == 1, key


async def test_a_second_process_is_refused(place: Place) -> None:
    async with opened(place):
        with pytest.raises(StartError):
            async with opened(place):
                raise AssertionError
    async with opened(place):
        pass
