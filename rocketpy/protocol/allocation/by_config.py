"""A fixed list of queues, whoever else is in the group.

Compatibility: ``AllocateMessageQueueByConfig`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rocketpy.protocol.message import MessageQueue


@attrs.frozen
class AllocateByConfig:
    """The given queues, unchecked: that no other member has them is up to the configuration."""

    queues: Sequence[MessageQueue]
    name = "CONFIG"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the configured queues."""
        return list(self.queues)
