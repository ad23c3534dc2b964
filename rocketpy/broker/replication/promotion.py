"""What becomes of a slave's consumer offsets when it starts as a master.

They were its master's, and may refer to messages that had not arrived. New messages get those queue offsets now, and a
group that begins past them would never read them. Rule: a master that was a slave sets offsets past the end of their
queue back to that end, as a pull from there is answered. The rest counts as revoked, so that no slave brings it back.

Compatibility: RocketMQ (4.9.8) leaves them; a consumer that comes later than the messages skips them.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketpy.broker.metadata.offset_resets import OffsetResets
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager, split_key
from rocketpy.protocol.topic_name import LMQ_PREFIX


def set_back_to_queues(
    offsets: ConsumerOffsetManager, resets: OffsetResets, max_offset_in_queue: Callable[[str, int], int]
) -> int:
    """Set offsets past the end of their queue back to it; return how many.

    Groups of light queues are left out: their one offset in a topic is of no queue.
    """
    count = 0
    for key, of_queues in list(offsets.offset_table.items()):
        topic, group = split_key(key)
        if group.startswith(LMQ_PREFIX):
            continue
        within: dict[int, int] = {}
        for queue_id, offset in of_queues.items():
            within[queue_id] = min(offset, max(0, max_offset_in_queue(topic, queue_id)))
            if within[queue_id] < offset:
                resets.changed(key, queue_id, offset, within[queue_id])
                count += 1
        if within != of_queues:
            offsets.replace(key, within)
    return count
