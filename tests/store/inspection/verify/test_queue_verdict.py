"""What is left over between log and queues, judged: lost, explained, or put right by a start."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from rocketpy.store.inspection.verify.findings import NOTHING, Finding, Severity
from rocketpy.store.inspection.verify.inventory import read_inventory
from rocketpy.store.inspection.verify.log_walk import Damage
from rocketpy.store.inspection.verify.queue_inspection import QueueInspection
from rocketpy.store.inspection.verify.queue_verdict import CUT, REBUILD, LogState, QueueVerdict
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.layout import UNIT_SIZE
from tests.store.inspection.verify.queue_bench import COUNT, KEY, Bench, make_bench

ERROR, NOTICE = Severity.ERROR, Severity.NOTICE


@pytest.fixture
def bench() -> Bench:
    return make_bench()


@attrs.frozen
class Judged:
    verdict: QueueVerdict
    findings: list[Finding]

    @property
    def severities(self) -> list[Severity]:
        return [each.severity for each in self.findings]


def judge(
    bench: Bench,
    *,
    seen: Sequence[int] = range(COUNT),
    known_topics: frozenset[str] | None = None,
    walk_begin: int | None = None,
    damages: Sequence[Damage] = (),
    next_offset: int = COUNT,
    **state: object,
) -> Judged:
    """Judge the result of a pass over these records against a log that ends after the last of them."""
    last = bench.records[-1]
    end = last.physical_offset + last.size
    opened = ReadOnlyFiles(bench.place.disk)
    inventory = read_inventory(bench.place.disk, bench.place.root)
    inspection = QueueInspection(inventory, opened)
    inspection.see([bench.records[number] for number in seen])
    usual: dict[str, object] = {
        "min_offset": 0,
        "end_offset": end,
        "damages": damages,
        "walk_begin": end if walk_begin is None else walk_begin,
        "is_clean": True,
        "is_live": False,
        "next_offset": lambda key: next_offset,
    }
    verdict = QueueVerdict(inspection, inventory, opened, LogState(**{**usual, **state}))  # type: ignore[arg-type]
    findings = list(verdict.findings(known_topics))
    opened.close()
    return Judged(verdict, findings)


def test_a_sound_store_has_nothing_to_be_said_of(bench: Bench) -> None:
    judged = judge(bench)
    assert (judged.findings, judged.verdict.faults, judged.verdict.rebuild_offsets) == ([], [], [])


# ---- records without units ------------------------------------------------------------------------------------------


def test_a_record_without_a_unit_is_out_of_reach_and_its_queue_is_made_again_from_there(bench: Bench) -> None:
    bench.unit(2, 0, 0, 0)
    judged = judge(bench)
    assert set(judged.severities) == {ERROR}
    lost = judged.findings[-1]
    place = bench.records[2].physical_offset
    assert lost.expected == f"at queue offset 2: units of the records from {place} of the log on"
    assert (lost.repair, lost.position) == (REBUILD, 2 * UNIT_SIZE)
    assert judged.verdict.rebuild_offsets == [place]
    assert min(fault.queue_offset for fault in judged.verdict.faults) == 2


def test_at_the_end_of_a_queue_a_start_makes_what_lies_where_it_walks(bench: Bench) -> None:
    for number in (4, 5):
        bench.unit(number, 0, 0, 0)
    judged = judge(bench, walk_begin=bench.records[4].physical_offset)
    assert [(each.severity, each.start, each.repair) for each in judged.findings] == [
        (NOTICE, "rebuilds them", NOTHING)
    ]
    assert judge(bench).severities == [ERROR], "but not where it does not scan"
    assert judge(bench, is_live=True).severities == [NOTICE], "a broker may be about to write them"


@pytest.mark.parametrize(
    ("known_topics", "state", "severity", "repair"),
    [
        (None, {}, ERROR, REBUILD),
        (frozenset(["TopicTest"]), {}, ERROR, REBUILD),
        (frozenset(["Other"]), {}, NOTICE, NOTHING),
        (None, {"walk_begin": 0}, NOTICE, NOTHING),
        (None, {"is_live": True}, NOTICE, NOTHING),
    ],
)
def test_a_queue_without_files_was_deleted_or_is_lost(
    bench: Bench, known_topics: frozenset[str] | None, state: dict[str, object], severity: Severity, repair: str
) -> None:
    bench.place.remove_tree(bench.place.consume_queue)
    judged = judge(bench, known_topics=known_topics, **state)  # type: ignore[arg-type]
    (finding,) = judged.findings
    assert (finding.severity, finding.repair, finding.found) == (severity, repair, "no queue")
    assert finding.path == "/store/consumequeue/TopicTest/0"
    assert judged.verdict.rebuild_offsets == ([bench.records[0].physical_offset] if severity is ERROR else [])


# ---- units without records ------------------------------------------------------------------------------------------


def test_a_unit_that_leads_elsewhere_says_where_and_what_is_there(bench: Bench) -> None:
    other = bench.records[4]
    bench.unit(2, other.physical_offset, other.size, 0)
    judged = judge(bench)
    (finding,) = judged.findings
    assert (finding.severity, finding.repair) == (ERROR, CUT)
    assert finding.expected == "at queue offset 2: a unit of a record of this queue"
    assert finding.found == (
        f"{other.size} bytes at {other.physical_offset} of the log: a record of queue offset 4, {other.size} bytes"
    )
    (fault,) = judged.verdict.faults
    assert (fault.queue_offset, fault.physical_offset) == (2, bench.records[1].physical_offset)


def test_a_unit_into_the_middle_of_a_record_leads_to_none(bench: Bench) -> None:
    bench.unit(2, bench.records[2].physical_offset + 4, bench.records[2].size, 0)
    (finding,) = judge(bench).findings
    assert finding.found.endswith("no valid record begins there")


def test_where_a_start_walks_after_a_crash_it_makes_the_units_again(bench: Bench) -> None:
    bench.unit(2, bench.records[4].physical_offset, bench.records[4].size, 0)
    judged = judge(bench, is_clean=False, walk_begin=0)
    assert [(each.severity, each.repair) for each in judged.findings] == [(NOTICE, NOTHING)]
    assert judged.verdict.faults == []


@pytest.mark.parametrize(("next_offset", "severity"), [(COUNT, NOTICE), (COUNT + 1, ERROR)])
def test_units_after_the_end_of_the_log_go_with_it_unless_a_record_has_that_offset(
    bench: Bench, next_offset: int, severity: Severity
) -> None:
    bench.unit(COUNT, 1 << 40, 100, 0)
    judged = judge(bench, next_offset=next_offset)
    (finding,) = judged.findings
    assert finding.severity is severity
    assert "after the log's end at" in finding.found
    assert judge(bench, is_live=True).findings == [], "while a broker writes they are ahead of our look"


def test_units_of_what_has_expired_are_fine(bench: Bench) -> None:
    third = bench.records[3].physical_offset
    judged = judge(bench, seen=range(3, COUNT), min_offset=third)
    assert judged.findings == []


def test_units_into_a_damage_say_what_stood_there_and_are_no_fault(bench: Bench) -> None:
    begin, end = bench.records[2].physical_offset, bench.records[4].physical_offset
    damage = Damage(begin, end, bench.place.log_file(), begin, "zeros")
    judged = judge(bench, seen=[0, 1, 4, 5], damages=[damage])
    assert judged.findings == []
    ((part,),) = judged.verdict.in_damages.values()
    assert (part.begin, part.end) == (2, 4)
    assert judged.verdict.faults == []


def test_a_wrong_tags_code_is_a_warning_that_names_the_unit(bench: Bench) -> None:
    bench.unit(1, bench.records[1].physical_offset, bench.records[1].size, 12345)
    judged = judge(bench)
    (finding,) = judged.findings
    assert (finding.severity, finding.repair) == (Severity.WARNING, CUT)
    assert finding.position == UNIT_SIZE
    (fault,) = judged.verdict.faults
    assert (fault.queue_offset, fault.physical_offset) == (1, bench.records[1].physical_offset)


def test_a_missing_file_between_two_is_one_finding_and_a_fault_at_its_place(bench: Bench) -> None:
    path = bench.place.queue_file(*KEY, 800)
    bench.place.write(path, bytes(400))
    judged = judge(bench)
    finding = judged.findings[0]
    assert (finding.severity, finding.expected, finding.found) == (
        ERROR, "a file that begins at 400", "none up to 800"
    )  # fmt: skip
    assert judged.verdict.faults[0].queue_offset == 20
