"""C++ and Node beyond the plain sends of ``test_matrix``; Go's client is beside ours in ``test_client_groups``."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.interop.clients import Program, ToSend, produce
from tests.interop.cluster import Cluster

WITHOUT_OURS = pytest.mark.parametrize(
    "language", [pytest.param(each, marks=getattr(pytest.mark, each)) for each in ("cpp", "node")]
)
"""The languages whose clients are in no group with ours: those are in ``test_client_groups.py``."""


def numbered(topic: str, count: int) -> list[ToSend]:
    """Return messages whose body is their number."""
    return [ToSend(topic=topic, body=str(index).encode(), keys=f"k{index}", shard=index % 4) for index in range(count)]


@pytest.mark.cpp
def test_what_is_sent_oneway_arrives(cluster: Cluster, tmp_path: Path, topic: str, group: str) -> None:
    asked = numbered(topic, 20)
    names = {"namesrv": cluster.namesrv, "group": group, "topic": topic}
    with Program("cpp", "consume", tmp_path / "consume", **names) as consumer:
        consumer.wait_started()
        with Program("cpp", "produce", tmp_path / "produce", mode="oneway", **names) as producer:
            producer.write(each.line() for each in asked)
            messages = consumer.wait_messages(len(asked))  # who leaves earlier may take them with it
    assert sorted(each.body for each in messages) == sorted(each.body for each in asked)


@pytest.mark.cpp
def test_an_orderly_consumer_sees_each_queue_in_the_order_of_sending(
    cluster: Cluster, tmp_path: Path, topic: str, group: str
) -> None:
    asked = numbered(topic, 100)
    names = {"namesrv": cluster.namesrv, "group": group, "topic": topic, "listener": "orderly"}
    with Program("cpp", "consume", tmp_path / "consume", **names) as consumer:
        consumer.wait_started()
        produce("cpp", cluster.namesrv, asked, tmp_path / "produce", mode="orderly")
        messages = consumer.wait_messages(len(asked))
    seen: dict[int, list[int]] = defaultdict(list)
    for each in messages:
        seen[each.queue_id].append(int(each.body))
    assert len(seen) == 4
    for numbers in seen.values():
        assert numbers == list(range(numbers[0], 100, 4))


@WITHOUT_OURS
def test_a_consumer_gets_the_tags_it_subscribed_to(
    cluster: Cluster, tmp_path: Path, topic: str, group: str, language: str
) -> None:
    asked = [ToSend(topic=topic, body=str(index).encode(), tags="ABC"[index % 3]) for index in range(30)]
    names = {"namesrv": cluster.namesrv, "group": group, "topic": topic, "expression": "A || C"}
    with Program(language, "consume", tmp_path / "consume", **names) as consumer:
        consumer.wait_started()
        produce(language, cluster.namesrv, asked, tmp_path / "produce")
        messages = consumer.wait_messages(20)
    assert sorted(int(each.body) for each in messages) == [index for index in range(30) if index % 3 != 1]


@WITHOUT_OURS
def test_a_group_goes_on_where_it_stopped(
    cluster: Cluster, tmp_path: Path, topic: str, group: str, language: str
) -> None:
    names = {"namesrv": cluster.namesrv, "group": group, "topic": topic}
    produce(language, cluster.namesrv, numbered(topic, 20), tmp_path / "produce-1")
    with Program(language, "consume", tmp_path / "first", **names) as first:
        before = first.wait_messages(20)
    again = cluster.wait_committed(topic, group, before)
    later = [ToSend(topic=topic, body=str(100 + index).encode()) for index in range(20)]
    produce(language, cluster.namesrv, later, tmp_path / "produce-2")
    with Program(language, "consume", tmp_path / "second", **names) as second:
        messages = second.wait_messages(len(again) + 20)
    assert sorted(each.body for each in messages) == sorted(each.body for each in (*again, *later))
