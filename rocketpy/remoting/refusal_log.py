"""Log lines about peers that are refused: garbage, TLS where there is none, handshakes that fail.

A peer can cause them as fast as it can connect, so an address has a few lines in a period, and then one with the count
of what came since; all addresses together have a bounded number.
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
    """Writes the first refusals of an address at once, and counts what comes after them. One per server."""

    def __init__(self, *, current_time: Callable[[], float] = trio.current_time) -> None:
        self._current_time = current_time
        self._period_ends = float("-inf")
        self._count_of: dict[str, int] = {}  # refusals of this period by address, of a bounded number of addresses
        self._unsaid_of_others = 0

    def warn(self, host: str, text: str, *arguments: object) -> None:
        """Write a line about a peer, or count it."""
        if self._current_time() >= self._period_ends:
            self._begin_period()
        count = self._count_of.get(host, 0)
        if not count and len(self._count_of) >= ADDRESSES_PER_PERIOD_MAX:
            self._unsaid_of_others += 1
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
        if self._unsaid_of_others:
            _log.warning("refused peers of other addresses %d times", self._unsaid_of_others)
        self._count_of.clear()
        self._unsaid_of_others = 0
