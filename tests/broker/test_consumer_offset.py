"""Offsets of groups: the table, its questions, and its file as Java writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.errors import StartError
from tests.broker.tables_of_a_broker import GOLDEN_CONFIG, Tables, make_tables


def test_a_group_without_offset_has_minus_one(tables: Tables) -> None:
    tables.offsets.commit_offset("peer", "g", "t", 1, 5)
    assert tables.offsets.query_offset("g", "t", 0) == -1
    assert tables.offsets.query_offset("h", "t", 1) == -1
    assert tables.offsets.query_offset("g", "t", 1) == 5


def test_an_offset_may_go_back(tables: Tables) -> None:
    tables.offsets.commit_offset("peer", "g", "t", 0, 9)
    tables.offsets.commit_offset("peer", "g", "t", 0, 3)
    assert tables.offsets.query_offset("g", "t", 0) == 3


def test_the_same_offset_again_is_no_change(tables: Tables) -> None:
    tables.offsets.commit_offset("peer", "g", "t", 0, 9)
    count = tables.offsets.stored.change_count
    tables.offsets.commit_offset("peer", "g", "t", 0, 9)
    assert tables.offsets.stored.change_count == count
    tables.offsets.commit_offset("peer", "g", "t", 1, 9)
    assert tables.offsets.stored.change_count == count + 1


def test_topics_of_a_group_and_groups_of_a_topic(tables: Tables) -> None:
    for topic, group in (("t", "g"), ("u", "g"), ("t", "h@x"), ("g", "t")):
        tables.offsets.commit_offset("peer", group, topic, 0, 1)
    assert tables.offsets.which_topic_by_consumer("g") == ["t", "u"]
    assert tables.offsets.which_topic_by_consumer("h@x") == ["t"]
    assert tables.offsets.which_group_by_topic("t") == ["g", "h@x"]


def test_removing_a_group_leaves_the_others(tables: Tables) -> None:
    for topic, group in (("t", "g"), ("u", "g"), ("t", "gg")):
        tables.offsets.commit_offset("peer", group, topic, 0, 1)
    tables.offsets.remove_offset("g")
    assert list(tables.offsets.offset_table) == ["t@gg"]
    count = tables.offsets.stored.change_count
    tables.offsets.remove_offset("g")
    assert tables.offsets.stored.change_count == count


@pytest.mark.parametrize("name", ["consumerOffset.json", "cluster-consumerOffset.json"])
async def test_javas_file_is_read_and_written_again_byte_for_byte(tmp_path: Path, name: str) -> None:
    path = tmp_path / "consumerOffset.json"
    golden = (GOLDEN_CONFIG / name).read_bytes()
    path.write_bytes(golden)
    tables = make_tables(tmp_path)
    tables.offsets.load()
    assert tables.offsets.offset_table
    tables.offsets.stored.changed()
    await tables.offsets.stored.persist()
    assert path.read_bytes() == golden


def test_golden_values(tmp_path: Path) -> None:
    (tmp_path / "consumerOffset.json").write_bytes((GOLDEN_CONFIG / "consumerOffset.json").read_bytes())
    tables = make_tables(tmp_path)
    tables.offsets.load()
    assert tables.offsets.query_offset("GoldGroupA", "GoldA", 1) == 122
    assert tables.offsets.which_topic_by_consumer("CID_RMQ_SYS_TRANS") == [
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_TRANS_HALF_TOPIC",
    ]


def test_quoted_integers_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "consumerOffset.json").write_text('{"offsetTable":{"t@g":{"0":"7"}}}')
    tables = make_tables(tmp_path)
    tables.offsets.load()
    assert tables.offsets.query_offset("g", "t", 0) == 7


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        '{"offsetTable":[]}',
        '{"offsetTable":{"t@g":7}}',
        '{"offsetTable":{"t@g":{"zero":7}}}',
        '{"offsetTable":{"t@g":{0:true}}}',
        '{"offsetTable":{"t@g":{0:1.5}}}',
        '{"offsetTable":{0:{0:1}}}',
        '{"offsetTable":{"t@g":{0:1',
    ],
)
def test_a_file_that_makes_no_sense_stops_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "consumerOffset.json").write_text(text)
    with pytest.raises(StartError, match="consumerOffset"):
        make_tables(tmp_path).offsets.load()


async def test_a_snapshot_does_not_change_with_the_table(tables: Tables) -> None:
    tables.offsets.commit_offset("peer", "g", "t", 0, 1)
    snapshot = tables.offsets._snapshot()
    tables.offsets.commit_offset("peer", "g", "t", 0, 2)
    assert snapshot == {"offsetTable": {"t@g": {0: 1}}}
