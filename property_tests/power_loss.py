"""What the disk has of what was not synced when the power goes, as a number that Hypothesis can choose."""

from __future__ import annotations

import random
from collections.abc import Callable

NOTHING, EVERYTHING = -2, -1
"""Any other number is the seed of a choice."""


def chosen(survives: int) -> Callable[[int], int]:
    """Return who answers the simulated disk."""
    if survives == NOTHING:
        return lambda count: 0
    if survives == EVERYTHING:
        return lambda count: count - 1
    return random.Random(survives).randrange
