"""The registry of SQL92 filters: RocketMQ's rules of activation, its file, and which bit maps are trusted."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.pull import filters as consumer_filter
from rocketpy.broker.pull.filters import ConsumerFilterManager, compile_expression, is_tag_type
from rocketpy.clock import ManualClock
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.selector.sql92_errors import SelectorError
from rocketpy.runner import run_inline
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.queue.extension import CqExtUnit
from tests.broker.tables_of_a_broker import GOLDEN_CONFIG

HOUR_MS = 3_600_000


class Filters:
    """A registry over a directory, and a clock that stands still."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self.clock = ManualClock()
        self.path = directory / "consumerFilter.json"
        self.manager = self.again(**settings)

    def again(self, **settings: object) -> ConsumerFilterManager:
        """Return the registry as the next start loads it."""
        self.manager = ConsumerFilterManager(
            config=BrokerConfig(**settings),  # type: ignore[arg-type]
            path=str(self.path),
            disk=OsDisk(),
            run_blocking=run_inline,
            clock=self.clock,
        )
        self.manager.load()
        return self.manager

    def subscribe(self, expression: str, version: int = 1, topic: str = "T", expression_type: str = "SQL92") -> None:
        self.manager.register("G", [SubscriptionData(topic, expression, version, expression_type=expression_type)])

    def known(self, topic: str = "T") -> tuple[str, int, bool] | None:
        """Expression, version and whether it is dead."""
        found = self.manager.get(topic, "G")
        return None if found is None else (found.expression, found.client_version, found.is_dead)


@pytest.fixture
def filters(tmp_path: Path) -> Filters:
    return Filters(tmp_path)


# ---- activation ------------------------------------------------------------------------------------------------------


def test_a_filter_that_compiles_is_registered_and_one_that_does_not_is_not(filters: Filters) -> None:
    filters.subscribe("a > 1")
    assert filters.known() == ("a > 1", 1, False)
    filters.subscribe("a > 'x'", topic="Wrong")
    assert filters.known("Wrong") is None
    filters.subscribe("a > 1", topic="Unknown", expression_type="XPATH")
    assert filters.known("Unknown") is None


def test_tags_are_no_filter(filters: Filters) -> None:
    for expression_type in ("TAG", "", None):
        filters.subscribe("a > 1", expression_type=expression_type)  # type: ignore[arg-type]
    filters.subscribe("", topic="Nothing")
    assert len(filters.manager) == 0


def test_only_a_higher_version_brings_another_expression(filters: Filters) -> None:
    filters.subscribe("a > 1", 5)
    filters.subscribe("a > 2", 4)
    filters.subscribe("a > 3", 5)
    assert filters.known() == ("a > 1", 5, False)
    filters.subscribe("a > 4", 6)
    assert filters.known() == ("a > 4", 6, False)


def test_the_same_expression_with_a_higher_version_stays_the_same_filter(filters: Filters) -> None:
    filters.subscribe("a > 1", 5)
    before = filters.manager.get("T", "G")
    filters.clock.advance_ms(1000)
    filters.subscribe("a > 1", 6)
    assert filters.manager.get("T", "G") is before
    assert filters.known() == ("a > 1", 6, False)


def test_a_new_expression_that_does_not_compile_removes_the_old_one(filters: Filters) -> None:
    filters.subscribe("a > 1", 5)
    filters.subscribe("a >", 6)
    assert filters.known() is None
    assert len(filters.manager) == 0


def test_a_topic_that_is_not_named_any_more_and_a_group_that_is_gone_are_dead(filters: Filters) -> None:
    filters.subscribe("a > 1", 5)
    filters.subscribe("b > 1", 5, topic="Other")
    assert filters.known() == ("a > 1", 5, True)
    filters.manager.unregister("G")
    assert filters.known("Other") == ("b > 1", 5, True)
    filters.manager.unregister("nobody")


@pytest.mark.parametrize("version", [5, 6])
def test_an_inactive_filter_is_activated_again(filters: Filters, version: int) -> None:
    filters.subscribe("a > 1", 5)
    filters.manager.unregister("G")
    filters.subscribe("a > 1", version)
    assert filters.known() == ("a > 1", version, False)


def test_a_dead_filter_is_not_woken_by_an_older_version(filters: Filters) -> None:
    filters.subscribe("a > 1", 5)
    filters.manager.unregister("G")
    filters.subscribe("a > 1", 4)
    assert filters.known() == ("a > 1", 5, True)


