"""Consistent hashing: few queues change hands when a member joins or leaves.

A place on the ring is the first four bytes of an MD5, unsigned and big-endian; a queue is hashed by its Java
``toString``.

Compatibility: ``AllocateMessageQueueConsistentHash`` and ``ConsistentHashRouter`` (4.9.8).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Sequence

import attrs

from rocketpy.protocol.allocation.strategy import is_member
from rocketpy.protocol.message import MessageQueue

VIRTUAL_NODE_COUNT = 10


def md5_position(key: str) -> int:
    """Return the place of a key on the ring."""
    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest()[:4])


def _not_negative(instance: object, attribute: object, value: int) -> None:
    if value < 0:
        raise ValueError(f"illegal virtualNodeCnt :{value}")


@attrs.frozen
class AllocateConsistentHash:
    """Each client has some virtual nodes on a ring; a queue belongs to the first node at or after its own place."""

    virtual_node_count: int = attrs.field(default=VIRTUAL_NODE_COUNT, validator=_not_negative)
    position_of: Callable[[str], int] = md5_position
    name = "CONSISTENT_HASH"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of one client."""
        if not is_member(client_id, queues, client_ids):
            return []
        # Of two nodes at one place the later one is there, as in a map.
        ring = {
            self.position_of(f"{each}-{number}"): each
            for each in client_ids
            for number in range(self.virtual_node_count)
        }
        positions = sorted(ring)
        if not positions:
            return []
        return [queue for queue in queues if ring[self._node(positions, queue)] == client_id]

    def _node(self, positions: Sequence[int], queue: MessageQueue) -> int:
        text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
        return positions[bisect_left(positions, self.position_of(text)) % len(positions)]
