"""Groups: defaults and offsets."""

from __future__ import annotations

from rocketpy.protocol.bodies.codec import decode_body, encode_text
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig


def test_a_group_with_a_name_only_has_javas_defaults() -> None:
    assert decode_body('{"groupName":"G"}', SubscriptionGroupConfig) == SubscriptionGroupConfig("G")
    assert encode_text(SubscriptionGroupConfig("G")) == (
        '{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"groupName":"G",'
        '"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}'
    )
