"""Refused peers fill no log: a few lines of each address, then a count, and a bounded number of addresses."""

from __future__ import annotations

import pytest

from rocketpy.remoting.limits.refusal_log import (
    ADDRESSES_PER_PERIOD_MAX,
    LINES_PER_ADDRESS_MAX,
    PERIOD_SECONDS,
    RefusalLog,
)


def test_an_address_has_a_few_lines_and_then_a_count(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    log = RefusalLog(current_time=lambda: now)
    for number in range(1000):
        log.warn("a", "refused number %d", number)
    assert caplog.messages == [f"refused number {number}" for number in range(LINES_PER_ADDRESS_MAX)]
    caplog.clear()
    now = PERIOD_SECONDS
    log.warn("b", "another")
    left_out = 1000 - LINES_PER_ADDRESS_MAX
    assert caplog.messages == [f"refused a {left_out} times more, for these or other reasons", "another"]
    log.warn("a", "again")
    assert caplog.messages[2:] == ["again"]


def test_many_addresses_have_a_bounded_number_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    log = RefusalLog(current_time=lambda: now)
    for number in range(10 * ADDRESSES_PER_PERIOD_MAX):
        log.warn(f"10.0.{number}", "refused")
    assert len(caplog.messages) == ADDRESSES_PER_PERIOD_MAX
    caplog.clear()
    now = PERIOD_SECONDS
    log.warn("a", "refused")
    assert caplog.messages == [f"refused peers of other addresses {9 * ADDRESSES_PER_PERIOD_MAX} times", "refused"]
