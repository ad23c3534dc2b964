"""The file of a table: what is read, when it is written, and what a damaged one does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest
import trio

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.groups import SubscriptionGroupManager
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.clock import ManualClock
from rocketpy.errors import RemoteProtocolError, StartError
from rocketpy.protocol.fastjson.file_notes import FileNotes
from rocketpy.runner import run_inline
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.testing.sim.disk import ProcessDied, SimDisk
from tests.broker.tables_of_a_broker import GOLDEN_CONFIG
from tests.store.parts import Place

T = TypeVar("T")


class Runner:
    """Runs at once; fails on demand, and can be held in the middle of a write."""

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


def plain(content: object, notes: FileNotes) -> object:
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


@pytest.mark.parametrize("path", ["$", "$.names.a", "@", "nowhere"])
async def test_a_name_that_fastjson_takes_for_a_reference_is_a_name(tmp_path: Path, path: str) -> None:
    """Peers choose names; read as a reference it would put another value there, or none, and the start would fail."""
    values: dict[str, object] = {"names": {"a": {"$ref": path}}, "last": {"$ref": path}}
    table = table_at(tmp_path / "t.json", values)
    table.changed()
    await table.persist()
    assert table_at(tmp_path / "t.json", {}).load(plain) == values
    (tmp_path / "t.json").rename(tmp_path / "t.json.bak")
    assert table_at(tmp_path / "t.json", {}).load(plain) == values


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


@pytest.mark.parametrize("text", ['{"a":', "[1]", " \n"], ids=["truncated", "no object", "spaces"])
def test_a_damaged_file_gives_way_to_its_backup(tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    (tmp_path / "t.json.bak").write_text('{"a":1}')
    assert table_at(tmp_path / "t.json", {}).load(plain) == {"a": 1}
    assert f"{tmp_path / 't.json'} cannot be read, its .bak is used instead" in caplog.text


@pytest.mark.parametrize("name", ["topics.json", "subscriptionGroup.json", "consumerOffset.json"])
def test_a_table_cut_at_any_byte_is_read_from_its_backup(name: str) -> None:
    """With bytes as Java writes them, through the managers themselves."""
    whole = (GOLDEN_CONFIG / name).read_bytes()
    expected = loaded(name, whole)
    for cut in range(0, len(whole), max(1, len(whole) // 70)):
        assert loaded(name, whole[:cut], backup=whole) == expected, cut
        if cut:
            with pytest.raises(StartError, match=f"{name} and its .bak cannot be read"):
                loaded(name, whole[:cut])
            with pytest.raises(StartError, match=f"{name} and its .bak cannot be read"):
                loaded(name, whole[:cut], backup=whole[: cut // 2 + 1])


def loaded(name: str, content: bytes, *, backup: bytes | None = None) -> object:
    """Return the table that a manager reads."""
    place = Place(SimDisk(), "/config")
    place.write(f"/config/{name}", content)
    if backup is not None:
        place.write(f"/config/{name}.bak", backup)
    path, disk = f"/config/{name}", place.disk
    config = BrokerConfig(broker_name="b", broker_ip1="127.0.0.1", broker_ip2="127.0.0.1")
    if name == "topics.json":
        topics = TopicConfigManager(config=config, path=path, disk=disk, run_blocking=run_inline, clock=ManualClock())
        topics.load()
        return topics.topic_config_table
    if name == "subscriptionGroup.json":
        groups = SubscriptionGroupManager(
            config=config, path=path, disk=disk, run_blocking=run_inline, clock=ManualClock()
        )
        groups.load()
        return groups.subscription_group_table
    offsets = ConsumerOffsetManager(config=BrokerConfig(), path=path, disk=disk, run_blocking=run_inline)
    offsets.load()
    return offsets.offset_table


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("power_lost", [False, True])
async def test_no_crash_leaves_neither_file_nor_backup(power_lost: bool, is_damaged: bool) -> None:
    """Dies in every disk call of a write, also where the file was damaged before and its backup took its place."""
    values: dict[str, object] = {}
    for call in range(1, 60):
        for seed in range(8 if power_lost else 1):
            disk = SimDisk(choose=Random(seed).randrange)
            table = StoredTable(path="/t/t.json", disk=disk, run_blocking=Runner(), snapshot=lambda: dict(values))
            for number in (1, 2):
                values["a"] = number
                table.changed()
                await table.persist()
            if is_damaged:
                disk.flip_bit("/t/t.json", 0)
            table = StoredTable(path="/t/t.json", disk=disk, run_blocking=Runner(), snapshot=lambda: dict(values))
            known = table.load(plain)
            assert known == {"a": 1 if is_damaged else 2}
            values["a"] = 3
            table.changed()
            disk.die_at_call(call)
            has_died = False
            try:
                await table.persist()
            except ProcessDied:
                has_died = True
            if power_lost:
                disk.lose_power()
            else:
                disk.kill_process()
            again = StoredTable(path="/t/t.json", disk=disk, run_blocking=Runner(), snapshot=dict)
            assert again.load(plain) in ([known, {"a": 3}] if has_died else [{"a": 3}]), (call, seed)
        if not has_died:
            return
    raise AssertionError("a write takes fewer calls")


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


async def test_what_a_table_speaks_of_is_there_before_it(tmp_path: Path) -> None:
    """The snapshot is older than that: what is said meanwhile is written the next time."""
    said = ["first"]
    path = tmp_path / "table.json"
    stored = StoredTable(path=str(path), disk=OsDisk(), run_blocking=run_inline, snapshot=lambda: {"said": list(said)})
    seen: list[bool] = []

    async def before_write() -> None:
        seen.append(path.exists())
        said.append("meanwhile")
        stored.changed()

    stored.before_write = before_write
    stored.changed()
    await stored.persist()
    assert seen == [False]
    assert "meanwhile" not in path.read_text()
    assert stored.has_changes


@pytest.mark.parametrize(
    ("text", "content", "key"),
    [
        ('{"a":1,"a":2}', {"a": 2}, "a"),
        ('{"offsetTable":{"T@g":{0:5,0:7}}}', {"offsetTable": {"T@g": {"0": 7}}}, "0"),
    ],
)
def test_of_a_repeated_key_the_last_one_counts_and_has_a_line(
    tmp_path: Path, text: str, content: object, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    assert table_at(path, {}).load(plain) == content
    assert caplog.messages == [f"{path}: {key!r} comes twice in one object, the last one counts"]
