"""Protection of the page cache from slow consumers, by disabling their consumption.

With ``disableConsumeIfConsumerReadSlowly`` a group whose last pull of any queue lagged the log's end by more than
``consumerFallbehindThreshold`` bytes loses ``consumeEnable`` until an operator restores it.

Compatibility: ``BrokerController.protectBroker`` (4.9.8), every 3 minutes as there. Java uses the last pull however old
it is, and so disables a group again that has not pulled since it was enabled; here each pull counts only once.
"""

from __future__ import annotations

import logging

import trio

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.groups import SubscriptionGroupManager
from rocketpy.broker.monitoring.broker_stats_manager import BrokerStatsManager
from rocketpy.containment import Contained

PERIOD_SECONDS = 180.0

_log = logging.getLogger("rocketpy.broker.protection")


class SlowConsumerService:
    """One loop over the lag of the last pulls."""

    def __init__(
        self, *, config: BrokerConfig, stats: BrokerStatsManager, subscription_group_manager: SubscriptionGroupManager
    ) -> None:
        self._config = config
        self._stats = stats
        self._subscription_group_manager = subscription_group_manager
        self._judged: dict[str, int] = {}  # lag of pulls that were acted on, by queueId@topic@group

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Check every PERIOD_SECONDS until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(PERIOD_SECONDS)
            with Contained(_log, "a look for slow consumers"):
                self.protect()

    def protect(self) -> None:
        """Disable consumption for the groups whose lag exceeds the threshold."""
        if not self._config.disable_consume_if_consumer_read_slowly:
            return
        threshold = self._config.consumer_fallbehind_threshold
        slow = {key: lag for key, lag in self._stats.fall_bytes().items() if lag > threshold}
        for key, lag in slow.items():
            if self._judged.get(key) != lag:
                group = key.split("@", 2)[2]
                _log.warning(
                    "[PROTECT_BROKER] the consumer[%s] consume slowly, %d bytes, disable it (%s)", group, lag, key
                )
                self._subscription_group_manager.disable_consume(group)
        self._judged = slow
