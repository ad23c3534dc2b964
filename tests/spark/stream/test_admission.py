"""Admission control: limits are shared in proportion, a batch waits for its minimum."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.stream.admission import BatchDelay, share_limit

QUEUES = [MessageQueue("T", "a", number) for number in range(8)]


def test_a_limit_is_shared_in_proportion() -> None:
    shares = share_limit(100, {QUEUES[0]: 300, QUEUES[1]: 100, QUEUES[2]: 0})
    assert shares == {QUEUES[0]: 75, QUEUES[1]: 25, QUEUES[2]: 0}


def test_a_small_queue_beside_a_large_one_does_not_starve() -> None:
    assert share_limit(10, {QUEUES[0]: 10**12, QUEUES[1]: 1}) == {QUEUES[0]: 9, QUEUES[1]: 1}


def test_what_is_less_than_the_limit_is_taken_whole() -> None:
    assert share_limit(10, {QUEUES[0]: 4, QUEUES[1]: 6}) == {QUEUES[0]: 4, QUEUES[1]: 6}


@given(st.integers(1, 10**18), st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 2**62)))
def test_a_share_is_within_what_is_there_and_the_sum_within_the_limit(
    limit: int, available: dict[MessageQueue, int]
) -> None:
    shares = share_limit(limit, available)
    assert shares.keys() == available.keys()
    assert all(0 <= shares[queue] <= size for queue, size in available.items())
    assert all(shares[queue] for queue, size in available.items() if size)
    assert sum(shares.values()) <= limit + len(available)


@given(st.integers(1, 1000), st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 10_000)))
def test_batch_after_batch_everything_is_read(limit: int, available: dict[MessageQueue, int]) -> None:
    total = sum(available.values())
    batches = 0
    while any(available.values()):
        shares = share_limit(limit, available)
        assert sum(shares.values()) >= min(limit, sum(available.values())) - len(available)
        available = {queue: size - shares[queue] for queue, size in available.items()}
        batches += 1
    assert batches <= total


def test_a_batch_waits_for_its_minimum_or_until_the_delay_is_over() -> None:
    now = 1000.0
    delay = BatchDelay(offsets_min=10, delay_max_s=60.0, clock=lambda: now)
    assert delay.admits(1), "the first batch after a start does not wait"
    now += 59.0
    assert not delay.admits(9)
    assert delay.admits(10)
    now += 59.9
    assert not delay.admits(9), "the wait began anew with the last batch"
    now += 0.1
    assert not delay.admits(0), "there is nothing to wait for"
    assert delay.admits(1)
