"""The defaults of consumers are RocketMQ's."""

from __future__ import annotations

from rocketpy.client.consumer.config import PullConfig


def test_the_defaults_are_rocketmqs() -> None:
    assert PullConfig().consumer_pull_timeout == 10_000
