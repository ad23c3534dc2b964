"""Answers that list everything: the bytes of the generic encoder, others served in between, nothing beyond a frame."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.broker.admin.whole_answer import WholeAnswers
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rocketpy.protocol.codes import ResponseCode
from tests.turns import counted_turns


def table(count: int) -> TopicConfigSerializeWrapper:
    topics = (TopicConfig(f"T{number:040}", number, number) for number in range(count))
    return TopicConfigSerializeWrapper({each.topic_name: each for each in topics}, DataVersion(1, count))


async def test_others_run_while_a_table_is_encoded() -> None:
    body = table(2000)
    async with counted_turns() as turns:
        encoded = await WholeAnswers().encode("all topics", body)
    assert encoded == encode_body(body)
    assert turns.count >= 30


async def test_what_does_not_fit_a_frame_is_refused_before_it_is_encoded_whole() -> None:
    with pytest.raises(RequestError) as refused:
        await WholeAnswers(body_bytes_max=10_000).encode("all topics", table(1000))
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
        assert await answers.encode_table("all topics", lambda: body.data_version, current) == encode_body(body)
    assert len(made) == 1
    body = attrs.evolve(body, data_version=DataVersion(2, 11))
    assert await answers.encode_table("all topics", lambda: body.data_version, current) == encode_body(body)
    assert await answers.encode_table("all groups", lambda: body.data_version, current) == encode_body(body)
    assert len(made) == 3
