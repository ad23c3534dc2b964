"""RocketMQ's versions as numbers: the ordinals of its enum, which every header carries, and their names.

From 3.0.1 on each release has two numbers, its snapshot's and its own.

Compatibility: ``MQVersion`` (4.9.8).
"""

from __future__ import annotations

from functools import cache

V3_0_7_SNAPSHOT = 28
"""The first client that accepts offsets from a broker, and reports its own."""
V3_1_8_SNAPSHOT = 62
"""The first client that reports its state, and consumes a message on demand."""

_BEFORE_3_0_1 = (
    "SNAPSHOT ALPHA1 BETA1 BETA2 BETA3 BETA4 BETA5 BETA6_SNAPSHOT BETA6 BETA7_SNAPSHOT BETA7 BETA8_SNAPSHOT BETA8 "
    "BETA9_SNAPSHOT BETA9 FINAL"
)


def version_desc(version: int) -> str:
    """Return the name of a version, of an unknown one ``HIGHER_VERSION``.

    >>> version_desc(409), version_desc(28), version_desc(0), version_desc(5000)
    ('V4_9_8', 'V3_0_7_SNAPSHOT', 'V3_0_0_SNAPSHOT', 'HIGHER_VERSION')
    """
    names = _names()
    return names[version] if 0 <= version < len(names) else "HIGHER_VERSION"


@cache
def _names() -> tuple[str, ...]:
    releases = [(3, 0, patch) for patch in range(1, 16)]
    for major, minors in ((3, range(1, 10)), (4, range(10)), (5, range(10))):
        for minor in minors:
            first = 1 if major == 3 and minor >= 3 else 0  # there was no 3.3.0, nor any of its kind until 4.0.0
            releases += [(major, minor, patch) for patch in range(first, 10)]
    names = [f"V3_0_0_{name}" for name in _BEFORE_3_0_1.split()]
    for major, minor, patch in releases:
        names += [f"V{major}_{minor}_{patch}_SNAPSHOT", f"V{major}_{minor}_{patch}"]
    return tuple(names)
