"""A finding of the diagnosis: what is wrong where, and what to do about it."""

from __future__ import annotations

from enum import StrEnum

import attrs


class Severity(StrEnum):
    """Severity of a finding: a problem needs an operator, a note says what an operator may have chosen."""

    PROBLEM = "problem"
    NOTE = "note"


@attrs.frozen
class Finding:
    """One sentence each for what is wrong and what to do. ``check`` is a name for programs, which does not change."""

    check: str
    severity: Severity
    subject: str
    problem: str
    advice: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.subject}: {self.problem}. {self.advice}."


def problem(check: str, subject: str, text: str, advice: str) -> Finding:
    """Return a finding that needs an operator."""
    return Finding(check, Severity.PROBLEM, subject, text, advice)


def note(check: str, subject: str, text: str, advice: str) -> Finding:
    """Return a finding that an operator may have chosen."""
    return Finding(check, Severity.NOTE, subject, text, advice)
