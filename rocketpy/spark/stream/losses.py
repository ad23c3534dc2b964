"""Messages that a stream should read and that the brokers no longer have.

Two things happen to a queue under a stream. Its oldest messages expire before they are read; or its end is before the
position of the stream, because the topic was deleted and created again, or a crash lost the end of the log. Either is
an error that names queue and offsets (``failOnDataLoss=true``), or a warning that says the same, and the stream
continues at the nearest offset that exists. Messages of a new topic of the same name get offsets that the stream has
passed; only those from the broker's end on are read.

A slave whose queue ends before the position has only not followed so far: that is no loss.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.cluster import QueueBounds
from rocketpy.spark.live.positions import name_of


@attrs.frozen
class Loss:
    """A position that does not exist any more, and the offset at which the queue continues."""

    queue: MessageQueue
    position: int
    bounds: QueueBounds
    continues_at: int

    def __str__(self) -> str:
        """Say what is lost, without a remedy."""
        queue = name_of(self.queue)
        if self.position < self.bounds.earliest:
            return (
                f"{queue}: offsets {self.position} to {self.continues_at - 1} were deleted before they were read, "
                f"the broker has {self.bounds.earliest} to {self.bounds.latest - 1}"
                if self.bounds.earliest < self.bounds.latest
                else f"{queue}: offsets {self.position} to {self.continues_at - 1} were deleted before they were read, "
                "the broker has none"
            )
        return (
            f"{queue}: the stream has read up to offset {self.position}, the broker's queue ends at "
            f"{self.bounds.latest}: the topic was deleted and created again, or the broker has lost the end of its log"
        )


def find_losses(positions: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, QueueBounds]) -> list[Loss]:
    """Return the losses among queues whose position and bounds are both known, sorted by queue."""
    losses = []
    for queue, position in sorted(positions.items()):
        found = bounds.get(queue)
        if found is None:
            continue
        if position > found.latest:
            if found.is_of_slave:
                continue
            losses.append(Loss(queue, position, found, found.latest))
        elif position < found.earliest:
            losses.append(Loss(queue, position, found, found.earliest))
    return losses
