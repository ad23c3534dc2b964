"""Commits to a group: only what has changed, and a failure is not the stream's."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.errors import BrokerError, RemotingConnectError
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.stream.group_commit import GroupCommit

A0, A1, B0 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("T", "b", 0)
ADDRESSES = {A0: "a", A1: "a", B0: "b"}


@attrs.define(eq=False)
class FakeBrokers:
    """Knows group ``g`` at broker ``a``; ``down`` brokers do not answer."""

    calls: list[object] = attrs.field(factory=list)
    down: set[str] = attrs.field(factory=set)

    def is_group_known(self, group: str, address: str) -> bool:
        self._ask(address)
        return address == "a"

    def introduce_group(self, group: str, address: str) -> None:
        self.calls.append(("introduce", group, address))

    def commit_offset(self, group: str, address: str, queue: MessageQueue, queue_offset: int) -> None:
        self._ask(address)
        if queue_offset == 13:
            raise BrokerError(1, "too many offsets", address)
        self.calls.append((group, address, queue, queue_offset))

    def _ask(self, address: str) -> None:
        if address in self.down:
            raise RemotingConnectError(f"connect to {address} failed")


@pytest.fixture
def brokers() -> FakeBrokers:
    return FakeBrokers()


def test_the_offsets_of_all_queues_are_committed(brokers: FakeBrokers) -> None:
    GroupCommit("g", brokers).commit({A0: 5, A1: 0}, ADDRESSES)
    assert brokers.calls == [("g", "a", A0, 5), ("g", "a", A1, 0)]


def test_only_what_has_changed_is_committed_again(brokers: FakeBrokers) -> None:
    commit = GroupCommit("g", brokers)
    commit.commit({A0: 5, A1: 0}, ADDRESSES)
    brokers.calls.clear()
    commit.commit({A0: 5, A1: 1}, ADDRESSES)
    assert brokers.calls == [("g", "a", A1, 1)]


def test_a_group_is_introduced_once_and_only_where_it_is_not_known(brokers: FakeBrokers) -> None:
    """A group that exists has members, whose queues must not be shared out anew."""
    commit = GroupCommit("g", brokers)
    commit.commit({A0: 1, B0: 1}, ADDRESSES)
    commit.commit({A0: 2, B0: 2}, ADDRESSES)
    assert [call for call in brokers.calls if "introduce" in call] == [("introduce", "g", "b")]  # type: ignore[operator]


def test_a_broker_that_does_not_answer_is_made_up_for_later(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    commit = GroupCommit("g", brokers)
    brokers.down = {"a"}
    commit.commit({A0: 5, A1: 6, B0: 7}, ADDRESSES)
    assert [record.getMessage() for record in caplog.records] == [
        "stream: offsets of group g are not committed: connect to a failed"
    ]
    brokers.down = set()
    commit.commit({A0: 5, A1: 6, B0: 8}, ADDRESSES)
    assert brokers.calls[2:] == [("g", "a", A0, 5), ("g", "a", A1, 6), ("g", "b", B0, 8)]


def test_an_idle_query_does_not_ask_a_broker_that_is_away_again(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    commit = GroupCommit("g", brokers)
    brokers.down = {"a"}
    for _ in range(5):
        commit.commit({A0: 5}, ADDRESSES)
    assert len(caplog.records) == 1


def test_a_refusal_of_the_broker_is_a_warning(brokers: FakeBrokers, caplog: pytest.LogCaptureFixture) -> None:
    GroupCommit("g", brokers).commit({A0: 13}, ADDRESSES)
    assert "too many offsets" in caplog.text


def test_a_queue_without_an_address_is_left_out(brokers: FakeBrokers) -> None:
    GroupCommit("g", brokers).commit({A0: 1}, {})
    assert brokers.calls == []
