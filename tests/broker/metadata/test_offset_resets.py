"""Revoked offsets: what a reset is, when it is over, and the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import trio

from rocketpy.broker.metadata import offset_resets
from rocketpy.broker.metadata.offset_resets import OffsetResets
from rocketpy.errors import StartError
from rocketpy.runner import run_inline
from rocketpy.store.disk.os_disk import OsDisk


def resets_in(directory: Path) -> OffsetResets:
    return OffsetResets(path=str(directory / "offsetResets.json"), disk=OsDisk(), run_blocking=run_inline)


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


@pytest.mark.parametrize("text", ["[]", "{}", '{"offsetResets":7}', '{"offsetResets":{"t@g":{0:"x"}}}'])
def test_a_malformed_file_stops_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "offsetResets.json").write_text(text)
    with pytest.raises(StartError, match="offsetResets"):
        resets_in(tmp_path).load()