def test_filters_inactive_for_too_long_are_removed(tmp_path: Path) -> None:
    filters = Filters(tmp_path, filter_data_clean_time_span=HOUR_MS)
    filters.subscribe("a > 1", 5)
    assert filters.manager.clean() == 0
    filters.manager.unregister("G")
    filters.clock.advance_ms(HOUR_MS - 1)
    assert filters.manager.clean() == 0
    filters.clock.advance_ms(1)
    changes = filters.manager.stored.change_count
    assert filters.manager.clean() == 1
    assert filters.known() is None
    assert filters.manager.stored.change_count > changes


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_no_more_filters_than_there_may_be(filters: Filters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_filter, "FILTERS_MAX", 2)
    for topic in ("A", "B", "C"):
        filters.manager.register(f"group of {topic}", [SubscriptionData(topic, "a > 1", 1, expression_type="SQL92")])
    assert len(filters.manager) == 2
    assert filters.manager.get("C", "group of C") is None
    filters.manager.register("group of A", [SubscriptionData("A", "a > 2", 2, expression_type="SQL92")])
    assert str(filters.manager.selector("A", "group of A")) == "(a > 2)", "what is there may change"


def test_a_heartbeat_full_of_sql_is_compiled_in_parts(filters: Filters) -> None:
    """Parsing costs a few microseconds per character and blocks the event loop."""
    long = "a IN (" + "'" + "x" * 20_000 + "') OR a = "
    subscriptions = [SubscriptionData(f"T{n}", f"{long}{n}", 1, expression_type="SQL92") for n in range(3)]
    filters.manager.register("G", subscriptions)
    assert [filters.known(f"T{n}") is not None for n in range(3)] == [True, False, False]
    filters.manager.register("G", subscriptions)
    filters.manager.register("G", subscriptions)
    assert [filters.known(f"T{n}") is not None for n in range(3)] == [True, True, True]


# ---- the file --------------------------------------------------------------------------------------------------------


async def test_the_file_is_java_s_byte_for_byte(filters: Filters) -> None:
    """The file recorded from Java, read, and written again after a change that changes nothing in it."""
    golden = (GOLDEN_CONFIG / "consumerFilter.json").read_text()
    filters.path.write_text(golden)
    manager = filters.again()
    found = manager.get("GoldFilter", "GoldSqlGroup")
    assert found is not None
    assert (found.expression, found.is_dead) == ("a > 1 AND TAGS = 'TagA'", True)
    assert found.bloom_filter_data == manager.bloom_filter.generate("GoldSqlGroup#GoldFilter")
    manager.stored.changed()
    await manager.stored.persist()
    assert filters.path.read_text() == golden


async def test_active_filters_become_inactive_thirty_seconds_before_the_start(filters: Filters) -> None:
    filters.subscribe("a > 1", 5)
    born = filters.clock.timestamp_ms()
    await filters.manager.stored.persist()
    filters.clock.advance_ms(10_000)
    found = filters.again().get("T", "G")
    assert found is not None
    assert found.dead_time == born, "not before it was born"
    filters.clock.advance_ms(100_000)
    found = filters.again().get("T", "G")
    assert found is not None
    assert found.dead_time == filters.clock.timestamp_ms() - 30_000


async def test_a_file_with_bit_maps_of_another_size_is_ignored(filters: Filters) -> None:
    filters.subscribe("a > 1", 5)
    await filters.manager.stored.persist()
    assert len(filters.again(expect_consumer_num_use_filter=100)) == 0
    assert len(filters.again(max_error_rate_of_bloom_filter=1)) == 0
    assert len(filters.again()) == 1


async def test_an_expression_in_the_file_that_does_not_compile_is_left_out(filters: Filters) -> None:
    filters.subscribe("a > 1", 5)
    await filters.manager.stored.persist()
    filters.path.write_text(filters.path.read_text().replace("a > 1", "a >"))
    assert len(filters.again()) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"bornTime":', '"bornTime":-'),
        ('"clientVersion":', '"clientVersion":-'),
        ('"deadTime":0', '"deadTime":9223372036854775807'),
    ],
)
async def test_a_filter_in_the_file_with_a_time_that_is_none_is_left_out(filters: Filters, old: str, new: str) -> None:
    """Creation times never step back: that of one in the far future would be that of every filter from then on."""
    filters.subscribe("a > 1", 5)
    await filters.manager.stored.persist()
    text = filters.path.read_text()
    assert old in text
    filters.path.write_text(text.replace(old, new))
    assert len(filters.again()) == 0


