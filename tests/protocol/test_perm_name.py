"""Permission bits stand in topic files, on the wire and in what operators type: they are numbers for good."""

from __future__ import annotations

from rocketpy.protocol.perm_name import PERM_INHERIT, PERM_READ, PERM_READ_WRITE, PERM_WRITE


def test_the_bits_are_rocketmqs() -> None:
    assert (PERM_READ, PERM_WRITE, PERM_INHERIT) == (4, 2, 1)
    assert PERM_READ_WRITE == 6
