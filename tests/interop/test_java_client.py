"""What only some clients can do, shown with Java's: ways to send, ways to consume, and looking at single messages."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.interop.clients import Program, Received, ToSend, produce, received
from tests.interop.cluster import Cluster
from tests.patience import PATIENCE_MS

pytestmark = pytest.mark.java

COMPRESSED_FLAG = 1


def numbered(topic: str, count: int, *, shards: int = 4, tags: str = "") -> list[ToSend]:
    """Return messages whose body is their number, and whose queue in mode orderly goes round."""
    return [
        ToSend(topic=topic, body=str(index).encode(), tags=tags, keys=f"key{index}", shard=index % shards)
        for index in range(count)
    ]


def consumer(cluster: Cluster, directory: Path, group: str, topic: str, **more: object) -> Program:
    """Start Java's push consumer."""
    return Program("java", "consume", directory, namesrv=cluster.namesrv, group=group, topic=topic, **more)


def bodies(messages: list[Received]) -> list[bytes]:
    """Return the bodies, in the order of the numbers that they are."""
    return sorted((each.body for each in messages), key=int)


@pytest.mark.parametrize(
    "mode", [pytest.param("sync", marks=pytest.mark.sample), "async", "oneway", "batch", "orderly"]
)
def test_each_way_of_sending_arrives(cluster: Cluster, tmp_path: Path, topic: str, group: str, mode: str) -> None:
    asked = numbered(topic, 20)
    with consumer(cluster, tmp_path / "consume", group, topic) as taking:
        taking.wait_started()
        sent = produce("java", cluster.namesrv, asked, tmp_path / "produce", mode=mode)
        messages = taking.wait_messages(len(asked))
    assert bodies(messages) == [each.body for each in asked]
    by_body = {each.body: each for each in messages}
    if mode == "batch":
        # One answer for all: their ids in a list, the offset of the first; they lie in one queue one after the other.
        (answer,) = sent
        assert answer.status == "SEND_OK"
        assert answer.msg_id is not None
        assert answer.msg_id.split(",") == [by_body[each.body].msg_id for each in asked]
        assert answer.queue_offset is not None
        found = [(by_body[each.body].queue_id, by_body[each.body].queue_offset) for each in asked]
        assert found == [(answer.queue_id, answer.queue_offset + index) for index in range(len(asked))]
    elif mode != "oneway":
        for each, answer in zip(asked, sent, strict=True):
            got = by_body[each.body]
            assert (answer.status, answer.msg_id, answer.offset_msg_id) == ("SEND_OK", got.msg_id, got.offset_msg_id)
            assert (answer.broker_name, answer.queue_id, answer.queue_offset) == (*got.queue, got.queue_offset)


def test_a_large_body_travels_compressed(cluster: Cluster, tmp_path: Path, topic: str, group: str) -> None:
    asked = [ToSend(topic=topic, body=b"0123456789" * 10_000)]
    with consumer(cluster, tmp_path / "consume", group, topic) as taking:
        taking.wait_started()
        produce("java", cluster.namesrv, asked, tmp_path / "produce")
        (message,) = taking.wait_messages(1)
    assert message.body == asked[0].body
    assert message.sys_flag is not None
    assert message.sys_flag & COMPRESSED_FLAG


def test_an_unknown_topic_is_created_by_the_first_send(cluster: Cluster, tmp_path: Path, group: str) -> None:
    topic = "created_by_java"
    asked = numbered(topic, 8)
    sent = produce("java", cluster.namesrv, asked, tmp_path / "produce")
    assert {each.queue_id for each in sent} == {0, 1, 2, 3}
    cluster.wait_route(topic)
    with consumer(cluster, tmp_path / "consume", group, topic) as taking:
        assert bodies(taking.wait_messages(8)) == [each.body for each in asked]


def queues_of(program: Program) -> set[str]:
    """Return the queues that a Java consumer said last that it has."""
    said = program.lines("queues")
    found = said[-1]["queues"] if said else []
    assert isinstance(found, list)
    return {str(each) for each in found}


# The broker tells each member of a change at once: long before they would look again by themselves.
LOOKS_AGAIN_MS = 4 * PATIENCE_MS


