"""Protects the page cache from groups that read far behind: switches their consuming off, where that is wanted.

With ``disableConsumeIfConsumerReadSlowly`` a group whose last pull of some queue was more than
``consumerFallbehindThreshold`` bytes behind the end of the log loses ``consumeEnable`` until an operator gives it back.

Compatibility: ``BrokerController.protectBroker`` (4.9.8), every 3 minutes as there. Java judges by the last pull
however old it is, and so takes ``consumeEnable`` again from a group that has not pulled since it got it back; here a
pull counts once.
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
    """One loop over how far behind groups read."""

    def __init__(
        self, *, config: BrokerConfig, stats: BrokerStatsManager, subscription_group_manager: SubscriptionGroupManager
    ) -> None:
        self._config = config
        self._stats = stats
        self._subscription_group_manager = subscription_group_manager
        self._judged: dict[str, int] = {}  # what was too far behind, by queueId@topic@group

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look every PERIOD_SECONDS until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(PERIOD_SECONDS)
            with Contained(_log, "a look for slow consumers"):
                self.protect()

    def protect(self) -> None:
        """Switch off the groups that are too far behind."""
        if not self._config.disable_consume_if_consumer_read_slowly:
            return
        threshold = self._config.consumer_fallbehind_threshold
        slow = {key: behind for key, behind in self._stats.fall_bytes().items() if behind > threshold}
        for key, behind in slow.items():
            if self._judged.get(key) != behind:
                group = key.split("@", 2)[2]
                _log.warning(
                    "[PROTECT_BROKER] the consumer[%s] consume slowly, %d bytes, disable it (%s)", group, behind, key
                )
                self._subscription_group_manager.disable_consume(group)
        self._judged = slow
