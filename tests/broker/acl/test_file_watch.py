"""Changes of account files count within five seconds."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.broker.acl.file_watch import PERIOD_SECONDS, AclFileWatchService, AclFileWatchStatistics
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.acl.accounts import ACCOUNTS, DEFAULT, make_manager, write_file


async def test_a_change_counts_within_five_seconds(autojump_clock: trio.testing.MockClock) -> None:
    disk = SimDisk()
    manager = make_manager(disk=disk)
    service = AclFileWatchService(manager=manager)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        await trio.sleep(PERIOD_SECONDS * 2 + 1)
        assert service.statistics() == AclFileWatchStatistics(looks=2, reloads=0)
        write_file(disk, DEFAULT, ACCOUNTS + "  - {accessKey: newcomer, secretKey: newcomer}\n")
        await trio.sleep(5.0)
        assert manager.account("newcomer") is not None
        assert service.statistics().reloads == 1
        nursery.cancel_scope.cancel()


async def test_a_file_that_breaks_does_not_end_the_service(autojump_clock: trio.testing.MockClock) -> None:
    disk = SimDisk()
    manager = make_manager(disk=disk)
    async with trio.open_nursery() as nursery:
        await nursery.start(AclFileWatchService(manager=manager).run)
        write_file(disk, DEFAULT, "accounts: [")
        await trio.sleep(20)
        assert manager.account("RocketMQ") is not None, "what was known stays"
        nursery.cancel_scope.cancel()


async def test_a_look_that_fails_unexpectedly_does_not_end_the_service(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file on which the YAML parser itself fails ends no broker that serves."""
    manager = make_manager(disk=SimDisk())
    looks: list[int] = []

    async def reload() -> bool:
        looks.append(1)
        raise ValueError("an error of the parser")

    monkeypatch.setattr(manager, "reload", reload)
    async with trio.open_nursery() as nursery:
        await nursery.start(AclFileWatchService(manager=manager).run)
        await trio.sleep(3 * PERIOD_SECONDS)
        nursery.cancel_scope.cancel()
    assert len(looks) >= 2
    assert "a look at the account files" in caplog.text


async def test_a_word_that_is_not_understood_is_logged_with_its_file_and_line(caplog: pytest.LogCaptureFixture) -> None:
    """A permission that is misspelt would else be found out by its user, who is refused."""
    disk = SimDisk()
    manager = make_manager(disk=disk)
    write_file(disk, DEFAULT, ACCOUNTS + "  - {accessKey: newcomer, secretKey: newcomer, defaultTopicPerm: PUP}\n")
    assert await manager.reload()
    (line,) = [each for each in caplog.messages if "PUP" in each]
    assert line.startswith(f"{DEFAULT} line ")
    assert line.endswith("defaultTopicPerm is 'PUP', expected DENY, PUB, SUB or PUB|SUB: it counts as DENY")
