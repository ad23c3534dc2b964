"""A finding reads as a sentence for a person and as fields for a program, and both say the same."""

from __future__ import annotations

import json

import pytest

from rocketpy.store.inspection.verify.findings import NOTHING, Finding, Severity


def finding(position: int | None = 7, severity: Severity = Severity.ERROR) -> Finding:
    return Finding(
        severity=severity,
        path="/store/f",
        position=position,
        expected="a record",
        found="zeros",
        start="stops",
        repair=NOTHING,
    )


@pytest.mark.parametrize(("position", "where"), [(None, "/store/f"), (0, "/store/f at 0"), (7, "/store/f at 7")])
def test_a_line_says_how_bad_where_and_what(position: int | None, where: str) -> None:
    assert str(finding(position)) == f"error: {where}: expected a record, found zeros"


def test_programs_get_every_field_in_words() -> None:
    fields = finding().as_fields()
    assert json.loads(json.dumps(fields)) == fields
    assert fields == {
        "severity": "error",
        "path": "/store/f",
        "position": 7,
        "expected": "a record",
        "found": "zeros",
        "start": "stops",
        "repair": "nothing",
    }
    assert list(fields) == [each for each in Finding.__slots__ if not each.startswith("__")]


def test_a_person_is_called_for_errors_and_warnings_only() -> None:
    """The exit status of ``rocketpy store verify`` follows from it: after a mere crash it is 0."""
    assert [each.is_severe for each in (Severity.ERROR, Severity.WARNING, Severity.NOTICE)] == [True, True, False]
    assert list(Severity) == [Severity.ERROR, Severity.WARNING, Severity.NOTICE], "the worst first"
