"""Nondeterministic choices of a simulation, and exhaustive enumeration of their outcomes.

A simulated fault asks ``choose(n)`` for a number below n. ``random.Random(seed).randrange`` answers by seed, a
Hypothesis test by drawing, and :func:`all_outcomes` by running the same scene until every answer has been given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Choose = Callable[[int], int]
"""Returns one of the numbers below its argument."""

T = TypeVar("T")


def all_outcomes(scene: Callable[[Choose], T], *, runs_max: int = 10_000) -> set[T]:
    """Return what a scene returns over all choices it may be given. It must ask the same when answered the same.

    Raises ValueError when ``runs_max`` runs are not enough; their number is the product of what is asked.
    """
    outcomes: set[T] = set()
    script = _Script([])
    for _ in range(runs_max):
        outcomes.add(scene(script.choose))
        following = script.following()
        if following is None:
            return outcomes
        script = following
    raise ValueError(f"more than {runs_max} runs are needed for every choice")


class _Script:
    """Answers as written down, then with 0; counts like a number whose digits have the bases that were asked for."""

    def __init__(self, given: list[int]) -> None:
        self._given = given
        self._asked: list[int] = []

    def choose(self, count: int) -> int:
        index = len(self._asked)
        self._asked.append(count)
        if index == len(self._given):
            self._given.append(0)
        return self._given[index]

    def following(self) -> _Script | None:
        given = list(self._given)
        while given and given[-1] + 1 == self._asked[len(given) - 1]:
            given.pop()
        if not given:
            return None
        return _Script([*given[:-1], given[-1] + 1])
