"""Every workload over an alphabet of operations, and its life."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from property_tests.crash.life import Life, Setup
from property_tests.crash.operations import OPERATIONS
from rocketpy.testing.store_model import StoreModel


def lives(setup: Setup, length: int, beginning: tuple[str, ...] = ()) -> Iterator[Life]:
    """Run every workload of so many operations from an empty disk that begins in some way.

    Workloads that begin alike are neighbours, and moments that were seen in the one before are not seen again. Of
    what several beginnings have in common the first one of the alphabet's order sees the moments. So all lives
    together hold each moment of every workload up to that length once.
    """
    first = setup.alphabet[0]
    watched_from = next(done for done in range(len(beginning) + 1) if set(beginning[done:]) <= {first})
    previous: tuple[str, ...] | None = None
    for rest in _workloads(setup.alphabet, length - len(beginning)):
        workload = (*beginning, *rest)
        if previous is not None:
            watched_from = _common(previous, workload) + 1
        life = Life(setup, None, StoreModel())
        life.run(workload, OPERATIONS, watched_from=watched_from)
        yield life
        previous = workload


def beginnings(setup: Setup, length: int) -> Iterator[tuple[str, ...]]:
    """Return how the workloads of so many operations may begin, so that there are some parts to share out."""
    return _workloads(setup.alphabet, max(0, length - 2))


def _workloads(alphabet: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    if not length:
        yield ()
    else:
        for first in alphabet:
            for rest in _workloads(alphabet, length - 1):
                yield first, *rest


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many operations two workloads begin with alike."""
    return next((index for index, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]), len(one))
