"""The counters of the hot roads, and how far behind a pull is."""

from __future__ import annotations

import pytest

from rocketpy.broker.stats.counters import GroupGetCounter, TopicPutCounter, fall_of
from rocketpy.clock import ManualClock
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import encode_message

HOSTS = {4: "127.0.0.1:1", 6: "[::1]:1"}


def record(physical_offset: int = 0, store_timestamp: int = 0, *, born: int = 4, body: bytes = b"body") -> bytes:
    return encode_message(
        MessageExt(
            topic="Tö",
            body=body,
            properties={"K": "ä"},
            physical_offset=physical_offset,
            store_timestamp=store_timestamp,
            born_host=HOSTS[born],
            store_host=HOSTS[4],
            sys_flag=1 << 4 if born == 6 else 0,
        )
    )


def test_what_was_put_is_taken_once() -> None:
    counter = TopicPutCounter("T")
    counter.count += 2
    counter.size_bytes += 300
    counter.clear()
    assert (counter.count, counter.size_bytes) == (0, 0)


def test_what_a_group_got_is_taken_once_and_how_far_it_is_behind_stays() -> None:
    counter = GroupGetCounter("G", "T", 1)
    counter.pull_count = counter.message_count = counter.size_bytes = 5
    counter.fall_bytes, counter.has_fall = 7, True
    counter.clear()
    assert (counter.pull_count, counter.message_count, counter.size_bytes) == (0, 0, 0)
    assert (counter.fall_bytes, counter.has_fall) == (7, True)


@pytest.mark.parametrize("born", [4, 6])
@pytest.mark.parametrize("is_size_known", [True, False])
def test_a_pull_is_behind_by_what_follows_its_last_record(born: int, is_size_known: bool) -> None:
    clock = ManualClock(10_000)
    last = record(500, 9_400, born=born, body=b"longer")
    body = record(100, 9_000) + last
    assert fall_of(body, len(last) if is_size_known else 0, 1_700, clock) == (1_200, 600)


def test_a_clock_that_was_set_back_puts_nobody_ahead() -> None:
    body = record(0, 9_000)
    assert fall_of(body, 0, len(body), ManualClock(8_000)) == (len(body), 0)
