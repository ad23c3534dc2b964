"""Parsers of the setting ``messageDelayLevel`` (the delay of each level) and of the property DELAY (a message's level).

Compatibility: ``ScheduleMessageService.parseDelayLevel`` and ``Message.getDelayTimeLevel`` (4.9.8). Java splits at each
single blank and takes negative delays; here any white space separates, and a delay has 1 to 9 digits.
"""

from __future__ import annotations

import re

DELAY_LEVELS_MAX = 1024
"""Each level is a queue of the broker; RocketMQ has no bound."""

_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DELAY = re.compile(r"([0-9]{1,9})([smhd])", re.ASCII)
_LEVEL = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_SHOWN_MAX = 40


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Return the delays of levels 1, 2, ... in milliseconds; ``ValueError`` names the part that is wrong.

    >>> parse_delay_levels("1s 5m")
    (1000, 300000)
    """
    parts = text.split()
    if not parts:
        raise ValueError("found no delay, expected some such as 1s 5m 2h 1d, with blanks between them")
    if len(parts) > DELAY_LEVELS_MAX:
        raise ValueError(f"found {len(parts)} delays, expected at most {DELAY_LEVELS_MAX}")
    delays = []
    for level, part in enumerate(parts, 1):
        match = _DELAY.fullmatch(part)
        if match is None:
            raise ValueError(
                f"level {level} is {part[:_SHOWN_MAX]!r}, expected a number of up to 9 digits and one of s, m, h, d"
            )
        delays.append(int(match[1]) * _UNIT_MS[match[2]])
    return tuple(delays)


def read_delay_level(text: str) -> int | None:
    """Return the level of a property DELAY, unchecked; None when it is no Java ``int``.

    >>> read_delay_level("3"), read_delay_level("-1"), read_delay_level("soon")
    (3, -1, None)
    """
    if _LEVEL.fullmatch(text) is None:
        return None
    level = int(text)
    return level if -(1 << 31) <= level < 1 << 31 else None
