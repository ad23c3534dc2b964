"""Topics of a broker: its own, those it creates by itself, those administration makes, and the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from rocketpy.errors import StartError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from tests.broker.tables_of_a_broker import GOLDEN_CONFIG, Tables, make_tables

PEER = "127.0.0.1:50000"


def queues_and_perm(tables: Tables, topic: str) -> tuple[int, int, int]:
    config = tables.topics.select_topic_config(topic)
    assert config is not None, topic
    assert config.topic_name == topic
    return config.read_queue_nums, config.write_queue_nums, config.perm


def test_the_brokers_own_topics(tables_with: Callable[..., Tables]) -> None:
    tables = tables_with(broker_cluster_name="c1", broker_name="b1")
    expected = {
        "SELF_TEST_TOPIC": (1, 1, 6),
        "TBW102": (8, 8, 7),
        "BenchmarkTest": (1024, 1024, 6),
        "c1": (16, 16, 7),
        "b1": (1, 1, 7),
        "OFFSET_MOVED_EVENT": (1, 1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 18, 6),
        "c1_REPLY_TOPIC": (1, 1, 6),
    }
    assert {topic: queues_and_perm(tables, topic) for topic in tables.topics.topic_config_table} == expected


def test_the_brokers_own_topics_by_its_switches(tables_with: Callable[..., Tables]) -> None:
    tables = tables_with(
        auto_create_topic_enable=False,
        cluster_topic_enable=False,
        broker_topic_enable=False,
        trace_topic_enable=True,
        msg_trace_topic_name="traces",
    )
    assert tables.topics.select_topic_config("TBW102") is None
    assert queues_and_perm(tables, "DefaultCluster") == (16, 16, 1)
    assert queues_and_perm(tables, "broker-a") == (1, 1, 1)
    assert queues_and_perm(tables, "traces") == (1, 1, 6)
    assert tables.topics.is_system_topic("traces")
    assert tables.topics.is_system_topic("TBW102")


# ---- automatic creation ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "made"), [(4, 4), (8, 8), (100, 8), (0, 0), (-5, 0)])
def test_a_created_topic_has_the_smaller_number_of_queues(tables: Tables, asked: int, made: int) -> None:
    config = tables.topics.create_topic_in_send_message_method("new", "TBW102", PEER, asked, 1)
    assert config == TopicConfig("new", made, made, 6, topic_sys_flag=1)
    assert tables.topics.select_topic_config("new") is config


def test_creation_moves_the_version_and_asks_for_the_file(tables: Tables) -> None:
    before = tables.topics.data_version
    tables.clock.advance_ms(5)
    tables.topics.create_topic_in_send_message_method("new", "TBW102", PEER, 4, 0)
    assert tables.topics.data_version.counter == before.counter + 1
    assert tables.topics.data_version.timestamp == before.timestamp + 5
    assert tables.topics.stored.change_count == 1


def test_a_topic_that_is_there_is_returned_as_it_is(tables: Tables) -> None:
    first = tables.topics.create_topic_in_send_message_method("new", "TBW102", PEER, 4, 0)
    again = tables.topics.create_topic_in_send_message_method("new", "nothing", PEER, 8, 1)
    assert again is first
    assert tables.topics.create_topic_in_send_message_back_method("new", 1, 6, 0) is first
    assert tables.topics.stored.change_count == 1


def test_without_a_model_nothing_is_created(tables: Tables) -> None:
    assert tables.topics.create_topic_in_send_message_method("new", "no such model", PEER, 4, 0) is None
    assert tables.topics.create_topic_in_send_message_method("new", "SELF_TEST_TOPIC", PEER, 4, 0) is None
    assert tables.topics.select_topic_config("new") is None
    assert not tables.topics.stored.has_changes


def test_any_topic_with_the_inherit_bit_is_a_model(tables: Tables) -> None:
    tables.topics.update_topic_config(TopicConfig("model", 2, 3, 5, "MULTI_TAG"))
    config = tables.topics.create_topic_in_send_message_method("new", "model", PEER, 9, 0)
    assert config == TopicConfig("new", 3, 3, 4, "MULTI_TAG")


async def test_an_old_model_is_none_once_automatic_creation_is_off(tmp_path: Path) -> None:
    on = make_tables(tmp_path)
    on.topics.update_topic_config(TopicConfig("x"))
    await on.topics.stored.persist()
    off = make_tables(tmp_path, auto_create_topic_enable=False)
    off.topics.load()
    assert queues_and_perm(off, "TBW102") == (8, 8, 7)
    assert off.topics.create_topic_in_send_message_method("new", "TBW102", PEER, 4, 0) is None
    assert queues_and_perm(off, "TBW102") == (8, 8, 6)


async def test_automatic_creation_that_is_switched_on_again_creates(tmp_path: Path) -> None:
    """In RocketMQ it never does, once a producer came in between: not even after a restart."""
    tables = make_tables(tmp_path, auto_create_topic_enable=False)
    tables.topics.update_topic_config(TopicConfig("TBW102", 5, 5, 6))
    await tables.topics.stored.persist()
    object.__setattr__(tables.config, "auto_create_topic_enable", True)  # as LiveSettings does
    tables.topics.settings_changed()
    assert queues_and_perm(tables, "TBW102") == (5, 5, 7)
    assert tables.topics.create_topic_in_send_message_method("new", "TBW102", PEER, 4, 0) is not None
    started = make_tables(tmp_path)
    started.topics.load()
    assert queues_and_perm(started, "TBW102") == (5, 5, 6)
    started.topics.settings_changed()
    assert queues_and_perm(started, "TBW102") == (5, 5, 7)


def test_where_it_was_never_there_the_model_appears(tmp_path: Path) -> None:
    tables = make_tables(tmp_path, auto_create_topic_enable=False)
    assert tables.topics.select_topic_config("TBW102") is None
    object.__setattr__(tables.config, "auto_create_topic_enable", True)
    tables.topics.settings_changed()
    assert queues_and_perm(tables, "TBW102") == (8, 8, 7)


def test_internal_topics_are_created_as_asked(tables: Tables) -> None:
    config = tables.topics.create_topic_in_send_message_back_method("%RETRY%g", 2, 6, 2)
    assert config == TopicConfig("%RETRY%g", 2, 2, 6, topic_sys_flag=2)
    assert tables.topics.stored.change_count == 1


# ---- administration ----------------------------------------------------------------------------------------------


def test_update_and_delete(tables: Tables) -> None:
    tables.topics.update_topic_config(TopicConfig("t", 4, 4))
    tables.topics.update_topic_config(TopicConfig("t", 8, 2, 4))
    assert queues_and_perm(tables, "t") == (8, 2, 4)
    assert tables.topics.delete_topic_config("t")
    assert not tables.topics.delete_topic_config("t")
    assert tables.topics.select_topic_config("t") is None
    assert tables.topics.data_version.counter == 3


def test_the_table_is_one_object_for_good(tables: Tables, tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_bytes((GOLDEN_CONFIG / "topics.json").read_bytes())
    table = tables.topics.topic_config_table
    tables.topics.load()
    tables.topics.update_topic_config(TopicConfig("t"))
    assert tables.topics.topic_config_table is table
    assert "GoldTx" in table


def test_exactly_the_named_topics_are_ordered(tables: Tables) -> None:
    for topic in ("a", "b"):
        tables.topics.update_topic_config(TopicConfig(topic))
    tables.topics.update_order_topic_config(["a", "elsewhere"])
    counter = tables.topics.data_version.counter
    tables.topics.update_order_topic_config(["a"])
    assert tables.topics.data_version.counter == counter == 3
    assert [topic for topic, each in tables.topics.topic_config_table.items() if each.order] == ["a"]
    tables.topics.update_order_topic_config([])
    assert not any(each.order for each in tables.topics.topic_config_table.values())


def test_a_broker_without_write_permission_registers_copies(tables: Tables) -> None:
    tables.topics.update_topic_config(TopicConfig("t", 3, 4, 6, "MULTI_TAG", 1, True))
    wrapper = tables.topics.wrapper(broker_permission=4)
    assert wrapper.topic_config_table["t"] == TopicConfig("t", 3, 4, 4)
    assert {each.perm for each in wrapper.topic_config_table.values()} == {4}
    assert queues_and_perm(tables, "t") == (3, 4, 6)
    assert tables.topics.wrapper().topic_config_table == tables.topics.topic_config_table


# ---- what a crash may leave --------------------------------------------------------------------------------------


def test_topics_that_only_have_queues_are_restored(tables: Tables) -> None:
    tables.topics.update_topic_config(TopicConfig("known", 1, 1))
    queues = [("lost", 0), ("lost", 2), ("wide", 11), ("known", 5), ("%RETRY%g", 0)]
    assert tables.topics.restore_from_queues(queues) == ["%RETRY%g", "lost", "wide"]
    assert queues_and_perm(tables, "lost") == (8, 8, 6)
    assert queues_and_perm(tables, "wide") == (12, 12, 6)
    assert queues_and_perm(tables, "%RETRY%g") == (1, 1, 6)
    assert queues_and_perm(tables, "known") == (1, 1, 6)


def test_queues_that_have_no_topic_in_rocketmq_either_are_left_alone(tables: Tables) -> None:
    queues = [("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0), ("RMQ_SYS_TRANS_HALF_TOPIC", 0), ("%LMQ%x", 0), ("a b", 0)]
    assert tables.topics.restore_from_queues(queues) == []
    assert not tables.topics.stored.has_changes


def test_without_automatic_creation_nothing_is_restored(tables_with: Callable[..., Tables]) -> None:
    assert tables_with(auto_create_topic_enable=False).topics.restore_from_queues([("lost", 0)]) == []


# ---- the file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["topics.json", "cluster-topics.json"])
async def test_javas_file_is_read_and_written_again_byte_for_byte(tmp_path: Path, name: str) -> None:
    path = tmp_path / "topics.json"
    golden = (GOLDEN_CONFIG / name).read_bytes()
    path.write_bytes(golden)
    names = [topic for topic, each in json.loads(golden)["topicConfigTable"].items() if each["perm"] == 7]
    own = {"broker_name": next(each for each in names if each not in ("TBW102", "DefaultCluster"))}
    tables = make_tables(tmp_path, **own)
    tables.topics.load()
    assert set(tables.topics.topic_config_table) == set(json.loads(golden)["topicConfigTable"])
    tables.topics.stored.changed()
    await tables.topics.stored.persist()
    assert path.read_bytes() == golden


def test_own_topics_missing_from_the_file_are_there_after_loading(tmp_path: Path) -> None:
    text = '{"topicConfigTable":{"BenchmarkTest":{"topicName":"BenchmarkTest","perm":4}}}'
    (tmp_path / "topics.json").write_text(text)
    tables = make_tables(tmp_path)
    tables.topics.load()
    assert queues_and_perm(tables, "BenchmarkTest") == (16, 16, 4)
    assert queues_and_perm(tables, "TBW102") == (8, 8, 7)
    assert tables.topics.data_version.counter == 0


@pytest.mark.parametrize("text", ["[]", '{"topicConfigTable":[]}', '{"topicConfigTable":{"t":{"perm":"x"}}}', "{"])
def test_a_malformed_file_stops_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "topics.json").write_text(text)
    with pytest.raises(StartError, match=r"topics\.json"):
        make_tables(tmp_path).topics.load()


async def test_numbers_that_cannot_be_are_fitted_and_written_so(tmp_path: Path) -> None:
    """Nameservers and slaves would get them else; a slave refuses the whole table for one."""
    topic = {"topicName": "copied from B", "perm": 77, "readQueueNums": -4, "writeQueueNums": 3}
    high = {"topicName": "H", "perm": 15, "readQueueNums": 65_535}
    (tmp_path / "topics.json").write_text(json.dumps({"topicConfigTable": {"A": topic, "H": high}}))
    tables = make_tables(tmp_path)
    tables.topics.load()
    assert queues_and_perm(tables, "A") == (0, 3, 5)
    assert queues_and_perm(tables, "H") == (65_535, 16, 15)
    config = tables.topics.select_topic_config("A")
    assert config is not None
    assert config.topic_name == "A"
    tables.topics.stored.changed()
    await tables.topics.stored.persist()
    written = json.loads((tmp_path / "topics.json").read_text())["topicConfigTable"]
    assert (written["A"]["topicName"], written["A"]["perm"], written["A"]["readQueueNums"]) == ("A", 5, 0)


def test_more_queues_than_there_may_be_are_refused_and_not_cut(tmp_path: Path) -> None:
    """Messages of the queues beyond would be hidden."""
    topic = {"topicName": "A", "readQueueNums": 65_536}
    (tmp_path / "topics.json").write_text(json.dumps({"topicConfigTable": {"A": topic}}))
    with pytest.raises(StartError, match=r"topics\.json.*A\.readQueueNums: expected 0 to 65535, found 65536"):
        make_tables(tmp_path).topics.load()


def test_a_light_queue_needs_no_configuration(tables_with: Callable[..., Tables]) -> None:
    topics = tables_with(enable_lmq=True).topics
    config = topics.select_topic_config("%LMQ%alice")
    assert config == TopicConfig("%LMQ%alice", 1, 1, perm=6)
    count = topics.stored.change_count
    topics.update_topic_config(TopicConfig("%LMQ%alice", 9, 9))
    assert topics.select_topic_config("%LMQ%alice") == config
    assert "%LMQ%alice" not in topics.topic_config_table
    assert topics.stored.change_count == count


def test_without_enable_lmq_it_is_a_topic_like_others(tables: Tables) -> None:
    assert tables.topics.select_topic_config("%LMQ%alice") is None
    tables.topics.update_topic_config(TopicConfig("%LMQ%alice", 2, 2))
    assert tables.topics.select_topic_config("%LMQ%alice") == TopicConfig("%LMQ%alice", 2, 2)


def test_there_may_be_too_many_topics_for_more_to_appear(tables_with: Callable[..., Tables]) -> None:
    own = len(tables_with().topics.topic_config_table)
    topics = tables_with(auto_create_topic_max=own + 1).topics
    assert topics.full_because is None
    topics.update_topic_config(TopicConfig("One", 1, 1))
    assert topics.full_because == f"there are {own + 1} already, see autoCreateTopicMax"
    topics.update_topic_config(TopicConfig("Another", 1, 1))  # an operator is not bound by it
    assert topics.select_topic_config("Another") is not None


def test_topics_may_be_too_long_for_more_to_appear(tables_with: Callable[..., Tables]) -> None:
    """46,000 names of 120 characters are no longer a table that fits an answer."""
    topics = tables_with(auto_create_table_bytes_max=20_000).topics
    assert topics.full_because is None
    number = 0
    while topics.full_because is None:
        assert topics.create_topic_in_send_message_method(f"{number:0120}", "TBW102", "peer", 4, 0) is not None
        number += 1
    assert "see autoCreateTableBytesMax" in topics.full_because
    assert len(encode_body(topics.wrapper())) < 20_000 + 500  # what it is held to is an upper bound
    assert number > 30
    topics.delete_topic_config(f"{0:0120}")
    topics.delete_topic_config("not there")
    assert topics.full_because is None


def test_retry_and_dead_letter_topics_count_and_are_bounded_like_others(
    tables_with: Callable[..., Tables], caplog: pytest.LogCaptureFixture
) -> None:
    own = len(tables_with().topics.topic_config_table)
    topics = tables_with(auto_create_topic_max=own + 2).topics
    for topic in ("%RETRY%g", "%DLQ%g"):
        assert topics.create_topic_in_send_message_back_method(topic, 1, 6, 0) is not None
    for number in range(5):
        assert topics.create_topic_in_send_message_back_method(f"%RETRY%{number}", 1, 6, 0) is None
    assert len(topics.topic_config_table) == own + 2
    assert topics.create_topic_in_send_message_back_method("%RETRY%g", 1, 6, 0) is not None
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"topic not created: there are {own + 2} already, see autoCreateTopicMax"
    ] * 3  # the first, the second and the fourth
    # What the broker itself needs is there whatever clients have made.
    assert topics.create_topic_in_send_message_back_method("RMQ_SYS_TRANS_HALF_TOPIC", 1, 6, 0) is not None
    assert topics.restore_from_queues([("Lost", 3)]) == ["Lost"]
    assert topics.select_topic_config("Lost") is not None


def test_a_file_with_too_many_topics_is_loaded_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = {name: {"topicName": name} for name in (f"{number:0100}" for number in range(100))}
    (tmp_path / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    topics = make_tables(tmp_path, auto_create_table_bytes_max=10_000).topics
    topics.load()
    assert topics.select_topic_config(f"{99:0100}") is not None
    assert topics.create_topic_in_send_message_method("New", "TBW102", "peer", 4, 0) is not None  # its callers ask
    (warning,) = caplog.messages[:1]
    assert "topics.json is large: there are" in warning
    assert "autoCreateTableBytesMax" in warning


def test_a_slave_takes_the_whole_table_of_its_master(tables: Tables) -> None:
    """Its own topics stay: they exist on every broker. The object is the same, for the fast paths read it directly."""
    topics = tables.topics
    table, own = topics.topic_config_table, set(topics.topic_config_table)
    topics.update_topic_config(TopicConfig("Old"))
    taken = TopicConfigSerializeWrapper({"New": TopicConfig("New", 3, 3)}, DataVersion(5, 7))
    assert topics.take(taken)
    assert topics.topic_config_table is table
    assert set(table) == own | {"New"}
    assert topics.data_version == DataVersion(5, 7)
    assert topics.stored.has_changes


def test_a_table_is_taken_again_only_if_it_differs(tables: Tables) -> None:
    """Equal versions do not mean equal tables: a heartbeat may have created a topic here."""
    topics = tables.topics
    taken = TopicConfigSerializeWrapper({"New": TopicConfig("New", 3, 3)}, DataVersion(5, 7))
    assert [topics.take(taken) for _ in range(2)] == [True, False]
    topics.topic_config_table["%RETRY%g"] = TopicConfig("%RETRY%g", 1, 1)
    assert topics.take(taken)
    assert "%RETRY%g" not in topics.topic_config_table
    assert topics.take(attrs.evolve(taken, data_version=DataVersion(5, 8)))
    assert topics.take(attrs.evolve(taken, topic_config_table={"New": TopicConfig("New", 4, 4)}))


def test_the_bounds_of_automatic_creation_count_what_was_taken(tables_with: Callable[..., Tables]) -> None:
    topics = tables_with(auto_create_table_bytes_max=20_000).topics
    assert topics.full_because is None
    many = {f"T{number}": TopicConfig(f"T{number}") for number in range(200)}
    topics.take(TopicConfigSerializeWrapper(many, DataVersion(1, 1)))
    assert topics.full_because is not None
    topics.take(TopicConfigSerializeWrapper({}, DataVersion(1, 2)))
    assert topics.full_because is None
