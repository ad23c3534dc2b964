"""How slow the machine is just now, for tests of a promise in seconds of processor time.

The same code takes a third more processor time when other programs share the caches, and another machine has another
speed. So such a test measures a fixed piece of Python beside what it tests, and allows as much more as that took.
"""

from __future__ import annotations

import time

REFERENCE_SECONDS = 0.047
"""What :func:`_fixed_work` takes on the machine of ``docs/performance.md`` when nothing else runs."""

_ATTEMPTS = 3


def slowness() -> float:
    """Return how many times as long as on the reference machine Python takes now; at least 1."""
    return max(1.0, min(_fixed_work() for _ in range(_ATTEMPTS)) / REFERENCE_SECONDS)


def _fixed_work() -> float:
    """Return the seconds of processor time that calls, numbers, texts and a dictionary take, always the same ones."""
    began = time.process_time()
    counts: dict[int, int] = {}
    for number in range(300_000):
        key = number * 7919 % 1009
        counts[key] = counts.get(key, 0) + len(str(key))
    return time.process_time() - began