async def test_filters_in_the_file_beyond_the_bound_are_left_out_with_a_line(
    filters: Filters, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    filters.subscribe("a > 1", 5)
    await filters.manager.stored.persist()
    monkeypatch.setattr("rocketpy.broker.pull.filters.FILTERS_MAX", 0)
    assert len(filters.again()) == 0
    assert "expected at most 0 filters, found 1; the filter is left out" in caplog.text


async def test_the_file_follows_every_change(filters: Filters) -> None:
    filters.subscribe("a > 1", 5)
    await filters.manager.stored.persist()
    filters.subscribe("a > 1", 6)
    await filters.manager.stored.persist()
    (of_topic,) = json.loads(filters.path.read_text())["filterDataByTopic"].values()
    assert of_topic["groupFilterData"]["G"]["clientVersion"] == 6
    changes = filters.manager.stored.change_count
    filters.subscribe("a > 1", 6)
    assert filters.manager.stored.change_count == changes, "a heartbeat that says nothing new costs no write"


# ---- bit maps --------------------------------------------------------------------------------------------------------


def test_a_bit_map_says_which_filters_a_message_passed(filters: Filters) -> None:
    assert filters.manager.bit_map_of("T", {"a": "5"}) is None, "the topic has no filter"
    filters.subscribe("a > 1")
    filters.manager.register("H", [SubscriptionData("T", "a > 7", 1, expression_type="SQL92")])
    mine, other = filters.manager.get("T", "G"), filters.manager.get("T", "H")
    assert mine is not None
    assert other is not None
    stored_ms = mine.born_time + 1
    for value, wanted in (("5", (True, False)), ("8", (True, True)), ("x", (False, False))):
        bit_map = filters.manager.bit_map_of("T", {"a": value})
        assert bit_map is not None
        ext = CqExtUnit(0, stored_ms, bit_map)
        assert (mine.message_filter.is_matched_by_consume_queue(0, ext),
                other.message_filter.is_matched_by_consume_queue(0, ext)) == wanted  # fmt: skip


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("subscribe"), st.sampled_from("GH"), st.sampled_from(["a > 1", "a < 1", "b = 'x'", "a >"])),
        st.tuples(st.just("leave"), st.sampled_from("GH")),
        st.tuples(st.just("clock"), st.sampled_from([0, 1, 5, 100, -1, -50, -1000])),
        st.tuples(st.just("store"), st.sampled_from([{"a": "0"}, {"a": "2"}, {"a": "2", "b": "x"}, {"b": "x"}, {}])),
    ),
    max_size=25,
)


@given(ACTIONS)
@example(
    [("subscribe", "G", "a > 1"), ("clock", 100), ("store", {"a": "0"}), ("clock", -50), ("subscribe", "G", "a < 1")]
)
def test_no_bit_map_ever_hides_a_message_that_a_group_wants(actions: list[tuple[object, ...]]) -> None:
    """For any subscriptions, departures and returns of groups, and any steps of the clock."""
    with TemporaryDirectory() as directory:
        filters = Filters(Path(directory))
        stored: list[tuple[dict[str, str], CqExtUnit]] = []
        for version, (action, *arguments) in enumerate(actions):
            if action == "subscribe":
                group, expression = map(str, arguments)
                subscription = SubscriptionData("T", expression, version, expression_type="SQL92")
                filters.manager.register(group, [subscription])
            elif action == "leave":
                filters.manager.unregister(str(arguments[0]))
            elif action == "clock":
                filters.clock.advance_ms(int(str(arguments[0])))
            else:
                properties = cast("dict[str, str]", arguments[0])
                bit_map = filters.manager.bit_map_of("T", properties) or b""
                stored.append((properties, CqExtUnit(0, filters.clock.timestamp_ms(), bit_map)))
            for group in "GH":
                found = filters.manager.get("T", group)
                for properties, ext in stored if found is not None else ():
                    assert found is not None
                    if found.selector.matches(properties):
                        assert found.message_filter.is_matched_by_consume_queue(0, ext)


def test_tools_read_what_is_known_of_a_filter(filters: Filters) -> None:
    filters.subscribe("a > 1", 5)
    subscription = SubscriptionData("T", "a > 1", 5, expression_type="SQL92")
    found, text = filters.manager.filter_of("G", subscription)
    assert found.needs_record
    assert json.loads(text)["expression"] == "a > 1"
    assert text.startswith('{\n\t"bloomFilterData":{\n')
    assert filters.manager.filter_of("H", subscription)[1] == "null"
    found, text = filters.manager.filter_of("G", SubscriptionData("T", "x"))
    assert (found.needs_record, text) == (False, "null")


def test_types() -> None:
    assert [is_tag_type(each) for each in (None, "", "TAG", "SQL92", "tag")] == [True, True, True, False, False]
    with pytest.raises(SelectorError, match="expected TAG or SQL92, found None"):
        compile_expression(None, "a")
