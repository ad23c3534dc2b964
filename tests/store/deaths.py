"""Every disk that the death of a process could leave, from one run of the process to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.sim.disk_state import DiskState


@contextmanager
def noted_deaths(disk: SimDisk) -> Iterator[list[DiskState]]:
    """Note what a kill before each change leaves, and within a write at each page; at last what the end leaves."""
    states: list[DiskState] = []
    disk.before_change = lambda method, path: states.append(disk.state())
    yield states
    disk.before_change = None
    states.append(disk.state())


def different_disks(states: Sequence[DiskState], loses: Callable[[int], int] | None) -> Iterator[SimDisk]:
    """Return the disks, the last one first, each look once; ``loses`` says what a loss of power leaves of them."""
    seen: set[int] = set()
    for state in reversed(states):
        disk = SimDisk(state=state)
        if loses is not None:
            disk.lose_power(loses)
        fingerprint = disk.state().fingerprint
        if fingerprint not in seen:
            seen.add(fingerprint)
            yield disk
