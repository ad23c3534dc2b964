"""Revoked offsets: what a reset is, when it is over, and the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import trio

from rocketpy.broker.metadata import offset_resets
from rocketpy.broker.metadata.ages import Ages
from rocketpy.broker.metadata.offset_resets import UNCERTAIN_MS, OffsetResets
from rocketpy.clock import ManualClock
from rocketpy.errors import StartError
from rocketpy.runner import run_inline
from rocketpy.store.disk.os_disk import OsDisk


class Clocks:
    """The clocks of a machine. Its monotonic time begins anew with each start."""

    def __init__(self) -> None:
        self.wall, self.seconds = ManualClock(), 50.0

    def ages(self) -> Ages:
        return Ages(self.wall, lambda: self.seconds)

    def pass_ms(self, milliseconds: int) -> None:
        self.wall.advance_ms(milliseconds)
        self.seconds += milliseconds / 1000


def resets_in(directory: Path, clocks: Clocks | None = None) -> OffsetResets:
    return OffsetResets(
        path=str(directory / "offsetResets.json"),
        disk=OsDisk(),
        run_blocking=run_inline,
        ages=(clocks or Clocks()).ages(),
    )


@pytest.fixture
def resets(tmp_path: Path) -> OffsetResets:
    return resets_in(tmp_path)


def test_only_a_lower_offset_or_none_is_a_reset(resets: OffsetResets) -> None:
    resets.changed("t@g", 0, None, 5)
    resets.changed("t@g", 0, 5, 9)
    assert resets.revoked_offset("t@g", 0) == -1
    assert not resets.stored.has_changes
    resets.changed("t@g", 0, 9, 3)
    resets.changed("t@g", 1, 7, None)
    assert [resets.revoked_offset("t@g", queue_id) for queue_id in (0, 1, 2)] == [9, 7, -1]
    assert resets.revoked_offset("t@h", 0) == -1


def test_the_highest_revoked_offset_counts(resets: OffsetResets) -> None:
    for before, after in ((9, 3), (3, 6), (6, 2)):
        resets.changed("t@g", 0, before, after)
    assert resets.revoked_offset("t@g", 0) == 9


def test_a_reset_is_over_when_the_group_has_passed_it(resets: OffsetResets) -> None:
    resets.changed("t@g", 0, 9, 3)
    resets.changed("t@g", 0, 3, 9)
    assert resets.revoked_offset("t@g", 0) == 9  # a slave may say 9 for either reason
    resets.changed("t@g", 0, 9, 10)
    assert resets.revoked_offset("t@g", 0) == -1


def test_of_too_many_resets_the_oldest_is_forgotten(resets: OffsetResets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_resets, "OFFSET_RESETS_MAX", 2)
    for group in "ghi":
        resets.changed(f"t@{group}", 0, 9, 3)
    assert [resets.revoked_offset(f"t@{group}", 0) for group in "ghi"] == [-1, 9, 9]


async def test_a_snapshot_shares_offsets_until_they_change(tmp_path: Path) -> None:
    """With 100,000 pairs copying all of them held the loop for a sixth of a second, every five seconds."""
    snapshots: list[Mapping[str, Mapping[int, int]]] = []

    async def change_while_written(write: Callable[..., object], snapshot: Mapping[str, object]) -> None:
        await trio.lowlevel.checkpoint()
        snapshots.append(snapshot["offsetResets"])  # type: ignore[arg-type]
        assert all(snapshots[-1][key] is revoked for key, revoked in noted.table.items())
        noted.changed("t@g", 0, 20, 3)
        noted.changed("t@h", 0, 3, 10)
        noted.forget("t@i")
        write(snapshot)

    noted = OffsetResets(
        path=str(tmp_path / "offsetResets.json"),
        disk=OsDisk(),
        run_blocking=change_while_written,  # type: ignore[arg-type]
        ages=Clocks().ages(),
    )
    for group in "ghi":
        noted.changed(f"t@{group}", 0, 9, 3)
        noted.changed(f"t@{group}", 1, 9, 3)
    await noted.stored.persist()
    assert noted.stored.has_changes
    assert snapshots == [{"t@g": {0: 9, 1: 9}, "t@h": {0: 9, 1: 9}, "t@i": {0: 9, 1: 9}}]
    assert noted.table == {"t@g": {0: 20, 1: 9}, "t@h": {1: 9}}


async def test_resets_survive_a_restart(tmp_path: Path, resets: OffsetResets) -> None:
    resets.changed("t@g", 3, 9, 1)
    await resets.stored.persist()
    later = resets_in(tmp_path)
    later.load()
    assert later.revoked_offset("t@g", 3) == 9
    later.changed("t@g", 3, 9, 10)
    await later.stored.persist()
    latest = resets_in(tmp_path)
    latest.load()
    assert latest.revoked_offset("t@g", 3) == -1


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"offsetResets":7}', '{"offsetResets":{"t@g":{0:"x"}}}', '{"offsetResets":{},"resetTimestamps":7}'],
)
def test_a_malformed_file_stops_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "offsetResets.json").write_text(text)
    with pytest.raises(StartError, match="offsetResets"):
        resets_in(tmp_path).load()


# ---- what a client has committed to a slave --------------------------------------------------------------------------


def test_a_commit_to_a_slave_counts_if_it_came_after_the_reset(tmp_path: Path) -> None:
    """Whether it is higher than what the master had or not: the master may never have known it."""
    clocks = Clocks()
    resets = resets_in(tmp_path, clocks)
    clocks.pass_ms(20_000)
    resets.changed("t@g", 0, 10, 0)
    clocks.pass_ms(9_000)
    assert resets.revokes("t@g", 0, 11, 9_200)
    assert resets.revokes("t@g", 0, 11, 9_000 - UNCERTAIN_MS), "the request was on its way for some time"
    assert not resets.revokes("t@g", 0, 4, 7_999)
    assert not resets.revokes("t@g", 0, 12, 7_999)
    assert not resets.revokes("t@g", 1, 11, 9_200), "nothing was reset there"
    assert not resets.revokes("t@h", 0, 11, 9_200)


def test_the_last_reset_counts(tmp_path: Path) -> None:
    clocks = Clocks()
    resets = resets_in(tmp_path, clocks)
    resets.changed("t@g", 0, 10, 3)
    clocks.pass_ms(9_000)
    resets.changed("t@g", 0, 5, 0)
    clocks.pass_ms(2_000)
    assert resets.revokes("t@g", 0, 11, 4_000)


def test_what_was_revoked_of_a_slave_stays_so_for_the_next_one(resets: OffsetResets) -> None:
    """Another slave may have it too, or this one after a crash of the master."""
    resets.changed("t@g", 0, 10, 0)
    assert not resets.revokes("t@g", 0, 14, None), "the group has passed it"
    assert resets.revokes("t@g", 0, 14, 300)
    assert resets.revokes("t@g", 0, 14, None)
    resets.changed("t@g", 0, 0, 11)
    assert resets.revokes("t@g", 0, 14, 300)
    resets.changed("t@g", 0, 11, 15)
    assert not resets.revokes("t@g", 0, 14, 300)


@pytest.mark.parametrize(("step_ms", "is_revoked"), [(0, False), (-3_600_000, True)])
async def test_the_time_of_a_reset_survives_a_restart(tmp_path: Path, step_ms: int, is_revoked: bool) -> None:
    """A wall clock that was set back before the start makes no reset older than a commit."""
    clocks = Clocks()
    before = resets_in(tmp_path, clocks)
    before.changed("t@g", 0, 10, 0)
    clocks.wall.advance_ms(7_200_000)  # it counts only between a write and the next start
    clocks.pass_ms(5_000)
    await before.stored.persist()
    clocks.pass_ms(5_000)
    clocks.wall.advance_ms(step_ms)
    clocks.seconds = 3.0
    later = resets_in(tmp_path, clocks)
    later.load()
    clocks.pass_ms(2_000)
    assert later.revokes("t@g", 0, 11, 12_100)
    assert later.revokes("t@g", 0, 11, 10_900) == is_revoked


async def test_of_a_reset_whose_time_is_not_known_the_offset_counts(tmp_path: Path) -> None:
    (tmp_path / "offsetResets.json").write_text('{"offsetResets":{"t@g":{0:9}},"resetTimestamps":{"t@h":{0:5}}}')
    resets = resets_in(tmp_path)
    resets.load()
    assert resets.revokes("t@g", 0, 9, 5)
    assert not resets.revokes("t@g", 0, 10, 1 << 40)
    resets.changed("t@g", 0, 9, 10)
    await resets.stored.persist()
    assert "t@" not in (tmp_path / "offsetResets.json").read_text(), "no time is kept without an offset"


async def test_a_reset_that_was_forgotten_has_no_time_either(
    tmp_path: Path, resets: OffsetResets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_resets, "OFFSET_RESETS_MAX", 1)
    for group in "gh":
        resets.changed(f"t@{group}", 0, 9, 3)
    resets.forget("t@h")
    resets.changed("t@i", 0, 9, 3)
    resets.changed("t@i", 0, 3, 10)
    assert not any(resets.revokes(f"t@{group}", 0, 9, 0) for group in "ghi")
    await resets.stored.persist()
    assert "@" not in (tmp_path / "offsetResets.json").read_text()
