"""Answers that list everything: the bytes of the generic encoder, others served in between, nothing beyond a frame."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rocketpy.protocol.codes import ResponseCode
from rocketpy.remoting.whole_answer import WholeAnswers
from tests.turns import counted_turns


class Peer:
    """A reader with room for so many bytes."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.room = room

    def has_room(self, size: int) -> bool:
        return size <= self.room


def table(count: int) -> TopicConfigSerializeWrapper:
    topics = (TopicConfig(f"T{number:040}", number, number) for number in range(count))
    return TopicConfigSerializeWrapper({each.topic_name: each for each in topics}, DataVersion(1, count))


async def test_others_run_while_a_table_is_encoded() -> None:
    body = table(2000)
    async with counted_turns() as turns:
        encoded = await WholeAnswers().encode(Peer(), "all topics", body)
    assert encoded == encode_body(body)
    assert turns.count >= 30


async def test_what_does_not_fit_a_frame_is_refused_before_it_is_encoded_whole() -> None:
    with pytest.raises(RequestError) as refused:
        await WholeAnswers(body_bytes_max=10_000).encode(Peer(), "all topics", table(1000))
    assert refused.value.response_code == ResponseCode.SYSTEM_ERROR
    assert refused.value.remark == (
        "the answer cannot be sent: all topics take more than the 10000 bytes that fit a frame"
    )


async def test_a_table_is_encoded_again_when_its_version_has_changed() -> None:
    answers, body, made = WholeAnswers(), table(10), []

    def current() -> TopicConfigSerializeWrapper:
        made.append(body)
        return body

    for _ in range(3):
        assert await answers.encode_table(Peer(), "all topics", lambda: body.data_version, current) == encode_body(body)
    assert len(made) == 1
    body = attrs.evolve(body, data_version=DataVersion(2, 11))
    assert await answers.encode_table(Peer(), "all topics", lambda: body.data_version, current) == encode_body(body)
    assert await answers.encode_table(Peer(), "all groups", lambda: body.data_version, current) == encode_body(body)
    assert len(made) == 3


async def test_nothing_is_made_for_a_reader_without_room() -> None:
    answers, body, made = WholeAnswers(), table(10), []

    def current() -> TopicConfigSerializeWrapper:
        made.append(body)
        return body

    for encode in (
        lambda: answers.encode(Peer(-1), "all topics", body),
        lambda: answers.encode_table(Peer(-1), "all topics", lambda: body.data_version, current),
    ):
        with pytest.raises(RequestError, match="too many answers wait") as refused:
            await encode()
        assert refused.value.response_code == ResponseCode.SYSTEM_BUSY
    assert not made


async def test_an_answer_that_is_there_already_is_refused_to_a_reader_without_room_for_it() -> None:
    answers, body = WholeAnswers(), table(10)
    encoded = await answers.encode_table(Peer(), "all topics", lambda: body.data_version, lambda: body)
    with pytest.raises(RequestError, match="too many answers wait"):
        await answers.encode_table(Peer(len(encoded) - 1), "all topics", lambda: body.data_version, lambda: body)
    again = await answers.encode_table(Peer(len(encoded)), "all topics", lambda: body.data_version, lambda: body)
    assert again is encoded


async def test_the_work_ends_when_its_reader_has_gone_and_another_reader_has_it_begin_again() -> None:
    answers, gone, taken = WholeAnswers(), Peer(), []

    def pieces() -> Iterator[bytes]:
        for number in range(1000):
            taken.append(number)
            if number == 120:
                gone.room = -1
            yield b"x"

    async def ask(peer: Peer) -> bytes:
        return await answers.join_table(peer, "all", lambda: 1, pieces)

    with pytest.raises(RequestError, match="too many answers wait"):
        await ask(gone)
    assert len(taken) == 150
    assert await ask(Peer()) == b"x" * 1000
    assert await ask(Peer()) == b"x" * 1000
    assert len(taken) == 1150
