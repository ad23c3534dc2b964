"""Interface of the strategies that divide the queues of a topic among the members of a consumer group.

Every member computes its own share from the same two sorted lists, so the members need not talk to each other. Rule: a
strategy is a pure function of its arguments, and the shares of all members are disjoint.

Compatibility: ``AllocateMessageQueueStrategy`` and ``AbstractAllocateMessageQueueStrategy`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rocketpy.protocol.message import MessageQueue


class AllocateMessageQueueStrategy(Protocol):
    """Divides queues among client ids; both are passed sorted."""

    @property
    def name(self) -> str:
        """The name of the strategy in RocketMQ."""
        ...

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of one client; none when it is not among ``client_ids``. ValueError for an empty input."""
        ...


def is_member(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> bool:
    """Return whether the client takes part; ValueError with RocketMQ's text for an empty input."""
    if not client_id:
        raise ValueError("currentCID is empty")
    if not queues:
        raise ValueError("mqAll is null or mqAll empty")
    if not client_ids:
        raise ValueError("cidAll is null or cidAll empty")
    return client_id in client_ids
