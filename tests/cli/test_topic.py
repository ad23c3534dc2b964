"""``rocketpy topic`` against a fake cluster."""

from __future__ import annotations

import pytest

from rocketpy.cli.topic import aligned, no_longer_read, permission_text
from rocketpy.protocol.codes import RequestCode, ResponseCode
from tests.cli.conftest import run
from tests.client.fake_cluster import FakeCluster


async def test_list(cluster: FakeCluster) -> None:
    ended = await run("topic", "list", "-n", cluster.address)
    assert ended.status == 0, ended
    assert [each.split() for each in ended.lines] == [
        ["topic", "broker", "read", "queues", "write", "queues", "permission"],
        ["TBW102", "broker-a", "8", "8", "RWX"],
        ["TopicTest", "broker-a", "4", "4", "RW"],
    ]
    quiet = await run("topic", "list", "-q", NAMESRV_ADDR=cluster.address)
    assert quiet.lines == ["TBW102", "TopicTest"]


async def test_refusals_are_one_sentence_and_status_1(cluster: FakeCluster) -> None:
    cluster.broker.refuse(RequestCode.UPDATE_AND_CREATE_TOPIC, ResponseCode.SYSTEM_ERROR, "conflicts")
    for arguments, sentence in (
        (("topic", "create", "TBW102"), f"rocketpy: CODE: 1  DESC: conflicts BROKER: {cluster.broker.address}\n"),
        (("topic", "create", "New", "-c", "x"), "rocketpy: CODE: 1  DESC: no cluster named x, known: cluster\n"),
    ):
        ended = await run(*arguments, "-n", cluster.address)
        assert (ended.status, ended.errors) == (1, sentence)


@pytest.mark.parametrize(
    ("namesrv", "sentence"),
    [("127.0.0.1:1", "no nameserver answers: "), ("nonsense", "nameserver 'nonsense' is not ")],
)
async def test_a_nameserver_that_is_none(namesrv: str, sentence: str) -> None:
    ended = await run("topic", "list", "-n", namesrv)
    assert ended.status == 1
    assert ended.errors.startswith(f"rocketpy: {sentence}")
    assert namesrv in ended.errors
    assert ended.errors.count("\n") == 1


def test_a_topic_that_has_fewer_queues_now_says_which_are_no_longer_read() -> None:
    assert no_longer_read("T", 2, {"broker-a": 2, "broker-b": 1}) == []
    (one, more) = no_longer_read("T", 2, {"broker-b": 8, "broker-a": 3, "broker-c": 2})
    assert one.startswith("T had 3 queues on broker-a, and no consumer reads queue 2 any more; ")
    assert more.startswith("T had 8 queues on broker-b, and no consumer reads queues 2 to 7 any more; ")
    assert more.endswith("rocketpy topic create T -q 8 brings them back with their messages")


def test_permissions_in_letters() -> None:
    assert [permission_text(perm) for perm in (0, 2, 4, 6, 7)] == ["-", "W", "R", "RW", "RWX"]


def test_columns_begin_under_each_other_and_nothing_is_cut() -> None:
    assert aligned([("a", "b"), ("longer", "x" * 200)]) == ["a       b", "longer  " + "x" * 200]
