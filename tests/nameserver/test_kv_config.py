"""The KV table and its file: what is answered is on disk, and Java can read it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing

from rocketpy.errors import RequestError, StartError, StoreError
from rocketpy.nameserver.kv_config import KVConfigManager, KVLimits, decode_config_table, encode_config_table
from rocketpy.store.disk.os_disk import OsDisk

T = TypeVar("T")
GOLDEN = Path(__file__).parents[1] / "golden" / "config" / "kvConfig.json"


def manager(path: Path) -> KVConfigManager:
    return KVConfigManager(path=str(path), disk=OsDisk(), run_blocking=trio.to_thread.run_sync)


def loaded(path: Path) -> KVConfigManager:
    kv_config = manager(path)
    kv_config.load()
    return kv_config


async def test_what_is_put_is_in_the_file_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "namesrv" / "kvConfig.json"
    kv_config = loaded(path)
    await kv_config.put("ns", "k", "v1 值")
    await kv_config.put("ns", "l", "")
    assert json.loads(path.read_text()) == {"configTable": {"ns": {"k": "v1 值", "l": ""}}}
    again = loaded(path)
    assert again.get("ns", "k") == "v1 值"
    assert again.namespace("ns") == {"k": "v1 值", "l": ""}
    assert (again.statistics().namespaces, again.statistics().keys) == (1, 2)


async def test_nameservers_that_share_the_file_keep_what_each_has_written(tmp_path: Path) -> None:
    """All of one user do by default. Each wrote the whole table that it knew, without what another had changed."""
    path = tmp_path / "kv.json"
    first, second = loaded(path), loaded(path)
    await first.put("ns", "a", "1")
    await second.put("ns", "b", "2")
    await first.put("other", "c", "3")
    await second.delete("ns", "a")
    await first.delete("ns", "never was")
    for each in (first, loaded(path)):
        assert each.namespace("ns") == {"b": "2"}
        assert each.namespace("other") == {"c": "3"}
        assert (each.statistics().namespaces, each.statistics().keys) == (2, 2)
    assert second.namespace("other") == {"c": "3"}


async def test_what_another_has_written_counts_against_the_bounds(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    await loaded(path).put("ns", "a", "1")
    small = KVConfigManager(
        path=str(path), disk=OsDisk(), run_blocking=trio.to_thread.run_sync, limits=KVLimits(entries_max=2)
    )
    with pytest.raises(RequestError, match="expected at most 2 namespaces and keys"):
        await small.put("ns", "b", "2")
    await small.put("ns", "a", "3")
    assert loaded(path).namespace("ns") == {"a": "3"}


@pytest.mark.parametrize("left", ["", "{", None])
async def test_a_file_that_was_spoiled_by_hand_is_replaced_by_what_is_known(
    tmp_path: Path, left: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kv.json"
    kv_config = loaded(path)
    await kv_config.put("ns", "a", "1")
    await kv_config.put("ns", "b", "2")
    path.unlink() if left is None else path.write_text(left)
    await kv_config.put("ns", "c", "3")
    assert loaded(path).namespace("ns") == {"a": "1", "b": "2", "c": "3"}
    lines = [line for line in caplog.messages if "what this nameserver has takes its place" in line]
    assert len(lines) == (left == "{")
    assert all(line.startswith(f"{path} cannot be read") for line in lines)


async def test_deleting_the_last_key_keeps_the_namespace(tmp_path: Path) -> None:
    """Brokers distinguish an empty ORDER_TOPIC_CONFIG from none."""
    kv_config = manager(tmp_path / "kv.json")
    await kv_config.put("ns", "k", "v")
    await kv_config.delete("ns", "k")
    await kv_config.delete("ns", "never was")
    await kv_config.delete("never was", "k")
    for each in (kv_config, loaded(tmp_path / "kv.json")):
        assert each.get("ns", "k") is None
        assert each.namespace("ns") == {}
        assert each.namespace("never was") is None


async def test_a_null_value_makes_the_namespace_and_is_not_found(tmp_path: Path) -> None:
    kv_config = manager(tmp_path / "kv.json")
    await kv_config.put("ns", "k", "v")
    await kv_config.put("ns", "k", None)
    assert kv_config.namespace("ns") == {}


async def test_what_a_caller_gets_is_his(tmp_path: Path) -> None:
    kv_config = manager(tmp_path / "kv.json")
    await kv_config.put("ns", "k", "v")
    table = kv_config.namespace("ns")
    assert table is not None
    table.clear()
    assert kv_config.get("ns", "k") == "v"


def test_no_file_is_an_empty_table_and_so_is_null(tmp_path: Path) -> None:
    assert loaded(tmp_path / "none.json").statistics().namespaces == 0
    (tmp_path / "null.json").write_text("null\n")
    assert loaded(tmp_path / "null.json").statistics().namespaces == 0


def test_a_damaged_file_falls_back_to_its_backup(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    path.write_text('{"configTable":{"ns"')
    with pytest.raises(StartError, match=r"kv\.json: the KV configuration cannot be read"):
        loaded(path)
    (tmp_path / "kv.json.bak").write_text('{"configTable":{"ns":{"k":"old"}}}')
    assert loaded(path).get("ns", "k") == "old"


@pytest.mark.parametrize("text", ["[]", '{"configTable":[]}', '{"configTable":{"ns":"k"}}', "{}", "\x00"])
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "kv.json").write_text(text)
    with pytest.raises(StartError):
        loaded(tmp_path / "kv.json")


def test_the_file_that_java_wrote_reads_and_writes_to_equal_values() -> None:
    text = GOLDEN.read_text()
    table = decode_config_table(text)
    assert table == {"GoldNs": {}, "ORDER_TOPIC_CONFIG": {"GoldMadeOrder": "broker-0:2", "GoldOrder": "broker-0:2"}}
    assert encode_config_table(table) == text


# -- names, limits, many changes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["$ref", "@type"])
async def test_a_name_that_fastjson_resolves_is_refused(tmp_path: Path, name: str) -> None:
    """A reference as a key made the file unreadable, and with the second change its backup too."""
    kv_config = loaded(tmp_path / "kv.json")
    for namespace, key in (("ns", name), (name, "k")):
        with pytest.raises(RequestError, match=rf"a name that Java can read in its file, found {re.escape(name)}"):
            await kv_config.put(namespace, key, "$.configTable")
    assert not (tmp_path / "kv.json").exists()
    await kv_config.put("ns", "k", '{"$ref":"$"}')
    assert loaded(tmp_path / "kv.json").get("ns", "k") == '{"$ref":"$"}'


async def test_a_file_with_such_a_name_is_read_and_can_be_mended(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    path.write_text('{"configTable":{"N":{"$ref":"$.x"},"ns":{"k":"v"}}}')
    kv_config = loaded(path)
    assert kv_config.namespace("N") == {"$ref": "$.x"}
    await kv_config.delete("N", "$ref")
    assert "$ref" not in path.read_text()
    assert loaded(path).namespace("ns") == {"k": "v"}


async def test_names_and_values_are_bounded(tmp_path: Path) -> None:
    kv_config = manager(tmp_path / "kv.json")
    with pytest.raises(RequestError, match="key: expected at most 512 characters, found 513"):
        await kv_config.put("ns", "k" * 513, "v")
    with pytest.raises(RequestError, match="namespace: expected at most 512 characters, found 513"):
        await kv_config.put("n" * 513, "k", "v")
    with pytest.raises(RequestError, match="value: expected at most 65536 characters, found 65537"):
        await kv_config.put("ns", "k", "v" * 65_537)
    await kv_config.put("n" * 512, "k" * 512, "v" * 65_536)


async def test_entries_are_bounded_namespaces_among_them(tmp_path: Path) -> None:
    kv_config = limited(tmp_path / "kv.json", KVLimits(entries_max=3))
    await kv_config.put("ns", "k", "v")
    await kv_config.put("ns", "l", "v")
    for namespace, key, value in (("ns", "m", "v"), ("other", "k", "v"), ("other", "k", None)):
        with pytest.raises(RequestError, match=r"at most 3 namespaces and keys \(kvConfigEntriesMax\)"):
            await kv_config.put(namespace, key, value)
    await kv_config.put("ns", "l", "another")
    await kv_config.delete("ns", "k")
    await kv_config.put("ns", "m", "v")
    again = limited(tmp_path / "kv.json", KVLimits(entries_max=1))
    again.load()
    await again.put("ns", "m", "w")
    with pytest.raises(RequestError, match="kvConfigEntriesMax"):
        await again.put("ns", "n", "v")
    assert again.namespace("ns") == {"l": "another", "m": "w"}


@pytest.mark.parametrize("limits", [KVLimits(entries_max=10), KVLimits(bytes_max=10 * len('"names0""keys""v"'))])
async def test_namespaces_that_come_and_go_do_not_fill_the_table(tmp_path: Path, limits: KVLimits) -> None:
    """Java keeps an empty one for good; here as long as there is room for others."""
    manager = limited(tmp_path / "kv.json", limits)
    await manager.put("kept", "key", "v")
    for number in range(100):
        await manager.put(f"names{number}", "keys", "v")
        await manager.delete(f"names{number}", "keys")
    assert manager.namespace("names99") == {}
    assert manager.namespace("names0") is None
    assert manager.namespace("kept") == {"key": "v"}
    assert manager.statistics().namespaces < 20
    assert loaded(tmp_path / "kv.json").namespace("names0") is None


async def test_bytes_are_bounded_as_they_are_in_the_file(tmp_path: Path) -> None:
    kv_config = limited(tmp_path / "kv.json", KVLimits(bytes_max=100))
    await kv_config.put("ns", "k", "\x01" * 10)  # six bytes each
    with pytest.raises(RequestError, match=r"at most 100 bytes of names and values \(kvConfigBytesMax\)"):
        await kv_config.put("ns", "l", "é" * 20)
    with pytest.raises(RequestError, match="kvConfigBytesMax"):
        await kv_config.put("ns", "k", "\x01" * 20)
    await kv_config.put("ns", "k", "v")
    await kv_config.put("ns", "l", "é" * 20)
    await kv_config.delete("ns", "l")
    await kv_config.put("ns", "l", None)
    again = limited(tmp_path / "kv.json", KVLimits(bytes_max=100))
    again.load()
    for each in (kv_config, again):
        await each.put("ns", "l", "x" * 84)
        with pytest.raises(RequestError, match="kvConfigBytesMax"):
            await each.put("ns", "l", "x" * 90)


async def test_changes_that_wait_are_written_together_off_the_loop(tmp_path: Path) -> None:
    writes = WriteCounter()
    disk = ThreadNotingDisk()
    kv_config = KVConfigManager(path=str(tmp_path / "kv.json"), disk=disk, run_blocking=writes)
    async with trio.open_nursery() as nursery:
        for number in range(500):
            nursery.start_soon(kv_config.put, "ns", f"k{number}", str(number))
    assert writes.count <= 3
    assert disk.threads
    assert threading.current_thread() not in disk.threads
    assert loaded(tmp_path / "kv.json").namespace("ns") == {f"k{number}": str(number) for number in range(500)}


async def test_of_changes_that_are_written_together_each_has_its_own_answer(tmp_path: Path) -> None:
    kv_config = limited(tmp_path / "kv.json", KVLimits(entries_max=4))
    outcomes: dict[str, str] = {}

    async def put(key: str) -> None:
        try:
            await kv_config.put("ns", key, "v")
            outcomes[key] = "there"
        except RequestError:
            outcomes[key] = "refused"

    async with trio.open_nursery() as nursery:
        for key in "abcdef":
            nursery.start_soon(put, key)
    there = {key for key, outcome in outcomes.items() if outcome == "there"}
    assert len(there) == 3
    assert loaded(tmp_path / "kv.json").namespace("ns") == dict.fromkeys(sorted(there), "v")


async def test_a_file_that_cannot_be_written_refuses_all_that_wait(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kv_config = manager(tmp_path / "file" / "kv.json")
    failures = []

    async def put(key: str) -> None:
        try:
            await kv_config.put("ns", key, "v")
        except StoreError as failure:
            failures.append(failure)

    async with trio.open_nursery() as nursery:
        for key in "abc":
            nursery.start_soon(put, key)
    assert len(failures) == 3
    assert kv_config.namespace("ns") is None


async def test_an_unexpected_failure_is_of_the_change_that_wrote(tmp_path: Path) -> None:
    """What waited with it is written by the next one."""
    attempts: list[str] = []

    async def fail_once(function: Callable[..., T], *arguments: object) -> T:
        attempts.append("")
        await trio.testing.wait_all_tasks_blocked()
        if len(attempts) == 1:
            raise ZeroDivisionError
        return function(*arguments)

    kv_config = KVConfigManager(path=str(tmp_path / "kv.json"), disk=OsDisk(), run_blocking=fail_once)
    failed: list[str] = []

    async def put(key: str) -> None:
        try:
            await kv_config.put("ns", key, "v")
        except ZeroDivisionError:
            failed.append(key)

    async with trio.open_nursery() as nursery:
        for key in "abc":
            nursery.start_soon(put, key)
    assert len(failed) == 1
    assert loaded(tmp_path / "kv.json").namespace("ns") == dict.fromkeys(sorted({*"abc"} - {*failed}), "v")


def limited(path: Path, limits: KVLimits) -> KVConfigManager:
    return KVConfigManager(path=str(path), disk=OsDisk(), run_blocking=trio.to_thread.run_sync, limits=limits)


class WriteCounter:
    """Runs blocking calls in threads, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, function: Callable[..., T], *arguments: object) -> T:
        self.count += 1
        return await trio.to_thread.run_sync(function, *arguments)


class ThreadNotingDisk(OsDisk):
    """Notes in which threads files are renamed."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[threading.Thread] = set()

    def rename(self, path: str, new_path: str) -> None:
        self.threads.add(threading.current_thread())
        super().rename(path, new_path)


def test_what_is_read_instead_of_what_the_file_says_has_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kv.json"
    path.write_text('{"configTable":{"ns":{"k":"a","k":"b"}}}')
    assert loaded(path).get("ns", "k") == "b"
    path.with_name("kv.json.bak").write_text('{"configTable":{"ns":{"k":"old"}}}')
    path.write_text("{")
    assert loaded(path).get("ns", "k") == "old"
    repeated, damaged = caplog.messages
    assert repeated == f"{path}: 'k' comes twice in one object, the last one counts"
    assert damaged.startswith(f"{path} cannot be read, its .bak is used instead: ")
