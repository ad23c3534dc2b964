"""The KV table and its file: what is answered is on disk, and Java can read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from rocketpy.errors import StartError, StoreError
from rocketpy.nameserver.kv_config import KVConfigManager, decode_config_table, encode_config_table
from rocketpy.store.disk import OsDisk

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


async def test_deleting_the_last_key_keeps_the_namespace(tmp_path: Path) -> None:
    """Brokers are told an empty ORDER_TOPIC_CONFIG apart from none at all."""
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


async def test_changes_at_the_same_time_all_survive(tmp_path: Path) -> None:
    kv_config = manager(tmp_path / "kv.json")
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(kv_config.put, "ns", f"k{number}", "v")
    assert len(loaded(tmp_path / "kv.json").namespace("ns") or {}) == 20


async def test_a_file_that_cannot_be_written_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    kv_config = manager(tmp_path / "file" / "kv.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        await kv_config.put("ns", "k", "v")
    assert kv_config.namespace("ns") is None


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
