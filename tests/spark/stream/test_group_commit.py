"""Commits to a group: only what has changed, and a failure is not the stream's."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from rocketpy.errors import BrokerError, RemotingConnectError
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.cluster import Replicas
from rocketpy.spark.stream.group_commit import RETRY_INTERVAL_S, GroupCommit
from tests.forgotten import sizes_within
from tests.spark.stream.fake_cluster import A0, A1, B0, replicas

BROKERS = {queue: replicas(queue.broker_name) for queue in (A0, A1, B0)}


@attrs.define(eq=False)
class FakeBrokers:
    """Knows group ``g`` at broker ``a``; ``down`` brokers do not answer."""

    calls: list[object] = attrs.field(factory=list)
    down: set[str] = attrs.field(factory=set)

    def is_group_known(self, group: str, replicas: Replicas) -> bool:
        self._ask(replicas)
        return replicas.master == "a"

    def introduce_group(self, group: str, replicas: Replicas) -> None:
        self.calls.append(("introduce", group, replicas.master))

    def commit_offsets(self, group: str, replicas: Replicas, offsets: Mapping[MessageQueue, int]) -> None:
        self._ask(replicas)
        if 13 in offsets.values():
            raise BrokerError(1, "too many offsets", replicas.master)
        self.calls.append((group, replicas.master, dict(offsets)))

    def _ask(self, replicas: Replicas) -> None:
        if replicas.master in self.down:
            raise RemotingConnectError(f"connect to {replicas.master} failed")


@pytest.fixture
def brokers() -> FakeBrokers:
    return FakeBrokers()


def test_the_offsets_of_all_queues_are_committed(brokers: FakeBrokers) -> None:
    GroupCommit("g", brokers).commit({A0: 5, A1: 0}, BROKERS)
    assert brokers.calls == [("g", "a", {A0: 5, A1: 0})]


def test_only_what_has_changed_is_committed_again(brokers: FakeBrokers) -> None:
    commit = GroupCommit("g", brokers)
    commit.commit({A0: 5, A1: 0}, BROKERS)
    brokers.calls.clear()
    commit.commit({A0: 5, A1: 1}, BROKERS)
    assert brokers.calls == [("g", "a", {A1: 1})]


def test_a_group_is_introduced_once_and_only_where_it_is_not_known(brokers: FakeBrokers) -> None:
    """A group that exists has members, whose queues must not be shared out anew."""
    commit = GroupCommit("g", brokers)
    commit.commit({A0: 1, B0: 1}, BROKERS)
    commit.commit({A0: 2, B0: 2}, BROKERS)
    assert [call for call in brokers.calls if "introduce" in call] == [("introduce", "g", "b")]  # type: ignore[operator]


def test_a_broker_that_does_not_answer_is_made_up_for_later(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    commit = GroupCommit("g", brokers)
    brokers.down = {"a"}
    commit.commit({A0: 5, A1: 6, B0: 7}, BROKERS)
    assert [record.getMessage() for record in caplog.records] == [
        "stream: offsets of group g are not committed: connect to a failed"
    ]
    brokers.down = set()
    commit.commit({A0: 5, A1: 6, B0: 8}, BROKERS)
    assert brokers.calls[2:] == [("g", "a", {A0: 5, A1: 6}), ("g", "b", {B0: 8})]


def test_an_idle_query_asks_a_broker_that_is_away_again_after_a_while(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    commit = GroupCommit("g", brokers, clock=lambda: now[0])
    brokers.down = {"a"}
    for _ in range(5):
        commit.commit({A0: 5}, BROKERS)
        now[0] += RETRY_INTERVAL_S / 2
    assert len(caplog.records) == 1
    brokers.down = set()
    commit.commit({A0: 5}, BROKERS)
    assert brokers.calls == []
    now[0] += RETRY_INTERVAL_S
    for _ in range(2):
        commit.commit({A0: 5}, BROKERS)
    assert brokers.calls == [("g", "a", {A0: 5})]


def test_a_refusal_of_the_broker_is_a_warning(brokers: FakeBrokers, caplog: pytest.LogCaptureFixture) -> None:
    GroupCommit("g", brokers).commit({A0: 13}, BROKERS)
    assert "too many offsets" in caplog.text


def test_a_queue_whose_broker_is_not_known_is_left_out_until_it_is(brokers: FakeBrokers) -> None:
    """A query that is started again is asked for its next batch before it has looked at the cluster."""
    commit = GroupCommit("g", brokers)
    commit.commit({A0: 1}, {})
    assert brokers.calls == []
    commit.commit({A0: 1}, BROKERS)
    assert brokers.calls == [("g", "a", {A0: 1})]


def test_brokers_that_come_and_go_leave_nothing(brokers: FakeBrokers) -> None:
    commit = GroupCommit("g", brokers)
    for number in range(20):
        queue = MessageQueue("T", f"broker{number}", 0)
        commit.commit({A0: number, queue: 1}, {A0: replicas("a"), queue: replicas(queue.broker_name)})
    commit.commit({A0: 20}, BROKERS)
    sizes = sizes_within(commit)
    assert sum(size for title, size in sizes.items() if title.startswith("GroupCommit.")) == 3, sizes
