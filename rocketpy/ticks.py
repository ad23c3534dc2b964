"""Moments at which periodic work is done: services of one period wake the process together.

An idle process pays for each time that it wakes up, several times as much as for what a service then looks at. So
services do not sleep for their period, but until the next multiple of it on Trio's clock.
"""

from __future__ import annotations

from math import floor

import trio

_SAME = 0.001
"""A tick that is closer than this share of the period is the one that has just been."""


def next_tick(period_s: float) -> float:
    """Return the Trio time of the next tick of a period: no later than a period from now, but for a thousandth of it.

    Now, for a period that is not positive.
    """
    now = trio.current_time()
    if period_s <= 0:
        return now
    tick = (floor(now / period_s) + 1) * period_s
    return tick if tick - now > _SAME * period_s else tick + period_s
