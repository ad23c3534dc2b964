"""What becomes of a slave's tables when it starts as a master, and of those of a log whose tail was cut.

Consumer offsets may be past the end of their queue: those that clients have committed to a slave, and those of messages
that were cut. New messages get these queue offsets now, and a group that begins past them would never read them. Rule:
they are set back to that end, as a pull from there is answered. No slave brings them back: it does so only while its
log is a beginning of this one, and what it has then is of messages that are there.

What stands for a place in the log that was cut, or that is not there (:mod:`rocketpy.broker.metadata.table_marks`), is
forgotten: how far transactions were processed, so that all of the
half queue is read again, and what was delivered of delayed messages, so that a start looks for it in the log. Groups
keep what they have, until the master tells its offsets: those count, also where they are lower.

Compatibility: RocketMQ (4.9.8) leaves all of it; a consumer that comes later than the messages skips them.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketpy.broker.metadata.groups import CHECK_GROUP
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager, split_key
from rocketpy.protocol.topic_name import LMQ_PREFIX


def cut_offsets(offsets: ConsumerOffsetManager, max_offset_in_queue: Callable[[str, int], int]) -> None:
    """Forget what consumer offsets say of the tail of a log that was cut. May be done again."""
    offsets.remove_offset(CHECK_GROUP)
    set_back_to_queues(offsets, max_offset_in_queue)


def set_back_to_queues(offsets: ConsumerOffsetManager, max_offset_in_queue: Callable[[str, int], int]) -> int:
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
            count += within[queue_id] < offset
        if within != of_queues:
            offsets.replace(key, within)
    return count
