"""The way back for messages, without brokers."""

from __future__ import annotations

import trio

from rocketpy.client.consumer.send_back import SendBack
from rocketpy.protocol.message import MessageExt


class ScriptedSendBack(SendBack):
    """Notes what goes back; takes nothing while ``is_refusing``, and never answers for the message at ``hangs_at``."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []
        """Queue offset and delay level of each message."""
        self.copied: list[tuple[int, int]] = []
        """Queue offset and reconsume times of each copy."""
        self.is_refusing = False
        self.hangs_at: int | None = None

    async def send_back(self, message: MessageExt, delay_level: int = 0) -> bool:
        return await self._take(message, self.sent, delay_level)

    async def send_copy(self, message: MessageExt, *, reconsume_times: int) -> bool:
        return await self._take(message, self.copied, reconsume_times)

    async def _take(self, message: MessageExt, taken: list[tuple[int, int]], number: int) -> bool:
        if message.queue_offset == self.hangs_at:
            await trio.sleep_forever()
        if not self.is_refusing:
            taken.append((message.queue_offset, number))
        return not self.is_refusing
