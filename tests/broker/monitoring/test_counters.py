"""The counters of the fast paths, and the lag of a pull."""

from __future__ import annotations

import pytest

from rocketpy.broker.monitoring.counters import HEAD_SIZE, GroupGetCounter, last_record
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


def counter_after(body: bytes, begin: int, log_end: int, pulled_ms: int) -> GroupGetCounter:
    counter = GroupGetCounter("G", "T", 1)
    counter.last_head, counter.log_end, counter.pulled_ms = body[begin : begin + HEAD_SIZE], log_end, pulled_ms
    return counter


@pytest.mark.parametrize("born", [4, 6])
def test_the_lag_of_a_pull_begins_at_its_last_record(born: int) -> None:
    first, last = record(100, 9_000), record(500, 9_400, born=born, body=b"longer")
    assert last_record(first + last) == len(first)
    assert counter_after(first + last, len(first), 1_700, 10_000).fall() == (1_200, 600)


def test_a_clock_that_was_set_back_gives_no_negative_lag() -> None:
    assert counter_after(record(0, 9_000), 0, 50, 8_000).fall() == (50, 0)


def test_before_the_first_pull_there_is_no_lag() -> None:
    assert GroupGetCounter("G", "T", 1).fall() is None
    assert last_record(b"") == 0
