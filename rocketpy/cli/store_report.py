"""Findings, steps of a repair and summaries of ``rocketpy store``, as lines of text or JSON objects.

Printing only: it opens no store. What a finding means is in :mod:`rocketpy.store.inspection`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs

from rocketpy.cli.printing import print_json, print_line, print_lines

if TYPE_CHECKING:
    from rocketpy.store.inspection.repair.repair import RepairReport
    from rocketpy.store.inspection.repair.steps import RepairStep
    from rocketpy.store.inspection.show.diverged import KeptTail
    from rocketpy.store.inspection.verify.findings import Finding
    from rocketpy.store.inspection.verify.store_inspection import Summary


def show_finding(finding: Finding, *, as_json: bool, err: bool = False) -> None:
    """Print a finding, on standard error if ``err``."""
    if as_json:
        print_json(finding.as_fields(), err=err)
    else:
        print_lines(finding_lines(finding), err=err)


def finding_lines(finding: Finding) -> list[str]:
    """Return a finding as lines of text."""
    where = finding.path if finding.position is None else f"{finding.path} at {finding.position}"
    return [
        f"{finding.severity.value}: {where}",
        f"    expected {finding.expected}",
        f"    found    {finding.found}",
        f"    a start  {finding.start}",
        f"    a repair {finding.repair}",
    ]


def show_kept_tail(tail: KeptTail, *, as_json: bool) -> None:
    """Print what is known of a part of the log that was cut off."""
    if as_json:
        print_json(attrs.asdict(tail))
        return
    times = ""
    if tail.record_count:
        times = f", stored from {_time(tail.first_timestamp_ms)} to {_time(tail.last_timestamp_ms)}"
    records = _counted(tail.record_count, "record")
    print_line(f"{tail.path}: {records} from {tail.begin_offset} to {tail.end_offset}{times}")


def show_steps(steps: Sequence[RepairStep], *, as_json: bool) -> None:
    """Print the steps of a repair, numbered from 1."""
    for number, step in enumerate(steps, 1):
        if as_json:
            print_json(step_fields(step))
        else:
            print_lines(step_lines(number, step))


def step_lines(number: int, step: RepairStep) -> list[str]:
    """Return a step as lines of text."""
    where = step.path
    if step.begin is not None:
        where += f" from {step.begin} on" if step.end is None else f" from {step.begin} to {step.end}"
    return [f"{number}. {where}", f"    {step.does}", f"    because: {step.why}"]


def step_fields(step: RepairStep) -> dict[str, object]:
    """Return a step as a JSON object."""
    return {"path": step.path, "begin": step.begin, "end": step.end, "does": step.does, "why": step.why}


def repair_summary(report: RepairReport, *, is_repaired: bool) -> str:
    """Return one line that says whether there was something to repair, and what has been done."""
    if not report.steps:
        return "nothing can be repaired" if report.left else "nothing needs repair"
    if not is_repaired:
        return "nothing was written; --yes carries out these steps"
    kept = f"; the original bytes are in {report.kept_path}" if report.kept_path else ""
    return f"done{kept}"


def summary_text(looked_at: Summary, *, shown_count: int) -> str:
    """Return a one-line summary of what was inspected; ``shown_count`` findings were printed before."""
    hidden = looked_at.finding_count - shown_count
    more = f" ({hidden} more are not shown)" if hidden else ""
    return (
        f"{_counted(looked_at.record_count, 'record')} from {looked_at.log_begin} to {looked_at.log_end}, "
        f"{_counted(looked_at.unit_count, 'unit')} in {_counted(looked_at.queue_count, 'queue')}, "
        f"{looked_at.entry_count} in the index: {_counted(looked_at.finding_count, 'finding')}{more}"
    )


def _time(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, OSError, ValueError):  # a record may hold any number
        return str(timestamp_ms)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
