"""The defaults of lite pull consumers are RocketMQ's, and what cannot be meant is refused."""

from __future__ import annotations

import pytest

from rocketpy.client.consumer.lite_pull.config import LitePullConfig, lite_flow_limits, lite_pull_plan
from rocketpy.client.consumer.queue.flow_limits import FlowLimits
from rocketpy.client.consumer.queue.pull_plan import PullPlan
from rocketpy.errors import ClientError
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere, MessageModel


def test_the_defaults_are_those_of_java() -> None:
    config = LitePullConfig()
    assert (config.auto_commit, config.auto_commit_interval, config.poll_timeout) == (True, 5_000, 5_000)
    assert (config.pull_threshold_for_all, config.topic_metadata_check_interval) == (10_000, 30_000)
    assert lite_flow_limits(config) == FlowLimits(1000, 100, 2000)
    assert lite_pull_plan(config) == PullPlan(
        max_msg_nums=10, suspend_ms=20_000, timeout_s=30, commits=False, sends_subscription=True, is_lite=True
    )
    assert config.consume_from_where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    assert config.allocate_message_queue_strategy.name == "AVG"
    assert not config.is_broadcasting
    assert LitePullConfig(message_model=MessageModel.BROADCASTING).is_broadcasting


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"auto_commit_interval": 999}, r"autoCommitIntervalMillis Out of range \[1000, \d+\], found 999"),
        ({"pull_threshold_for_all": 0}, "pullThresholdForAll Out of range"),
        ({"poll_timeout": -1}, "pollTimeoutMillis Out of range"),
        (
            {"consume_from_where": ConsumeFromWhere.CONSUME_FROM_MAX_OFFSET},
            "Invalid ConsumeFromWhere Value: CONSUME_FROM_MAX_OFFSET",
        ),
        (
            {"broker_suspend_max_time": 30_001},
            "consumerTimeoutMillisWhenSuspend must greater than brokerSuspendMaxTimeMillis: found 30000 and 30001",
        ),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ClientError, match=text):
        LitePullConfig(**settings)  # type: ignore[arg-type]
