"""What is short is read on the loop, what is long beside it, one at a time; errors name the peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.answers import Answers
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.route import TopicList
from rocketpy.protocol.command import RemotingCommand
from rocketpy.runner import ON_LOOP_BYTES_MAX

T = TypeVar("T")


class Workers:
    """Workers that take a second for each call."""

    def __init__(self) -> None:
        self.running = 0
        self.running_max = 0
        self.called = 0

    async def __call__(self, function: Callable[..., T], /, *arguments: object) -> T:
        self.called += 1
        self.running += 1
        self.running_max = max(self.running_max, self.running)
        await trio.sleep(1)
        self.running -= 1
        return function(*arguments)


@pytest.mark.parametrize(("size", "called"), [(ON_LOOP_BYTES_MAX, 0), (ON_LOOP_BYTES_MAX + 1, 1)])
async def test_what_is_long_is_read_by_a_worker(autojump_clock: MockClock, size: int, called: int) -> None:
    workers = Workers()
    body = b'{"topicList":["a"]}'
    found = await Answers(workers).body(RemotingCommand(0, body=body + b" " * (size - len(body))), TopicList)
    assert list(found.topic_list) == ["a"]
    assert workers.called == called


async def test_one_worker_reads_at_a_time(autojump_clock: MockClock) -> None:
    workers = Workers()
    answers = Answers(workers)
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(answers.decoded, bytes(ON_LOOP_BYTES_MAX + 1), len)
    assert (workers.called, workers.running_max) == (5, 1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "10.0.0.1:10911: TopicList: expected a body, found none"),
        (b"[]", "10.0.0.1:10911: TopicList: expected an object, found []"),
        (
            b'{"topicList":[' + b"[]," * 500_001 + b"[]]}",
            "10.0.0.1:10911: JSON: expected at most 500000 arrays and obj",
        ),
    ],
    ids=["none", "another", "too many values"],
)
async def test_what_cannot_be_read_names_the_peer(autojump_clock: MockClock, body: bytes, message: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        await Answers(Workers()).body(RemotingCommand(0, body=body), TopicList, "10.0.0.1:10911")
    assert str(caught.value).startswith(message)
