"""Offsets of groups: the table, its questions, and its file as Java writes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpy.broker.metadata import offsets as consumer_offset
from rocketpy.errors import StartError
from tests.broker.tables_of_a_broker import GOLDEN_CONFIG, Tables, make_tables
from tests.worst_requests import processor_seconds


def test_a_group_without_offset_has_minus_one(tables: Tables) -> None:
    tables.offsets.commit_offset("peer", "g", "t", 1, 5)
    assert tables.offsets.query_offset("g", "t", 0) == -1
    assert tables.offsets.query_offset("h", "t", 1) == -1
    assert tables.offsets.query_offset("g", "t", 1) == 5


def test_what_can_be_no_offset_is_left_out_of_a_file_and_a_negative_one_is_none(tmp_path: Path) -> None:
    """A slave of either kind refuses a table with the former; RocketMQ keeps the latter, and looks at it as at none."""
    text = '{"offsetTable":{"T@G":{0:-5,1:7,-1:3},"no group":{0:1},"@G":{0:1}}}'
    (tmp_path / "consumerOffset.json").write_text(text)
    tables = make_tables(tmp_path)
    tables.offsets.load()
    assert tables.offsets.offset_table == {"T@G": {0: -5, 1: 7}}
    assert tables.offsets.which_topic_by_consumer("G") == ["T"]


def test_an_offset_may_go_back(tables: Tables) -> None:
    tables.offsets.commit_offset("peer", "g", "t", 0, 9)
    tables.offsets.commit_offset("peer", "g", "t", 0, 3)
    assert tables.offsets.query_offset("g", "t", 0) == 3


def test_there_is_room_for_what_is_known_and_for_so_many_more(
    tables_with: Callable[..., Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_offset, "GROUPS_OF_TOPICS_MAX", 2)
    tables = tables_with(consumer_offsets_max=3)
    for group in ("g", "h"):
        assert tables.offsets.has_room_for(group, "t", 0)
        tables.offsets.commit_offset("peer", group, "t", 0, 1)
    assert not tables.offsets.has_room_for("i", "t", 0)
    assert tables.offsets.has_room_for("g", "t", 7)
    tables.offsets.commit_offset("peer", "g", "t", 7, 1)
    assert not tables.offsets.has_room_for("g", "t", 8)  # the sum of all queues counts, whatever pair they are of
    assert not tables.offsets.has_room_for("h", "t", 8)
    assert tables.offsets.has_room_for("g", "t", 7)
    tables.offsets.clone_offset("g", "h", "t")  # an operator is not bound by it
    tables.offsets.remove_offset("g")
    assert not tables.offsets.has_room_for("i", "u", 0) or len(tables.offsets.offset_table) == 1
    tables.offsets.remove_offset("h")
    assert tables.offsets.has_room_for("i", "u", 0)


def test_the_bound_counts_what_the_file_holds(tmp_path: Path) -> None:
    (tmp_path / "consumerOffset.json").write_text('{"offsetTable":{"t@g":{0:7,1:8},"u@g":{0:1}}}')
    tables = make_tables(tmp_path, consumer_offsets_max=3)
    tables.offsets.load()
    assert not tables.offsets.has_room_for("g", "t", 2)
    assert tables.offsets.has_room_for("g", "t", 1)
    assert tables.offsets.which_topic_by_consumer("g") == ["t", "u"]
    assert tables.offsets.which_group_by_topic("u") == ["g"]


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
        '{"offsetTable":{"t@g":{0:1',
    ],
)
def test_a_malformed_file_stops_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "consumerOffset.json").write_text(text)
    with pytest.raises(StartError, match="consumerOffset"):
        make_tables(tmp_path).offsets.load()


async def test_a_snapshot_does_not_change_with_the_table(tables: Tables) -> None:
    tables.offsets.commit_offset("peer", "g", "t", 0, 1)
    tables.offsets.commit_offset("peer", "h", "t", 0, 1)
    snapshot = tables.offsets.snapshot()
    for offset in (2, 3):
        tables.offsets.commit_offset("peer", "g", "t", 0, offset)
    tables.offsets.commit_offset("peer", "g", "t", 1, 9)
    tables.offsets.remove_offset("h")
    assert snapshot == {"t@g": {0: 1}, "t@h": {0: 1}}
    later = tables.offsets.snapshot()
    tables.offsets.commit_offset("peer", "g", "t", 1, 10)
    assert later == {"t@g": {0: 3, 1: 9}}
    assert tables.offsets.query_offset("g", "t", 1) == 10


def test_a_snapshot_of_many_pairs_takes_no_time_of_the_loop(tables: Tables) -> None:
    for number in range(50_000):
        tables.offsets.commit_offset("peer", f"g{number % 10}", f"t{number // 10}", 0, 1)

    def commits_and_snapshots() -> None:
        tables.offsets.commit_offset("peer", "g0", "t0", 0, time.monotonic_ns())
        tables.offsets.snapshot()

    assert processor_seconds(commits_and_snapshots, enough=0.005) < 0.005
    assert processor_seconds(lambda: tables.offsets.which_group_by_topic("t1"), enough=0.001) < 0.001
    assert processor_seconds(lambda: tables.offsets.which_topic_by_consumer("g1"), enough=0.001) < 0.001


# ---- light queues ---------------------------------------------------------------------------------------------------


def test_a_group_of_light_queues_has_one_offset_a_topic(tables_with: Callable[..., Tables]) -> None:
    offsets = tables_with(enable_lmq=True).offsets
    offsets.commit_offset("peer", "%LMQ%g", "%LMQ%t", 5, 7)
    offsets.commit_offset("peer", "g", "%LMQ%t", 5, 8)
    assert [offsets.query_offset("%LMQ%g", "%LMQ%t", queue_id) for queue_id in (0, 5, 9)] == [7, 7, 7]
    assert dict(offsets.offsets_of("%LMQ%g", "%LMQ%t")) == {0: 7}
    assert [offsets.query_offset("g", "%LMQ%t", queue_id) for queue_id in (0, 5)] == [-1, 8]
    assert offsets.query_offset("%LMQ%h", "%LMQ%t", 0) == -1


def test_without_enable_lmq_it_is_a_group_like_others(tables: Tables) -> None:
    tables.offsets.commit_offset("peer", "%LMQ%g", "t", 5, 7)
    assert tables.offsets.query_offset("%LMQ%g", "t", 0) == -1


async def test_javas_file_of_light_queues_is_read_and_written_again_byte_for_byte(tmp_path: Path) -> None:
    golden = (GOLDEN_CONFIG / "lmqConsumerOffset.json").read_bytes()
    path = tmp_path / "lmqConsumerOffset.json"
    path.write_bytes(golden)
    (tmp_path / "consumerOffset.json").write_text("what is in here counts for nothing")
    offsets = make_tables(tmp_path, enable_lmq=True).offsets
    offsets.load()
    assert offsets.query_offset("%LMQ%group", "%LMQ%one", 0) == 4
    assert offsets.query_offset("GoldGroup", "GoldA", 0) == 4
    offsets.stored.changed()
    await offsets.stored.persist()
    assert path.read_bytes() == golden


def test_where_light_queues_are_new_offsets_are_not_lost(tmp_path: Path) -> None:
    """RocketMQ starts without offsets: every group would read again from the beginning, or from the end."""
    (tmp_path / "consumerOffset.json").write_text('{"offsetTable":{"t@g":{0:7}}}')
    offsets = make_tables(tmp_path, enable_lmq=True).offsets
    offsets.load()
    assert offsets.query_offset("g", "t", 0) == 7


@pytest.mark.parametrize(
    "text",
    [
        '{"offsetTable":{},"lmqOffsetTable":[]}',
        '{"offsetTable":{},"lmqOffsetTable":{"t@g":{}}}',
    ],
)
def test_a_malformed_file_of_light_queues_stops_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "lmqConsumerOffset.json").write_text(text)
    with pytest.raises(StartError, match="lmqConsumerOffset"):
        make_tables(tmp_path, enable_lmq=True).offsets.load()


# ---- listeners, and tables of a master -------------------------------------------------------------------------------


def test_a_listener_is_notified_of_every_change_by_a_request(tables: Tables) -> None:
    offsets, changes = tables.offsets, []
    offsets.on_change = lambda *change: changes.append(change)
    offsets.commit_offset("peer", "g", "t", 0, 9)
    offsets.commit_offset("peer", "g", "t", 0, 9)
    offsets.commit_offset("peer", "g", "t", 0, 3)
    offsets.commit_offset("peer", "h", "t", 1, 1)
    offsets.clone_offset("g", "h", "t")
    offsets.remove_offset("g")
    assert changes[:3] == [("t@g", 0, None, 9), ("t@g", 0, 9, 3), ("t@h", 1, None, 1)]
    assert sorted(changes[3:5]) == [("t@h", 0, None, 3), ("t@h", 1, 1, None)]
    assert changes[5:] == [("t@g", 0, 3, None)]


def test_a_slave_replaces_the_offsets_of_a_pair_without_a_listener(tables_with: Callable[..., Tables]) -> None:
    offsets = tables_with(consumer_offsets_max=3).offsets
    offsets.on_change = lambda *change: pytest.fail(str(change))
    snapshots = []
    for replaced in ({0: 1, 1: 2}, {1: 3, 2: 4, 3: 5}, {}, {}, {7: 8}):
        offsets.replace("t@g@h", replaced)
        snapshots.append(offsets.snapshot())
        assert dict(offsets.offsets_of("g@h", "t")) == replaced
        assert offsets.which_group_by_topic("t") == (["g@h"] if replaced else [])
        assert offsets.which_topic_by_consumer("g@h") == (["t"] if replaced else [])
        assert offsets.has_room_for("x", "y", 0) == (len(replaced) < 3)
    assert snapshots[0] == {"t@g@h": {0: 1, 1: 2}}
    assert snapshots[2] == {}
