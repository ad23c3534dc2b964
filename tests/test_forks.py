"""Forks of the process."""

from __future__ import annotations

from rocketpy.forks import Birthplace
from tests.processes import in_child


def test_a_child_is_another_place_and_has_its_own() -> None:
    before = Birthplace()
    assert before.is_here

    def look() -> tuple[bool, bool, str]:
        own = Birthplace()
        return before.is_here, own.is_here, in_child(lambda: own.is_here)

    assert in_child(look) == "(False, True, 'False')"
    assert before.is_here
