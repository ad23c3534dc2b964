"""Findings as lines."""

from __future__ import annotations

from rocketpy.client.diagnosis.finding import Severity, note, problem


def test_a_finding_says_where_what_and_what_to_do() -> None:
    found = problem("disk-full", "broker-a", "the disk is full", "Free space")
    assert str(found) == "problem: broker-a: the disk is full. Free space."
    assert (found.check, found.severity) == ("disk-full", Severity.PROBLEM)
    assert str(note("c", "s", "p", "a")).startswith("note: ")
