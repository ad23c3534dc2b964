"""Consumer groups of a broker: predefined ones, those that appear, those administration makes, and the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpy.broker.metadata.groups import PREDEFINED_GROUPS
from rocketpy.errors import StartError
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rocketpy.protocol.bodies.topic import DataVersion
from tests.broker.tables_of_a_broker import GOLDEN_CONFIG, Tables, make_tables


def test_predefined_groups_are_there_and_are_no_change(tables: Tables) -> None:
    for group in PREDEFINED_GROUPS:
        assert tables.groups.find_subscription_group_config(group) == SubscriptionGroupConfig(group)
    assert not tables.groups.stored.has_changes


def test_an_unknown_group_is_created_once(tables: Tables) -> None:
    first = tables.groups.find_subscription_group_config("g")
    assert first == SubscriptionGroupConfig("g")
    assert tables.groups.find_subscription_group_config("g") is first
    assert tables.groups.data_version.counter == 1
    assert tables.groups.stored.change_count == 1


def test_a_group_with_an_endless_name_does_not_appear(tables: Tables) -> None:
    """It would be in every answer that lists the groups, until none of them fits into a frame."""
    assert tables.groups.find_subscription_group_config("g" * 255) is not None
    assert tables.groups.find_subscription_group_config("g" * 256) is None
    assert tables.groups.find_subscription_group_config("CID_RMQ_SYS_" * 100) is None


def test_without_automatic_creation_only_the_brokers_own_groups_are_created(tables_with: Callable[..., Tables]) -> None:
    groups = tables_with(auto_create_subscription_group=False).groups
    assert groups.find_subscription_group_config("g") is None
    assert groups.find_subscription_group_config("CID_RMQ_SYS_x") is None
    assert groups.find_subscription_group_config("CID_RMQ_SYS_TRANS") is not None
    assert "g" not in groups.subscription_group_table


def test_update_and_delete(tables: Tables) -> None:
    tables.groups.update_subscription_group_config(SubscriptionGroupConfig("g", retry_max_times=3))
    found = tables.groups.find_subscription_group_config("g")
    assert found is not None
    assert found.retry_max_times == 3
    assert tables.groups.delete_subscription_group_config("g")
    assert not tables.groups.delete_subscription_group_config("g")
    assert tables.groups.data_version.counter == 2


@pytest.mark.parametrize("name", ["subscriptionGroup.json", "cluster-subscriptionGroup.json"])
async def test_javas_file_is_read_and_written_again_byte_for_byte(tmp_path: Path, name: str) -> None:
    path = tmp_path / "subscriptionGroup.json"
    golden = (GOLDEN_CONFIG / name).read_bytes()
    path.write_bytes(golden)
    tables = make_tables(tmp_path)
    tables.groups.load()
    assert tables.groups.data_version.counter > 0
    tables.groups.stored.changed()
    await tables.groups.stored.persist()
    assert path.read_bytes() == golden


def test_predefined_groups_missing_from_the_file_are_there_after_loading(tmp_path: Path) -> None:
    text = '{"subscriptionGroupTable":{"g":{"groupName":"g","consumeEnable":false}}}'
    (tmp_path / "subscriptionGroup.json").write_text(text)
    tables = make_tables(tmp_path)
    tables.groups.load()
    assert list(tables.groups.subscription_group_table) == ["g", *PREDEFINED_GROUPS]
    assert not tables.groups.subscription_group_table["g"].consume_enable


@pytest.mark.parametrize("text", ["[]", '{"subscriptionGroupTable":7}', "}{"])
def test_a_malformed_file_stops_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "subscriptionGroup.json").write_text(text)
    with pytest.raises(StartError, match=r"subscriptionGroup\.json"):
        make_tables(tmp_path).groups.load()


def test_numbers_that_cannot_be_are_fitted(tmp_path: Path) -> None:
    """A slave refuses the whole table for one; retryMaxTimes says the same to everybody below 0."""
    group = (
        '{"groupName":"H","retryQueueNums":-5,"retryMaxTimes":-3,"brokerId":-1,"whichBrokerWhenConsumeSlowly":-2,'
        '"consumeEnable":false}'
    )
    (tmp_path / "subscriptionGroup.json").write_text(f'{{"subscriptionGroupTable":{{"G":{group}}}}}')
    tables = make_tables(tmp_path)
    tables.groups.load()
    assert tables.groups.subscription_group_table["G"] == SubscriptionGroupConfig(
        group_name="G",
        consume_enable=False,
        retry_queue_nums=0,
        retry_max_times=-3,
        broker_id=0,
        which_broker_when_consume_slowly=1,
    )


def test_a_group_of_light_queues_needs_no_configuration(tables_with: Callable[..., Tables]) -> None:
    groups = tables_with(enable_lmq=True, auto_create_subscription_group=False).groups
    count = groups.stored.change_count
    assert groups.find_subscription_group_config("%LMQ%g") == SubscriptionGroupConfig("%LMQ%g")
    groups.update_subscription_group_config(SubscriptionGroupConfig("%LMQ%g", consume_enable=False))
    assert groups.find_subscription_group_config("%LMQ%g") == SubscriptionGroupConfig("%LMQ%g")
    assert groups.find_subscription_group_config("g") is None
    assert groups.stored.change_count == count


def test_without_enable_lmq_it_is_a_group_like_others(tables: Tables) -> None:
    tables.groups.update_subscription_group_config(SubscriptionGroupConfig("%LMQ%g", consume_enable=False))
    config = tables.groups.find_subscription_group_config("%LMQ%g")
    assert config is not None
    assert not config.consume_enable


def test_there_may_be_too_many_groups_for_more_to_appear(tables_with: Callable[..., Tables]) -> None:
    own = len(tables_with().groups.subscription_group_table)
    groups = tables_with(auto_create_subscription_group_max=own + 1).groups
    assert groups.find_subscription_group_config("g") is not None
    assert groups.full_because is not None
    assert "see autoCreateSubscriptionGroupMax" in groups.full_because
    assert groups.find_subscription_group_config("h") is None
    assert groups.find_subscription_group_config("g") is not None
    assert groups.find_subscription_group_config("CID_RMQ_SYS_TRANS") is not None  # the broker's own
    for number in range(10):  # a name that only looks like it is one as any other
        assert groups.find_subscription_group_config(f"CID_RMQ_SYS_{number}") is None
    groups.update_subscription_group_config(SubscriptionGroupConfig("h"))  # an operator is not bound by it
    assert groups.find_subscription_group_config("h") is not None


def test_consuming_can_be_switched_off_and_stays_off(tables: Tables) -> None:
    tables.groups.find_subscription_group_config("g")
    before = tables.groups.data_version.counter
    tables.groups.disable_consume("g")
    tables.groups.disable_consume("g")
    tables.groups.disable_consume("unknown")
    assert not tables.groups.subscription_group_table["g"].consume_enable
    assert "unknown" not in tables.groups.subscription_group_table
    assert tables.groups.data_version.counter == before + 1


def test_a_slave_takes_the_whole_table_of_its_master_if_it_differs(tables: Tables) -> None:
    groups = tables.groups
    groups.update_subscription_group_config(SubscriptionGroupConfig("Old"))
    taken = SubscriptionGroupWrapper({"G": SubscriptionGroupConfig("G", retry_max_times=3)}, DataVersion(5, 7))
    assert [groups.take(taken) for _ in range(2)] == [True, False]
    assert groups.subscription_group_table == taken.subscription_group_table
    assert groups.data_version == DataVersion(5, 7)
    assert groups.stored.has_changes
    groups.disable_consume("G")
    assert groups.take(taken)
    groups.subscription_group_table["H"] = SubscriptionGroupConfig("H")  # of an equal version
    assert groups.take(taken)
    assert "H" not in groups.subscription_group_table


def test_the_bounds_of_automatic_creation_count_what_was_taken(tables_with: Callable[..., Tables]) -> None:
    groups = tables_with(auto_create_table_bytes_max=20_000).groups
    many = {f"G{number}": SubscriptionGroupConfig(f"G{number}") for number in range(200)}
    groups.take(SubscriptionGroupWrapper(many, DataVersion(1, 1)))
    assert groups.full_because is not None
