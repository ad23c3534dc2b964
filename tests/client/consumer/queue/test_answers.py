"""Answers to pulls: what is taken, in part or whole, and what is refused; bad answers in full are in ``hostile``."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.client.consumer.queue import answers
from rocketpy.client.consumer.queue.answers import read_pull_answer
from rocketpy.client.consumer.queue.pull_plan import PullRequest
from rocketpy.client.results import PullStatus
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.selector.tag import parse_tag_expression
from rocketpy.protocol.stored_message import encode_message

PULL = PullRequest(
    queue=MessageQueue("T", "a", 3),
    queue_offset=10,
    subscription=parse_tag_expression("T", "*"),
    sys_flag=0,
    max_msg_nums=4,
    suspend_ms=0,
    timeout_s=1.0,
)


def answer(*offsets: int, code: int = 0, following: int = 20, highest: int = 30) -> RemotingCommand:
    records = [
        MessageExt(topic="T", body=b"x" * 50, properties={"TAGS": str(offset)}, queue_id=3, queue_offset=offset)
        for offset in offsets
    ]
    fields = {"nextBeginOffset": following, "minOffset": 0, "maxOffset": highest, "suggestWhichBrokerId": 1}
    return RemotingCommand(
        code,
        ext_fields={name: str(value) for name, value in fields.items()},
        body=b"".join(map(encode_message, records)),
    )


def offsets_in(response: RemotingCommand, pull: PullRequest = PULL) -> tuple[list[int], int]:
    result = read_pull_answer(response, pull)
    return [each.queue_offset for each in result.messages], result.next_begin_offset


def test_an_answer_is_taken_as_it_is() -> None:
    result = read_pull_answer(answer(10, 12), PULL)
    assert result.status is PullStatus.FOUND
    assert [(each.queue_offset, each.broker_name) for each in result.messages] == [(10, "a"), (12, "a")]
    bounds = (result.next_begin_offset, result.min_offset, result.max_offset, result.suggest_which_broker_id)
    assert bounds == (20, 0, 30, 1)


def test_tags_are_compared_again() -> None:
    wanted = attrs.evolve(PULL, subscription=parse_tag_expression("T", "12 || 13"))
    assert offsets_in(answer(10, 12), wanted) == ([12], 20)


def test_of_more_messages_than_asked_for_the_first_ones_are_taken() -> None:
    assert offsets_in(answer(10, 11, 13, 15, 16)) == ([10, 11, 13, 15], 16)


def test_of_too_many_bytes_the_first_messages_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "BODIES_SIZE_MAX", 60)
    assert offsets_in(answer(10, 12, 13)) == ([10, 12], 13)
    monkeypatch.setattr(answers, "BODIES_SIZE_MAX", 0)
    assert offsets_in(answer(10, 12, 13)) == ([10], 11), "one at least, however long it is"


@pytest.mark.parametrize("offsets", [(9,), (20,), (11, 11), (12, 11)])
def test_offsets_outside_what_was_asked_are_refused(offsets: tuple[int, ...]) -> None:
    with pytest.raises(RemoteProtocolError, match=r"pull of queue 3 of T at a from 10 on: expected an offset from"):
        read_pull_answer(answer(*offsets), PULL)


def test_messages_that_were_stored_while_a_broker_read_are_taken() -> None:
    """It has looked up the end of the queue before. What a filter left out past that end is pulled again."""
    assert offsets_in(answer(10, 11, highest=11, following=12)) == ([10, 11], 12)
    filtered = attrs.evolve(PULL, subscription=parse_tag_expression("T", "10 || 11"))
    assert offsets_in(answer(10, 11, highest=11, following=14), filtered) == ([10, 11], 12)
    with pytest.raises(RemoteProtocolError, match="found 13"):
        read_pull_answer(answer(10, 11, highest=11, following=13), PULL)


@pytest.mark.parametrize(
    ("code", "following", "is_taken"),
    [
        (ResponseCode.SUCCESS, 9, False),
        (ResponseCode.SUCCESS, 31, False),
        (ResponseCode.PULL_NOT_FOUND, 10, True),
        (ResponseCode.PULL_NOT_FOUND, 9, False),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, 300_000, True),
        (ResponseCode.PULL_OFFSET_MOVED, 0, True),
        (ResponseCode.PULL_OFFSET_MOVED, -1, False),
        (ResponseCode.PULL_OFFSET_MOVED, 31, False),
    ],
)
def test_the_next_offset_has_bounds(code: ResponseCode, following: int, is_taken: bool) -> None:
    """Where nothing is found, Java's brokers may skip past the end of a queue."""
    response = answer(code=code, following=following)
    if is_taken:
        assert offsets_in(response) == ([], following)
    else:
        with pytest.raises(RemoteProtocolError, match=f"found {following}"):
            read_pull_answer(response, PULL)


def test_a_slave_that_lags_answers_with_the_offset_that_was_asked_for() -> None:
    assert offsets_in(answer(code=ResponseCode.PULL_RETRY_IMMEDIATELY, following=10, highest=5)) == ([], 10)
