"""What ``rocketpy store`` prints of findings, repair steps and inspections."""

from __future__ import annotations

import json

import attrs
import pytest

from rocketpy.cli.store_report import (
    finding_lines,
    repair_summary,
    show_finding,
    show_steps,
    step_fields,
    step_lines,
    summary_text,
)
from rocketpy.store.inspection.repair.repair import RepairReport
from rocketpy.store.inspection.repair.steps import RepairContext
from rocketpy.store.inspection.verify.findings import Finding, Severity
from rocketpy.store.inspection.verify.store_inspection import Summary

FINDING = Finding(
    severity=Severity.ERROR,
    path="/s/commitlog/0",
    position=7,
    expected="a record",
    found="zeros",
    start="refuses the store",
    repair="fills it",
)
LINES = [
    "error: /s/commitlog/0 at 7",
    "    expected a record",
    "    found    zeros",
    "    a start  refuses the store",
    "    a repair fills it",
]


@attrs.frozen
class Step:
    """A step that only describes itself."""

    begin: int | None = None
    end: int | None = None
    path: str = "/s/file"
    does: str = "cuts it"
    why: str = "it is torn"

    def apply(self, context: RepairContext) -> None:
        raise AssertionError("only described")


def test_a_finding_names_its_file_and_position() -> None:
    assert finding_lines(FINDING) == LINES
    assert finding_lines(attrs.evolve(FINDING, position=None))[0] == "error: /s/commitlog/0"
    assert finding_lines(attrs.evolve(FINDING, position=0))[0] == "error: /s/commitlog/0 at 0"


def test_a_finding_is_printed_as_text_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    show_finding(FINDING, as_json=False, err=True)
    assert capsys.readouterr().err.splitlines() == LINES
    show_finding(FINDING, as_json=True)
    assert json.loads(capsys.readouterr().out) == FINDING.as_fields()


@pytest.mark.parametrize(
    ("step", "where"),
    [
        (Step(), "/s/file"),
        (Step(begin=5), "/s/file from 5 on"),
        (Step(begin=0, end=9), "/s/file from 0 to 9"),
    ],
    ids=["whole file", "from a position", "range"],
)
def test_a_step_names_the_bytes_that_it_changes(step: Step, where: str) -> None:
    assert step_lines(3, step) == [f"3. {where}", "    cuts it", "    because: it is torn"]
    assert step_fields(step) == attrs.asdict(step)


def test_steps_are_numbered_from_1_and_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [Step(), Step(begin=5)]
    show_steps(steps, as_json=False)
    assert [line[:2] for line in capsys.readouterr().out.splitlines()] == ["1.", "  ", "  ", "2.", "  ", "  "]
    show_steps(steps, as_json=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [step_fields(step) for step in steps]


@pytest.mark.parametrize(
    ("steps", "left", "kept_path", "is_repaired", "text"),
    [
        ((), (), None, False, "nothing needs repair"),
        ((), (), None, True, "nothing needs repair"),
        ((), (FINDING,), None, True, "nothing can be repaired"),
        ((Step(),), (), None, False, "nothing was written; --yes carries out these steps"),
        ((Step(),), (FINDING,), None, True, "done"),
        ((Step(),), (), "/s/kept", True, "done; the original bytes are in /s/kept"),
    ],
)
def test_the_summary_of_a_repair(
    steps: tuple[Step, ...], left: tuple[Finding, ...], kept_path: str | None, is_repaired: bool, text: str
) -> None:
    report = RepairReport(steps=steps, kept_path=kept_path, left=left)
    assert repair_summary(report, is_repaired=is_repaired) == text


def test_the_summary_of_an_inspection_counts_findings_that_are_not_shown() -> None:
    looked_at = Summary(
        log_begin=0, log_end=900, record_count=1, unit_count=2, entry_count=3, queue_count=1, finding_count=4
    )
    text = "1 record from 0 to 900, 2 units in 1 queue, 3 in the index: 4 findings"
    assert summary_text(looked_at, shown_count=4) == text
    assert summary_text(looked_at, shown_count=1) == f"{text} (3 more are not shown)"
