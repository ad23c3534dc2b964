"""A store as it begins and ends: recovered, closed in order, killed, opened twice."""

from __future__ import annotations

import pytest
import trio

from rocketpy.errors import StartError
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.results import GetMessageStatus
from rocketpy.store.status import StoreReports
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import config_for, opened, send
from tests.store.parts import Place


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
    reports = StoreReports(recovering=lambda reached, last: progress.append((reached, last)))
    async with opened(place, reports=reports):
        assert progress[-1] == (end, config_for(place).mapped_file_size_commit_log)
        assert progress == sorted(progress)


async def test_a_second_process_is_refused(place: Place) -> None:
    async with opened(place):
        with pytest.raises(StartError):
            async with opened(place):
                raise AssertionError
    async with opened(place):
        pass
