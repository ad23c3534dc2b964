"""Persists the progress of delayed deliveries, which bounds how much of the log a start reads.

Rule: write-ahead. The log is made durable up to the physical offset of a snapshot before the snapshot is written. A
power failure in between leaves the older snapshot, which is valid too.

Compatibility: ``ScheduleMessageService.persist`` (4.9.8) writes offsets of deliveries that a power failure may still
undo; those messages are then lost.
"""

from __future__ import annotations

import logging

import trio

from rocketpy.broker.delay.offsets import DelayOffsetManager, DelayProgress
from rocketpy.errors import ShortageError
from rocketpy.store.message_store import MessageStore

NOTE_AFTER_BYTES = 64 << 20
"""Growth of the log after which progress is written even without deliveries: bounds what a start reads."""

_log = logging.getLogger("rocketpy.broker")


class DelayProgressService:
    """Writer of ``delayOffset.json`` for one ScheduleMessageService."""

    def __init__(self, *, store: MessageStore, offsets: DelayOffsetManager, flush_interval_ms: int) -> None:
        self._store = store
        self._offsets = offsets
        self._flush_interval_s = flush_interval_ms / 1000
        self._is_anchored = False  # this process has written the file: an older one may not be durable

    async def is_anchored(self) -> bool:
        """Ensure that a durable file has a physical offset: without one a start searches all since the oldest message.

        Must be called before the first delivery. False while there is no space for the file.
        """
        if self._is_anchored:
            return True
        before = self._offsets.noted
        physical_offset = before.physical_offset
        if physical_offset is None:
            physical_offset = self._store.durable_offset
        self._offsets.note(DelayProgress(before.offsets, physical_offset))
        self._offsets.stored.changed()
        self._is_anchored = await self._persist()
        if not self._is_anchored:
            self._offsets.note(before)
        return self._is_anchored

    async def run(self) -> None:
        """Persist progress every interval if it has changed, until cancelled."""
        while True:
            await trio.sleep(self._flush_interval_s)
            noted = self._offsets.noted
            if noted.physical_offset is None:
                continue  # nothing was delivered yet
            is_outdated = self._store.wrote_offset - noted.physical_offset >= NOTE_AFTER_BYTES
            if self._offsets.offset_table != noted.offsets or is_outdated:
                await self._note()

    async def finish(self) -> None:
        """Persist the final progress, for the next start of this broker or of Java's."""
        if self._offsets.offset_table or self._offsets.noted.physical_offset is not None:
            await self._note()

    async def _note(self) -> None:
        progress = DelayProgress(dict(self._offsets.offset_table), self._store.wrote_offset)
        await self._store.flush()
        self._offsets.note(progress)
        await self._persist()

    async def _persist(self) -> bool:
        """Write the file if it is outdated; False when there is no space for it."""
        try:
            await self._offsets.stored.persist()
        except ShortageError as failure:
            _log.error("%s", failure)
            return False
        return True
