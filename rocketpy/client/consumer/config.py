"""Settings of consumers, with RocketMQ's defaults.

Compatibility: ``DefaultMQPullConsumer`` (4.9.8).
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class PullConfig:
    """Settings of a pull consumer. Times in milliseconds."""

    consumer_pull_timeout: int = 10_000
    """How long an answer may take, on top of the time for which the broker may hold the pull."""
