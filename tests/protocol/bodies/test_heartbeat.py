"""Heartbeats of sloppy clients."""

from __future__ import annotations

import pytest

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.codec import decode_body, encode_text
from rocketpy.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    ProducerData,
    SubscriptionData,
)


def test_a_heartbeat_may_spell_the_client_id_as_everything_else_does() -> None:
    assert decode_body('{"clientId":"c"}', HeartbeatData) == HeartbeatData("c")
    assert encode_text(HeartbeatData("c")) == '{"clientID":"c","consumerDataSet":[],"producerDataSet":[]}'


def test_a_heartbeat_without_a_client_id_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match=r"HeartbeatData\.clientID: expected a value, found nothing"):
        decode_body("{}", HeartbeatData)


def test_modes_are_read_by_name_and_by_ordinal() -> None:
    text = (
        '{"clientID":"c","producerDataSet":[{"groupName":"P"}],"consumerDataSet":[{"groupName":"C","consumeType":0,'
        '"messageModel":"broadcasting","consumeFromWhere":4,"subscriptionDataSet":[{"topic":"T","subVersion":"5"}]}]}'
    )
    assert decode_body(text, HeartbeatData) == HeartbeatData(
        "c",
        [ProducerData("P")],
        [
            ConsumerData(
                "C",
                ConsumeType.CONSUME_ACTIVELY,
                MessageModel.BROADCASTING,
                ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
                [SubscriptionData("T", sub_version=5)],
            )
        ],
    )


def test_a_mode_that_is_missing_or_unknown_is_the_usual_one() -> None:
    assert decode_body('{"groupName":"C","consumeType":"CONSUME_SIDEWAYS"}', ConsumerData) == ConsumerData(
        "C", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET"
    )