def wait_share(first: Program, second: Program) -> None:
    """Wait until both have started, and then until each has two queues."""
    for each in (first, second):
        each.wait_started()
    for each in (first, second):
        each.wait_until(lambda each=each: len(queues_of(each)) == 2, "two queues")


@pytest.mark.parametrize("listener", ["concurrent", "orderly"])
def test_two_consumers_of_a_group_share_the_queues(
    cluster: Cluster, tmp_path: Path, topic: str, group: str, listener: str
) -> None:
    asked = numbered(topic, 80)
    every_queue = {f"broker-0:{queue_id}" for queue_id in range(4)}
    # An orderly consumer that asks for the lock of a queue before its former owner has given it back does not ask again
    # before it looks again whose queues are whose, so that the broker's word is not enough.
    more = {"listener": listener, "rebalance_ms": 1000 if listener == "orderly" else LOOKS_AGAIN_MS}
    with (
        consumer(cluster, tmp_path / "first", group, topic, **more) as first,
        consumer(cluster, tmp_path / "second", group, topic, **more) as second,
    ):
        wait_share(first, second)
        assert queues_of(first) | queues_of(second) == every_queue
        produce("java", cluster.namesrv, asked, tmp_path / "produce", mode="orderly")
        seen = [*first.wait_messages(40), *second.wait_messages(40)]
    assert bodies(seen) == [each.body for each in asked]
    assert {each.queue_id for each in first.messages()}.isdisjoint(each.queue_id for each in second.messages())


def test_when_a_consumer_leaves_the_other_takes_its_queues_where_it_stopped(
    cluster: Cluster, tmp_path: Path, topic: str, group: str
) -> None:
    more = {"rebalance_ms": LOOKS_AGAIN_MS}
    with consumer(cluster, tmp_path / "first", group, topic, **more) as first:
        with consumer(cluster, tmp_path / "second", group, topic, **more) as second:
            wait_share(first, second)
            produce("java", cluster.namesrv, numbered(topic, 40), tmp_path / "produce-1", mode="orderly")
            first.wait_messages(20)
            second.wait_messages(20)
        first.wait_until(lambda: len(queues_of(first)) == 4, "four queues")
        produce("java", cluster.namesrv, numbered(topic, 40), tmp_path / "produce-2", mode="orderly")
        first.wait_messages(60)
    assert len(first.messages()) + len(second.messages()) == 80
    assert len({(each.queue_id, each.queue_offset) for each in [*first.messages(), *second.messages()]}) == 80


def test_an_orderly_consumer_sees_each_queue_in_the_order_of_sending(
    cluster: Cluster, tmp_path: Path, topic: str, group: str
) -> None:
    asked = numbered(topic, 200)
    with consumer(cluster, tmp_path / "consume", group, topic, listener="orderly") as taking:
        taking.wait_started()
        produce("java", cluster.namesrv, asked, tmp_path / "produce", mode="orderly")
        messages = taking.wait_messages(len(asked))
    seen: dict[int, list[int]] = defaultdict(list)
    for each in messages:
        seen[each.queue_id].append(int(each.body))
    assert len(seen) == 4
    for numbers in seen.values():
        assert numbers == list(range(numbers[0], 200, 4))


def test_every_broadcast_consumer_sees_everything(cluster: Cluster, tmp_path: Path, topic: str, group: str) -> None:
    asked = numbered(topic, 30)
    more = {"model": "broadcasting"}
    with (
        consumer(cluster, tmp_path / "first", group, topic, instance="first", **more) as first,
        consumer(cluster, tmp_path / "second", group, topic, instance="second", **more) as second,
    ):
        for each in (first, second):
            each.wait_until(lambda each=each: len(queues_of(each)) == 4, "four queues")
        produce("java", cluster.namesrv, asked, tmp_path / "produce")
        assert bodies(first.wait_messages(30)) == [each.body for each in asked]
        assert bodies(second.wait_messages(30)) == [each.body for each in asked]


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [("TagA", {"TagA"}), ("TagA || TagC", {"TagA", "TagC"}), ("*", {"TagA", "TagB", "TagC"})],
    ids=["one", "two", "all"],
)
def test_a_consumer_gets_the_tags_it_subscribed_to(
    cluster: Cluster, tmp_path: Path, topic: str, group: str, expression: str, wanted: set[str]
) -> None:
    tags = ["TagA", "TagB", "TagC"]
    asked = [ToSend(topic=topic, body=str(index).encode(), tags=tags[index % 3]) for index in range(30)]
    with consumer(cluster, tmp_path / "consume", group, topic, expression=expression) as taking:
        taking.wait_started()
        produce("java", cluster.namesrv, asked, tmp_path / "produce")
        messages = taking.wait_messages(10 * len(wanted))
    assert bodies(messages) == [each.body for each in asked if each.tags in wanted]


