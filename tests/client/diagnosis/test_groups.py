"""What makes a consumer group a finding."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.client.diagnosis.groups import STUCK_MS, GroupFacts, judge_group
from rocketpy.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from rocketpy.protocol.message import MessageQueue

NOW = 1_700_000_000_000
QUEUES = [MessageQueue("T", "a", number) for number in range(5)]


def progress(consumer_offset: int, *, last: int = 0, queues: int = 1) -> ConsumeStats:
    return ConsumeStats({queue: OffsetWrapper(10, consumer_offset, last) for queue in QUEUES[:queues]})


def checks(facts: GroupFacts) -> list[str]:
    return [each.check for each in judge_group(facts)]


BUSY = GroupFacts(group="g", client_ids=("c",), before=progress(4), after=progress(5), asked_timestamp_ms=NOW)


def test_a_group_that_goes_on_or_has_nothing_to_do() -> None:
    assert checks(BUSY) == []
    assert checks(attrs.evolve(BUSY, before=progress(10), after=progress(10))) == []
    assert checks(GroupFacts(group="g")) == []


def test_messages_that_wait_without_a_consumer() -> None:
    (found,) = judge_group(attrs.evolve(BUSY, client_ids=(), after=progress(4, queues=5)))
    assert (found.check, found.subject) == ("no-consumer", "group g")
    assert found.problem.startswith("30 messages wait in T a:0, T a:1, T a:2 and 2 more queues, and no consumer")
    assert checks(attrs.evolve(BUSY, client_ids=None)) == [], "it is not known who is online"


@pytest.mark.parametrize(
    ("before", "last", "expected"),
    [
        (5, NOW - STUCK_MS, ["stuck-queue"]),
        (5, NOW - STUCK_MS + 1, []),
        (5, 0, ["stuck-queue"]),
        (4, 0, []),
    ],
)
def test_a_queue_is_stuck_when_its_offset_does_not_move_for_a_minute(
    before: int, last: int, expected: list[str]
) -> None:
    assert checks(attrs.evolve(BUSY, before=progress(before), after=progress(5, last=last))) == expected


def test_a_queue_that_was_not_there_before_is_not_stuck_yet() -> None:
    assert checks(attrs.evolve(BUSY, before=ConsumeStats(), after=progress(5))) == []


def test_the_offsets_of_a_broadcast_say_nothing() -> None:
    assert checks(attrs.evolve(BUSY, client_ids=(), message_model="BROADCASTING")) == []


def test_consumers_that_do_not_subscribe_to_the_same() -> None:
    one, other = frozenset({("T", "a"), ("U", "*")}), frozenset({("T", "b")})
    assert checks(attrs.evolve(BUSY, subscriptions={"c1": one, "c2": one})) == []
    (found,) = judge_group(attrs.evolve(BUSY, subscriptions={"c1": one, "c2": other}))
    assert found.check == "inconsistent-subscriptions"
    assert "c1 to T (a), U (*); c2 to T (b)" in found.problem
