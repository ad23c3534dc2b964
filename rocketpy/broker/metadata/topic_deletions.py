"""Deletes topics: on a master by request, on a slave because its master has, and at a start what is left of it.

A deletion takes the queues, the offsets of all groups in them, and a record of it (:mod:`.deleted_topics`); the topic's
settings are the caller's. Messages stay in the log until their files expire, where no queue leads to them.

Compatibility: RocketMQ (4.9.8) deletes queues on the master, and leaves the offsets: groups of a topic that is made
again silently miss its first messages (rocketmq#4774). A promoted slave has the messages again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Set

import trio

from rocketpy.broker.metadata.deleted_topics import DeletedTopics
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.log_files import event_fields
from rocketpy.store.ha.log_mark import LogMark
from rocketpy.store.message_store import MessageStore

TOPICS_PER_TURN = 500
"""Deletions of a master's answer that are taken before other requests are served."""

_LINES_MAX = 100
"""Lines of the log about one answer; then their number."""

_log = logging.getLogger("rocketpy.broker")


class TopicDeletions:
    """Deletions in one open store."""

    def __init__(self, *, deleted: DeletedTopics, offsets: ConsumerOffsetManager, store: MessageStore) -> None:
        self.deleted = deleted
        self._offsets = offsets
        self._store = store

    # ---- by request -----------------------------------------------------------------------------------------------

    async def delete(self, topic: str) -> None:
        """Delete a topic's queues and offsets now, and note it. The caller persists :attr:`stored`."""
        self._store.delete_topic_queues(topic)
        await self._note([topic])

    async def delete_unused(self, topics_in_use: Set[str]) -> None:
        """Delete the queues of all topics but those in use, and note it. The caller persists :attr:`stored`."""
        await self._note(list(await self._store.clean_unused_topics(topics_in_use)))

    @property
    def stored(self) -> tuple[StoredTable, ...]:
        """What to persist, in this order: a deletion that is on disk has none of the offsets before it beside it."""
        return self._offsets.stored, self.deleted.stored

    async def _persist(self) -> None:
        for table in self.stored:
            await table.persist()

    async def _note(self, topics: list[str]) -> None:
        with self.deleted.begun(topics):  # from now on neither late commits nor messages that were delayed are taken
            for topic in topics:
                self._offsets.remove_topic(topic)
            mark = await self._store.log_marks.now()
            for topic in topics:
                self.deleted.add(topic, mark)
        await self._forget_expired()

    async def _forget_expired(self) -> None:
        expired = self.deleted.expired(self._store.min_physical_offset)
        if not expired:
            return
        await self._store.sync_removed_queues(expired)
        for topic, mark in expired.items():
            if self.deleted.mark_of(topic) == mark:  # it may have been made and deleted again meanwhile
                self.deleted.drop(topic)

    # ---- from a master --------------------------------------------------------------------------------------------

    async def take(self, deletions: Mapping[str, LogMark]) -> int:
        """Delete what the master has deleted, as far as this log has it; return how many deletions were new.

        The log must be a beginning of the master's, or go on after its end. What arrives later of the records that a
        deletion means is deleted by the next call; until then, and if the broker is promoted before, by the start.
        """
        new = [
            (topic, mark)
            for topic, mark in deletions.items()
            if (known := self.deleted.mark_of(topic)) is None or known.offset < mark.offset
        ]
        for number, (topic, mark) in enumerate(new, 1):
            self._offsets.remove_topic(topic)
            self.deleted.add(topic, mark)
            self.deleted.unfinished.add(topic)
            if number <= _LINES_MAX:
                _log.info("topic deleted as on the master", extra=event_fields(topic=topic, offset=mark.offset))
            if number % TOPICS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
        if len(new) > _LINES_MAX:
            _log.info("topics deleted as on the master", extra=event_fields(topics=len(new)))
        for number, topic in enumerate(sorted(self.deleted.unfinished), 1):
            if number % TOPICS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            mark_of_topic = self.deleted.mark_of(topic)
            end = self._store.max_physical_offset
            if mark_of_topic is not None:
                await self._store.delete_topic_before(topic, min(mark_of_topic.offset, end))
            if mark_of_topic is None or mark_of_topic.offset <= end:
                self.deleted.unfinished.discard(topic)
        if new:
            await self._forget_expired()
            await self._persist()
        return len(new)

    # ---- at a start -----------------------------------------------------------------------------------------------

    async def carry_out(self, *, waits_for_records: bool) -> None:
        """Delete what is left of deleted topics: what an earlier life has not deleted, or not durably.

        A deletion past the end of the log has lost its record, with a tail that was cut or lost; then all the topic's
        records are before it. On a slave they may still be coming (``waits_for_records``).
        """
        store, marks = self._store, [mark for _, mark in self.deleted]
        if not marks:
            return
        end = store.max_physical_offset
        latest = await store.log_marks.latest(marks)
        for topic, mark in self.deleted:
            if mark.offset <= latest.offset:
                await store.delete_topic_before(topic, mark.offset)
            elif mark.offset <= end:
                fields = event_fields(topic=topic, offset=mark.offset, end=end)
                _log.warning("a deletion of a topic is not of this log, and is forgotten", extra=fields)
                self.deleted.drop(topic)
            elif waits_for_records:
                self.deleted.unfinished.add(topic)
            elif end:
                await store.delete_topic_before(topic, end)
                self.deleted.add(topic, await store.log_marks.now())
            else:
                self.deleted.drop(topic)
        await self._forget_expired()
        await self._persist()