def test_a_lite_pull_consumer_reads_from_the_beginning_and_commits(
    cluster: Cluster, tmp_path: Path, topic: str, group: str
) -> None:
    asked = numbered(topic, 100)
    produce("java", cluster.namesrv, asked, tmp_path / "produce", mode="orderly")
    pull = Program("java", "pull", tmp_path / "pull", namesrv=cluster.namesrv, group=group, topic=topic, count=100)
    lines = pull.run([])
    assert bodies([received(each) for each in lines if each["event"] == "message"]) == [each.body for each in asked]
    committed = {each["queueId"]: each["consumerOffset"] for each in lines if each["event"] == "committed"}
    assert committed == {0: 25, 1: 25, 2: 25, 3: 25}


def test_a_group_goes_on_where_it_stopped(cluster: Cluster, tmp_path: Path, topic: str, group: str) -> None:
    with consumer(cluster, tmp_path / "first", group, topic) as first:
        first.wait_started()
        produce("java", cluster.namesrv, numbered(topic, 20), tmp_path / "produce-1")
        before = first.wait_messages(20)
    again = cluster.wait_committed(topic, group, before)
    later = [ToSend(topic=topic, body=str(100 + index).encode()) for index in range(20)]
    produce("java", cluster.namesrv, later, tmp_path / "produce-2")
    with consumer(cluster, tmp_path / "second", group, topic) as second:
        assert bodies(second.wait_messages(len(again) + 20)) == bodies(again) + [each.body for each in later]


def test_a_message_is_found_by_its_offset_id(cluster: Cluster, tmp_path: Path, topic: str) -> None:
    asked = numbered(topic, 4, tags="TagA")
    sent = produce("java", cluster.namesrv, asked, tmp_path / "produce", mode="orderly")
    ids = [each.offset_msg_id or "" for each in sent]
    nowhere = ids[0][:16] + "000000FFFFFFFF00"
    view = Program(
        "java", "view", tmp_path / "view", namesrv=cluster.namesrv, topic=topic, ids=",".join([*ids, nowhere])
    )
    lines = view.run([])
    found = [received(each) for each in lines if each["event"] == "message"]
    assert [each.body for each in found] == [each.body for each in asked]
    assert [(each.msg_id, each.tags, each.keys) for each in found] == [
        (answer.msg_id, each.tags, each.keys) for answer, each in zip(sent, asked, strict=True)
    ]
    (refused,) = [each for each in lines if each["event"] == "refused"]
    assert refused["code"] == 1  # SYSTEM_ERROR
    assert "can not find message" in str(refused["remark"])


def test_offsets_of_a_queue_and_by_time(cluster: Cluster, tmp_path: Path, topic: str) -> None:
    produce("java", cluster.namesrv, numbered(topic, 40), tmp_path / "produce", mode="orderly")

    def offsets(at_ms: int) -> list[tuple[object, object, object]]:
        view = Program("java", "view", tmp_path / "view", namesrv=cluster.namesrv, topic=topic, at_ms=at_ms)
        lines = [each for each in view.run([]) if each["event"] == "offsets"]
        return [(each["min"], each["max"], each["at"]) for each in lines]

    assert offsets(at_ms=1) == [(0, 10, 0)] * 4
    # Later than the last message: the last one's offset, as in Java's binary search.
    assert offsets(at_ms=4_000_000_000_000) == [(0, 10, 9)] * 4
