"""Equal shares: consecutive queues for each client (the default), or every n-th queue.

Compatibility: ``AllocateMessageQueueAveragely`` and ``AllocateMessageQueueAveragelyByCircle`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketpy.protocol.allocation.strategy import is_member
from rocketpy.protocol.message import MessageQueue


class AllocateAveragely:
    """Consecutive queues; where they do not divide evenly, the first clients have one more."""

    name = "AVG"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of one client."""
        if not is_member(client_id, queues, client_ids):
            return []
        size, longer = divmod(len(queues), len(client_ids))
        index = client_ids.index(client_id)
        begin = index * size + min(index, longer)
        return list(queues[begin : begin + size + (index < longer)])


class AllocateByCircle:
    """The queues are dealt like cards: client ``i`` of ``n`` gets the queues ``i``, ``i + n``, ``i + 2n`` ..."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of one client."""
        if not is_member(client_id, queues, client_ids):
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])
