"""The way back for messages, without brokers."""

from __future__ import annotations

from rocketpy.client.consumer.send_back import SendBack
from rocketpy.protocol.message import MessageExt


class ScriptedSendBack(SendBack):
    """Notes what goes back; takes nothing while ``is_refusing``."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []
        """Queue offset and delay level of each message."""
        self.copied: list[tuple[int, int]] = []
        """Queue offset and reconsume times of each copy."""
        self.is_refusing = False

    async def send_back(self, message: MessageExt, delay_level: int = 0) -> bool:
        if not self.is_refusing:
            self.sent.append((message.queue_offset, delay_level))
        return not self.is_refusing

    async def send_copy(self, message: MessageExt, *, reconsume_times: int) -> bool:
        if not self.is_refusing:
            self.copied.append((message.queue_offset, reconsume_times))
        return not self.is_refusing
