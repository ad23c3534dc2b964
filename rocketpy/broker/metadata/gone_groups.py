"""Removal of offsets of which nothing is left: the topic does not exist, nor has the group a configuration.

Light topics and groups (``%LMQ%``, with ``enableLmq``) have no configuration, so any name of them counts as known. Such
a topic has gone when it has no queue, whatever the group; such a group has gone with its topic.

A commit checks neither, so a consumer that closes after its group was deleted leaves its offsets again. Rule: a pair of
topic and group is removed when two rounds in a row, half an hour apart, found both gone and no offset changed between.
What was revoked of such a pair (:mod:`.offset_resets`) goes the same way, one round later or more.

Compatibility: RocketMQ (4.9.8) keeps such offsets, and writes them with every change of the table. Only a master
removes them here; a slave takes its master's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import trio

from rocketpy.broker.metadata.groups import SubscriptionGroupManager
from rocketpy.broker.metadata.offset_resets import OffsetResets
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager, split_key
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.containment import Contained
from rocketpy.log_files import event_fields
from rocketpy.protocol.topic_name import LMQ_PREFIX

PERIOD_SECONDS = 1800.0
PAIRS_PER_SLICE = 500

_log = logging.getLogger("rocketpy.broker")


class GoneGroupsService:
    """One loop over the pairs of topic and group that have offsets, or had."""

    def __init__(
        self,
        *,
        topics: TopicConfigManager,
        groups: SubscriptionGroupManager,
        offsets: ConsumerOffsetManager,
        resets: OffsetResets,
        enable_lmq: bool,
        max_offset: Callable[[str, int], int],
    ) -> None:
        """``max_offset`` returns the end of the queue of a topic, 0 where there is none."""
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._resets = resets
        self._enable_lmq = enable_lmq
        self._max_offset = max_offset
        # Found gone by the last round, with the offsets that they had.
        self._gone: dict[str, dict[int, int]] = {}
        self._gone_resets: dict[str, dict[int, int]] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look every PERIOD_SECONDS until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(PERIOD_SECONDS)
            with Contained(_log, "a look for offsets of topics and groups that have gone"):
                await self.look()

    async def look(self) -> None:
        """Remove what the last round found gone too; in bounded slices."""
        before, self._gone = self._gone, await self._find(self._offsets.offset_table)
        for key, offsets in self._gone.items():
            # Both may have come back while the round waited between its slices.
            if before.get(key) == offsets == self._offsets.offset_table.get(key) and self._is_gone(key):
                topic, group = split_key(key)
                self._offsets.remove_offset(group, topics=[topic])
                fields = event_fields(topic=topic, group=group)
                _log.info("offsets removed: topic and group have gone", extra=fields)
        before, self._gone_resets = self._gone_resets, await self._find(self._resets.table)
        for key, revoked in self._gone_resets.items():
            if before.get(key) == revoked == self._resets.table.get(key) and self._is_gone(key):
                self._resets.forget(key)

    async def _find(self, table: Mapping[str, Mapping[int, int]]) -> dict[str, dict[int, int]]:
        found: dict[str, dict[int, int]] = {}
        for number, key in enumerate(list(table)):
            if number % PAIRS_PER_SLICE == PAIRS_PER_SLICE - 1:
                await trio.lowlevel.checkpoint()
            if key in table and self._is_gone(key):
                found[key] = dict(table[key])
        return found

    def _is_gone(self, key: str) -> bool:
        topic, group = split_key(key)
        if self._is_light(topic):
            return self._max_offset(topic, 0) == 0
        return not self._topics.is_known(topic) and (self._is_light(group) or not self._groups.is_known(group))

    def _is_light(self, name: str) -> bool:
        return self._enable_lmq and name.startswith(LMQ_PREFIX)
