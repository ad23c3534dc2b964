"""``rocketpy store dump``: every file of a store as lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketpy.cli.dump import json_line, text_line
from rocketpy.store.inspection.show.dump import Item
from tests.cli.conftest import run
from tests.store.broken_stores import BrokenStore, unpack


@pytest.fixture
def store(tmp_path: Path) -> BrokenStore:
    return unpack("store-clean", tmp_path)


async def test_text_lines_name_what_they_show(store: BrokenStore) -> None:
    ended = await run("store", "dump", "-c", "1", "--from", "2", str(store.queue_file("GoldB")))
    assert ended.status == 0
    assert ended.lines[0] == f"file path={store.queue_file('GoldB')} holds=ConsumeQueue length=6000"
    assert ended.lines[1].startswith("unit queue_offset=2 physical_offset=")
    as_json = await run("store", "dump", "--json", "-c", "1", "--from", "2", str(store.queue_file("GoldB")))
    assert [json.loads(line)["kind"] for line in as_json.lines] == [line.split()[0] for line in ended.lines]


async def test_what_is_no_file_of_a_store(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    ended = await run("store", "dump", str(tmp_path / "x"))
    assert (ended.status, ended.errors) == (1, f"rocketpy: no file of a store ({tmp_path}/x)\n")
    assert (await run("store", "dump", str(tmp_path / "nowhere"))).status == 2


def test_lines() -> None:
    item = Item("record", {"topic": "T", "keys": None, "properties": {"a": "b"}, "body": "two words", "empty": ""})
    assert text_line(item) == "record topic=T keys=- properties={a=b} body='two words' empty=''"
    assert json.loads(json_line(item)) == {"kind": "record", **item.fields}
