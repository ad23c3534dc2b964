"""Watching the queues of a topic, in virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.consumer.lite_pull.queue_changes import QueueChanges
from rocketpy.errors import ClientError, LocalProtocolError, RemotingTimeoutError, RocketpyError
from rocketpy.protocol.message import MessageQueue

QUEUES = [MessageQueue("T", "b", each) for each in range(3)]


class NameServer:
    """Answers in turn; the last one again and again."""

    def __init__(self, *answers: list[MessageQueue] | RocketpyError) -> None:
        self.answers = list(answers)

    async def fetch(self, topic: str) -> list[MessageQueue]:
        assert topic == "T"
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, RocketpyError):
            raise answer
        return answer

    @property
    def changes(self) -> QueueChanges:
        return QueueChanges("T", fetch=self.fetch, interval_ms=30_000)


async def test_the_queues_come_at_once_and_then_when_they_have_changed(autojump_clock: MockClock) -> None:
    changes = NameServer(
        QUEUES[:1], QUEUES[:1], RemotingTimeoutError("late"), QUEUES, QUEUES[:2], QUEUES[:2], QUEUES
    ).changes
    begun = trio.current_time()
    found = []
    async for queues in changes:
        found.append((trio.current_time() - begun, queues))
        if len(found) == 4:
            break
    assert found == [
        (0, QUEUES[:1]),
        (pytest.approx(90), QUEUES),
        (pytest.approx(120), QUEUES[:2]),
        (pytest.approx(180), QUEUES),
    ]


async def test_the_first_failure_is_the_programs(autojump_clock: MockClock) -> None:
    changes = NameServer(ClientError(10005, "No route info of this topic: T"), QUEUES).changes
    with pytest.raises(ClientError, match="No route info"):
        await anext(changes)
    assert await anext(changes) == QUEUES


async def test_the_end_of_the_consumer_is_not_waited_out(autojump_clock: MockClock) -> None:
    changes = NameServer(QUEUES, LocalProtocolError("The consumer not running")).changes
    assert await anext(changes) == QUEUES
    with trio.fail_after(100), pytest.raises(LocalProtocolError):
        await anext(changes)
