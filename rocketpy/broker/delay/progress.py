"""Notes how far delayed messages are delivered, so that a start has little of the log to read again.

Rule: what the file says of the log must be on the disk before the file is. So the log is made durable up to the place
of the note, and then the note is written; a loss of power in between leaves the older note, which is right too.

Compatibility: ``ScheduleMessageService.persist`` (4.9.8), which writes offsets of messages that a loss of power may
still take back: they are lost then.
"""

from __future__ import annotations

import logging

import trio

from rocketpy.broker.delay.offsets import DelayOffsetManager, DelayProgress
from rocketpy.errors import ShortageError
from rocketpy.store.message_store import MessageStore

NOTE_AFTER_BYTES = 64 << 20
"""When the log has grown by so much it is noted although nothing was delivered: a bound on what a start reads."""

_log = logging.getLogger("rocketpy.broker")


class DelayProgressService:
    """Writes ``delayOffset.json`` for one ScheduleMessageService."""

    def __init__(self, *, store: MessageStore, offsets: DelayOffsetManager, flush_interval_ms: int) -> None:
        self._store = store
        self._offsets = offsets
        self._flush_interval_s = flush_interval_ms / 1000
        self._is_anchored = False  # this life has written the file: one that it found may not have reached the disk

    async def is_anchored(self) -> bool:
        """See to it that a durable file names a place in the log: only then does a start look for what came behind it.

        To be asked before the first delivery. False while there is no room for the file.
        """
        if self._is_anchored:
            return True
        before = self._offsets.noted
        place = self._store.durable_offset if before.physical_offset is None else before.physical_offset
        self._offsets.note(DelayProgress(before.offsets, place))
        self._offsets.stored.changed()
        self._is_anchored = await self._persist()
        if not self._is_anchored:
            self._offsets.note(before)
        return self._is_anchored

    async def run(self) -> None:
        """Note every interval what has changed, until cancelled."""
        while True:
            await trio.sleep(self._flush_interval_s)
            noted = self._offsets.noted
            if noted.physical_offset is None:
                continue  # nothing was delivered yet
            is_far_behind = self._store.wrote_offset - noted.physical_offset >= NOTE_AFTER_BYTES
            if self._offsets.offset_table != noted.offsets or is_far_behind:
                await self._note()

    async def finish(self) -> None:
        """Note how far everything is now, for whoever opens the store next, Java or us."""
        if self._offsets.offset_table or self._offsets.noted.physical_offset is not None:
            await self._note()

    async def _note(self) -> None:
        progress = DelayProgress(dict(self._offsets.offset_table), self._store.wrote_offset)
        await self._store.flush()
        self._offsets.note(progress)
        await self._persist()

    async def _persist(self) -> bool:
        """Write the file if it is old; False when there is no room for it."""
        try:
            await self._offsets.stored.persist()
        except ShortageError as failure:
            _log.error("%s", failure)
            return False
        return True
