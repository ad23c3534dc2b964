"""The file behind a table: what is read, when it is written, and what a damaged one does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from rocketpy.broker.stored_table import StoredTable
from rocketpy.errors import DiskFullError, RemoteProtocolError, StartError
from rocketpy.store.disk import OsDisk

T = TypeVar("T")


class Runner:
    """Runs at once; fails when told to, and can be held up in the middle of a write."""

    def __init__(self) -> None:
        self.calls = 0
        self.failure: Exception | None = None
        self.gate: trio.Event | None = None

    async def __call__(self, function: Callable[..., T], /, *arguments: object) -> T:
        self.calls += 1
        if self.failure is not None:
            raise self.failure
        result = function(*arguments)
        if self.gate is not None:
            await self.gate.wait()
        return result


def table_at(path: Path, values: dict[str, object], runner: Runner | None = None) -> StoredTable:
    return StoredTable(path=str(path), disk=OsDisk(), run_blocking=runner or Runner(), snapshot=lambda: dict(values))


def plain(content: object) -> object:
    if not isinstance(content, dict):
        raise RemoteProtocolError("expected an object")
    return content


def test_no_file_is_no_table(tmp_path: Path) -> None:
    assert table_at(tmp_path / "t.json", {}).load(plain) is None


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_file_without_backup_is_no_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    assert table_at(tmp_path / "t.json", {}).load(plain) is None


async def test_what_is_written_is_read_again_and_the_predecessor_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "config" / "t.json"
    values: dict[str, object] = {"a": 1}
    table = table_at(path, values)
    table.changed()
    await table.persist()
    values["a"] = 2
    table.changed()
    await table.persist()
    assert path.read_text() == '{\n\t"a":2\n}'
    assert table_at(path, {}).load(plain) == {"a": 2}
    path.unlink()
    assert table_at(path, {}).load(plain) == {"a": 1}


async def test_a_table_without_changes_is_not_written(tmp_path: Path) -> None:
    runner = Runner()
    table = table_at(tmp_path / "t.json", {}, runner)
    await table.persist()
    table.changed()
    table.changed()
    assert table.has_changes
    await table.persist()
    await table.persist()
    assert runner.calls == 1
    assert not table.has_changes


def test_a_damaged_file_gives_way_to_its_backup(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"a":')
    (tmp_path / "t.json.bak").write_text('{"a":1}')
    assert table_at(tmp_path / "t.json", {}).load(plain) == {"a": 1}


def test_a_file_that_decodes_to_nothing_sensible_gives_way_to_its_backup(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("[1]")
    (tmp_path / "t.json.bak").write_text('{"a":1}')
    assert table_at(tmp_path / "t.json", {}).load(plain) == {"a": 1}


@pytest.mark.parametrize("backup", [None, "", "{", "[]"])
def test_a_damaged_file_without_good_backup_is_named(tmp_path: Path, backup: str | None) -> None:
    (tmp_path / "t.json").write_text("{{{")
    if backup is not None:
        (tmp_path / "t.json.bak").write_text(backup)
    with pytest.raises(StartError, match=r"t\.json and its \.bak cannot be read"):
        table_at(tmp_path / "t.json", {}).load(plain)


async def test_a_change_during_a_write_is_written_by_the_next(tmp_path: Path) -> None:
    runner = Runner()
    values: dict[str, object] = {"a": 1}
    table = table_at(tmp_path / "t.json", values, runner)
    table.changed()
    runner.gate = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(table.persist)
        await trio.testing.wait_all_tasks_blocked()
        values["a"] = 2
        table.changed()
        nursery.start_soon(table.persist)  # waits: two writers would share a temporary file
        await trio.testing.wait_all_tasks_blocked()
        assert runner.calls == 1
        runner.gate.set()
    assert runner.calls == 2
    assert not table.has_changes
    assert table_at(tmp_path / "t.json", {}).load(plain) == {"a": 2}


async def test_after_a_full_disk_the_change_is_still_due(tmp_path: Path) -> None:
    runner = Runner()
    table = table_at(tmp_path / "t.json", {"a": 1}, runner)
    table.changed()
    runner.failure = DiskFullError(path="t.json", wanted_bytes=10, free_bytes=0)
    with pytest.raises(DiskFullError):
        await table.persist()
    assert table.has_changes
    runner.failure = None
    await table.persist()
    assert table_at(tmp_path / "t.json", {}).load(plain) == {"a": 1}


async def test_who_waits_for_changes_sees_each_count_once(tmp_path: Path) -> None:
    table = table_at(tmp_path / "t.json", {})
    seen: list[int] = []

    async def watch() -> None:
        count = 0
        while count < 3:
            count = await table.wait_changed(count)
            seen.append(count)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await trio.testing.wait_all_tasks_blocked()
        table.changed()
        await trio.testing.wait_all_tasks_blocked()
        table.changed()
        table.changed()
    assert seen == [1, 3]
