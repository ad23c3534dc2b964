"""Rate-limited log of refused peers: malformed frames, TLS where it is disabled, failed handshakes.

A peer can cause refusals as fast as it can connect, so each address gets a few lines per period, and then one line with
the count of the rest. The number of addresses per period is bounded too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

PERIOD_SECONDS = 60.0
LINES_PER_ADDRESS_MAX = 5
ADDRESSES_PER_PERIOD_MAX = 100

_log = logging.getLogger("rocketpy.remoting")


class RefusalLog:
    """Logs the first refusals of an address in a period and counts the rest. One per server."""

    def __init__(self, *, current_time: Callable[[], float] = trio.current_time) -> None:
        self._current_time = current_time
        self._period_ends = float("-inf")
        self._count_of: dict[str, int] = {}  # refusals in this period by address; at most ADDRESSES_PER_PERIOD_MAX
        self._unlogged_count = 0  # refusals of all other addresses

    def warn(self, host: str, text: str, *arguments: object) -> None:
        """Log a refusal, or only count it above the limit."""
        if self._current_time() >= self._period_ends:
            self._begin_period()
        count = self._count_of.get(host, 0)
        if not count and len(self._count_of) >= ADDRESSES_PER_PERIOD_MAX:
            self._unlogged_count += 1
            return
        self._count_of[host] = count + 1
        if count < LINES_PER_ADDRESS_MAX:
            _log.warning(text, *arguments)

    def _begin_period(self) -> None:
        self._period_ends = self._current_time() + PERIOD_SECONDS
        for host, count in self._count_of.items():
            if count > LINES_PER_ADDRESS_MAX:
                _log.warning(
                    "refused %s %d times more, for these or other reasons", host, count - LINES_PER_ADDRESS_MAX
                )
        if self._unlogged_count:
            _log.warning("refused peers of other addresses %d times", self._unlogged_count)
        self._count_of.clear()
        self._unlogged_count = 0
