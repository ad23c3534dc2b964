"""Losses name the queue, what is gone, and where the stream continues."""

from __future__ import annotations

from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.cluster import QueueBounds
from rocketpy.spark.stream.losses import Loss, find_losses

A0, A1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)


def test_a_position_inside_the_bounds_or_at_either_end_is_no_loss() -> None:
    for position in (5, 7, 9):
        assert find_losses({A0: position}, {A0: QueueBounds(5, 9)}) == []


def test_messages_that_expired_are_named() -> None:
    [loss] = find_losses({A0: 2, A1: 5}, {A0: QueueBounds(5, 9), A1: QueueBounds(5, 9)})
    assert loss == Loss(A0, 2, QueueBounds(5, 9), 5)
    assert str(loss) == (
        "topic T broker a queue 0: offsets 2 to 4 were deleted before they were read, the broker has 5 to 8"
    )


def test_a_queue_whose_messages_have_all_expired_says_so() -> None:
    [loss] = find_losses({A0: 2}, {A0: QueueBounds(9, 9)})
    assert (
        str(loss) == "topic T broker a queue 0: offsets 2 to 8 were deleted before they were read, the broker has none"
    )
    assert loss.continues_at == 9


def test_a_queue_that_ends_before_the_position_continues_at_its_end() -> None:
    [loss] = find_losses({A0: 20}, {A0: QueueBounds(0, 4)})
    assert (loss.continues_at, "read up to offset 20, the broker's queue ends at 4" in str(loss)) == (4, True)


def test_a_queue_whose_bounds_are_not_known_is_not_judged() -> None:
    assert find_losses({A0: 20}, {}) == []


def test_a_slave_that_has_not_followed_so_far_is_no_loss() -> None:
    assert find_losses({A0: 11}, {A0: QueueBounds(5, 10, is_of_slave=True)}) == []
    assert len(find_losses({A0: 4}, {A0: QueueBounds(5, 10, is_of_slave=True)})) == 1
