"""The largest table: what is shown, what is left out, and that brokers that are gone are freed unseen."""

from __future__ import annotations

from itertools import chain

from rocketpy.nameserver.routes.topic_table import NAME_LENGTH_MAX, TOPICS_PER_SLICE, TopicLimits, TopicTable
from rocketpy.protocol.bodies.topic import TopicConfig
from tests.worst_requests import SLICE_SECONDS_MAX, processor_seconds


def configs(*names: str, perm: int = 6) -> list[TopicConfig]:
    return [TopicConfig(name, 4, 4, perm) for name in names]


def table_of(*brokers: str, **limits: int) -> TopicTable:
    table = TopicTable(TopicLimits(**limits))
    for broker in brokers:
        table.add_broker(broker)
    return table


def shown(table: TopicTable) -> dict[str, list[str]]:
    table.check_invariants()
    topics = chain(*table.topics_where(bool))
    return {topic: [queue.broker_name for queue in table.queues_of(topic)] for topic in topics}


def test_topics_are_those_of_the_brokers_that_are_here() -> None:
    table = table_of("a", "b")
    assert table.put("a", configs("t", "u")) == table.put("b", configs("u")) == 0
    assert shown(table) == {"t": ["a"], "u": ["a", "b"]}
    table.remove_broker("a")
    assert shown(table) == {"u": ["b"]}
    assert table.queues_of("t") == []
    assert list(table.broker_names) == ["b"]


def test_a_broker_of_the_same_name_has_none_of_the_old_topics() -> None:
    """It comes back before they are freed, and what is freed then is not its own."""
    table = table_of("a")
    table.put("a", configs("t", "u", perm=2))
    table.remove_broker("a")
    table.add_broker("a")
    assert shown(table) == {}
    table.put("a", configs("u", perm=6))
    assert shown(table) == {"u": ["a"]}
    assert table.purge(1)
    assert not table.purge()
    assert shown(table) == {"u": ["a"]}
    assert table.queues_of("u")[0].perm == 6
    assert not table.purge()


def test_topics_are_freed_a_slice_at_a_time() -> None:
    table = table_of("a", "b", "c", routes_max=7)
    for broker in ("a", "b"):
        table.put(broker, configs("t", "u", "v"))
        table.remove_broker(broker)
    assert [table.purge(2) for _ in range(4)] == [True, True, False, False]
    table.check_invariants()
    assert table.put("c", configs(*map(str, range(8)))) == 1


def test_what_a_full_table_has_no_room_for_is_left_out() -> None:
    table = table_of("a", "b", topics_max=3, topics_per_broker_max=3, routes_max=5)
    assert table.put("a", configs("1", "2", "3", "4")) == 1
    assert table.put("b", configs("5", "3", "2", "1")) == 2
    assert shown(table) == {"1": ["a"], "2": ["a", "b"], "3": ["a", "b"]}
    assert table.put("a", configs("1", "3", perm=4)) == 0
    assert table.queues_of("1")[0].perm == 4
    assert table_of("a").put("a", configs("x" * (NAME_LENGTH_MAX + 1), "x" * NAME_LENGTH_MAX)) == 1


def test_a_topic_is_deleted_everywhere_or_for_some_brokers() -> None:
    table = table_of("a", "b", "c")
    for broker in ("a", "b", "c"):
        table.put(broker, configs("t", "u"))
    table.remove_broker("c")
    table.delete("t", ["a", "nobody"])
    table.delete("none")
    assert shown(table) == {"t": ["b"], "u": ["a", "b"]}
    table.delete("t")
    table.delete("u")
    assert shown(table) == {}


def test_permissions_change_in_slices() -> None:
    table = table_of("a", "b")
    table.put("a", configs(*map(str, range(TOPICS_PER_SLICE + 5)), perm=7))
    table.put("b", configs("0", perm=7))
    changes = table.change_perm("a", lambda perm: perm & ~2)
    assert next(changes) == TOPICS_PER_SLICE
    table.delete(str(TOPICS_PER_SLICE))
    assert next(changes) == 4
    assert {queue.broker_name: queue.perm for queue in table.queues_of("0")} == {"a": 5, "b": 7}
    assert list(table.change_perm("nobody", lambda perm: 0)) == []
    changes = table.change_perm("a", lambda perm: 0)
    table.remove_broker("a")
    assert sum(changes) == 0


def test_slices_show_what_is_there_when_they_are_made() -> None:
    table = table_of("a")
    table.put("a", configs(*map(str, range(TOPICS_PER_SLICE * 2))))
    slices = table.topics_where(bool)
    assert len(next(slices)) == TOPICS_PER_SLICE
    table.delete(str(TOPICS_PER_SLICE))
    table.put("a", configs("new"))
    assert next(slices) == [str(number) for number in range(TOPICS_PER_SLICE + 1, TOPICS_PER_SLICE * 2)]
    assert list(slices) == []


def test_no_call_takes_long_with_the_largest_table() -> None:
    """One table for all of them, in this order: to fill it takes longer than everything else."""
    limits = TopicLimits()
    table = table_of("a", "b")
    names = [str(number) for number in range(limits.topics_max)]
    half = limits.topics_per_broker_max
    table.put("a", configs(*names[:half]))
    table.put("b", configs(*names[half:]))
    slices, changes, topics = table.topics_where(bool), table.change_perm("b", lambda perm: 4), configs(*names[:1000])
    seconds = {
        "put": processor_seconds(lambda: table.put("a", topics)),
        "slice of the topics": processor_seconds(lambda: next(slices)),
        "slice of a change": processor_seconds(lambda: next(changes)),
        "remove": processor_seconds(lambda: table.remove_broker("a"), attempts=1),
        "purge": processor_seconds(table.purge),
    }
    assert {what: each for what, each in seconds.items() if each >= SLICE_SECONDS_MAX} == {}
