"""Members of a group with different subscriptions: one log line per change, and a metric."""

from __future__ import annotations

import logging

import pytest

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.broker.clients.subscription_consistency import SubscriptionWatch
from rocketpy.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from rocketpy.protocol.codes import LanguageCode


class Peer:
    """A fake connection: none of its methods is used."""


class Group:
    """A group whose members heartbeat when a test calls for it."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.watch = SubscriptionWatch()
        self.peers: dict[str, Peer] = {}
        self._caplog = caplog
        caplog.set_level(logging.INFO, "rocketpy.broker")

    def heartbeat(self, client_id: str, *subscriptions: SubscriptionData, model: str = "CLUSTERING") -> list[str]:
        """Return the lines that were written."""
        self._caplog.clear()
        peer = self.peers.setdefault(client_id, Peer())
        client = ClientChannelInfo(peer, client_id, LanguageCode.JAVA, 409, 0.0)  # type: ignore[arg-type]
        self.watch.update(client, ConsumerData("G", message_model=model, subscription_data_set=list(subscriptions)))
        return self._lines()

    def leave(self, client_id: str) -> list[str]:
        self._caplog.clear()
        self.watch.left("G", self.peers.pop(client_id))  # type: ignore[arg-type]
        return self._lines()

    def _lines(self) -> list[str]:
        """Each line's text, and what it says of client and other client."""
        lines = []
        for record in self._caplog.records:
            fields = record.__dict__["fields"]
            assert fields["group"] == "G"
            shown = "".join(f"; {name}={fields[name]}" for name in fields if name != "group")
            lines.append(record.getMessage() + shown)
        return lines

    @property
    def count(self) -> str:
        return self.watch.runtime_info()["inconsistentSubscriptionGroups"]


@pytest.fixture
def group(caplog: pytest.LogCaptureFixture) -> Group:
    return Group(caplog)


A1, A2, B = SubscriptionData("T", "x", 1), SubscriptionData("T", "x", 2), SubscriptionData("U", "*", 1)
SQL = SubscriptionData("T", "x", 1, expression_type="SQL92")
RETRY = SubscriptionData("%RETRY%G", "*", 1)


def test_a_group_of_one_mind_is_not_worth_a_line(group: Group) -> None:
    assert group.heartbeat("c1", A1, B, RETRY) == []
    assert group.heartbeat("c2", B, A2) == [], "neither order nor version nor the retry topic matters"
    assert group.count == "0"


def test_members_that_differ_are_named_once_with_what_they_want(group: Group) -> None:
    group.heartbeat("c1", A1)
    (line,) = group.heartbeat("c2", A1, B)
    assert line == (
        "members of a group have different subscriptions; client=c2; wants=T: x, U: * (CLUSTERING); "
        "other=c1; otherWants=T: x (CLUSTERING)"
    )
    assert group.heartbeat("c2", A1, B) == []
    assert group.heartbeat("c1", A1) == []
    assert (group.count, group.watch.inconsistent_groups) == ("1", ("G",))


@pytest.mark.parametrize(
    ("other", "shown"), [(SQL, "T: SQL92 x"), (SubscriptionData("T", "y", 1), "T: y"), (B, "U: *")]
)
def test_expression_type_and_topic_count(group: Group, other: SubscriptionData, shown: str) -> None:
    group.heartbeat("c1", A1)
    (line,) = group.heartbeat("c2", other)
    assert f"client=c2; wants={shown} (" in line


def test_the_message_model_counts(group: Group) -> None:
    group.heartbeat("c1", A1)
    (line,) = group.heartbeat("c2", A1, model="BROADCASTING")
    assert "client=c2; wants=T: x (BROADCASTING); other=c1; otherWants=T: x (CLUSTERING)" in line


def test_every_change_is_a_line(group: Group) -> None:
    group.heartbeat("c1", A1)
    assert len(group.heartbeat("c2", B)) == 1
    assert len(group.heartbeat("c2", SQL)) == 1
    assert group.heartbeat("c2", A1) == ["members of a group have equal subscriptions again"]
    assert group.count == "0"
    assert len(group.heartbeat("c2", B)) == 1


def test_a_member_that_leaves_takes_the_disagreement_along(group: Group) -> None:
    group.heartbeat("c1", A1)
    group.heartbeat("c2", A1)
    group.heartbeat("c3", B)
    group.heartbeat("c4", SQL)
    assert group.leave("c3") == []
    assert group.count == "1"
    assert group.leave("c4") == ["members of a group have equal subscriptions again"]
    assert group.count == "0"


def test_a_group_that_is_gone_is_forgotten(group: Group) -> None:
    group.heartbeat("c1", A1)
    group.heartbeat("c2", B)
    group.leave("c1")
    group.leave("c2")
    assert group.count == "0"
    group.watch.left("G", Peer())  # type: ignore[arg-type]
    assert group.heartbeat("c3", B) == []


def test_long_subscriptions_are_shortened(group: Group) -> None:
    group.heartbeat("c1", A1)
    (line,) = group.heartbeat("c2", SubscriptionData("T", "y" * 100_000, 1))
    assert len(line) < 1000


def test_a_member_that_subscribes_to_nothing(group: Group) -> None:
    group.heartbeat("c1", A1)
    (line,) = group.heartbeat("c2")
    assert "wants=nothing" in line
