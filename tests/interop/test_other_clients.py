"""Ways of sending and consuming beyond the plain ones of ``test_matrix``, in Go and C++; Node's client has none."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.interop.clients import Program, ToSend, produce
from tests.interop.cluster import Cluster


def numbered(topic: str, count: int) -> list[ToSend]:
    """Return messages whose body is their number."""
    return [ToSend(topic=topic, body=str(index).encode(), keys=f"k{index}", shard=index % 4) for index in range(count)]


@pytest.mark.parametrize(
    ("language", "mode"),
    [
        pytest.param("go", "async", marks=pytest.mark.go),
        pytest.param("go", "oneway", marks=pytest.mark.go),
        pytest.param("go", "batch", marks=pytest.mark.go),
        pytest.param("cpp", "oneway", marks=pytest.mark.cpp),
    ],
)
def test_each_way_of_sending_arrives(
    cluster: Cluster, tmp_path: Path, topic: str, group: str, language: str, mode: str
) -> None:
    asked = numbered(topic, 20)
    names = {"namesrv": cluster.namesrv, "group": group, "topic": topic}
    with Program(language, "consume", tmp_path / "consume", **names) as consumer:
        consumer.wait_started()
        if mode == "oneway":
            with Program(language, "produce", tmp_path / "produce", mode=mode, **names) as producer:
                producer.write(each.line() for each in asked)
                messages = consumer.wait_messages(len(asked))  # who leaves earlier may take them with it
        else:
            sent = produce(language, cluster.namesrv, asked, tmp_path / "produce", mode=mode)
            messages = consumer.wait_messages(len(asked))
    assert sorted(each.body for each in messages) == sorted(each.body for each in asked)
    if mode != "oneway":
        assert {each.status for each in sent} == {"SEND_OK"}
    if mode == "batch":
        assert len({each.queue_id for each in messages}) == 1
        first = min(each.queue_offset for each in messages)
        assert sent[0].queue_offset == first
        assert {int(each.body): each.queue_offset - first for each in messages} == {index: index for index in range(20)}


@pytest.mark.parametrize(
    "language", [pytest.param("go", marks=pytest.mark.go), pytest.param("cpp", marks=pytest.mark.cpp)]
)
def test_an_orderly_consumer_sees_each_queue_in_the_order_of_sending(
    cluster: Cluster, tmp_path: Path, topic: str, group: str, language: str
) -> None:
    asked = numbered(topic, 100)
    names = {"namesrv": cluster.namesrv, "group": group, "topic": topic, "listener": "orderly"}
    with Program(language, "consume", tmp_path / "consume", **names) as consumer:
        consumer.wait_started()
        produce(language, cluster.namesrv, asked, tmp_path / "produce", mode="orderly")
        messages = consumer.wait_messages(len(asked))
    seen: dict[int, list[int]] = defaultdict(list)
    for each in messages:
        seen[each.queue_id].append(int(each.body))
    assert len(seen) == 4
    for numbers in seen.values():
        assert numbers == list(range(numbers[0], 100, 4))


@pytest.mark.parametrize(
    "language",
    [pytest.param(each, marks=getattr(pytest.mark, each)) for each in ("go", "cpp", "node")],
)
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


@pytest.mark.parametrize(
    "language",
    [pytest.param(each, marks=getattr(pytest.mark, each)) for each in ("go", "cpp", "node")],
)
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
