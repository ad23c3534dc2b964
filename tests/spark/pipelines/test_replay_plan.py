"""Plan and progress of a replay: what a later run finds, and who sends which queue."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import StoreError
from rocketpy.spark.pipelines.archive_log.file_system import LocalFileSystem
from rocketpy.spark.pipelines.replay_plan import ReplayPlan, ReplayWork, shared_out

PLAN = ReplayPlan(
    id="x",
    target={"topics": {"a": "b"}, "keeps_queues": False},
    read=12,
    skipped={"empty body": 2},
    shares=(0.5, 0.5),
    slices=(4, 6),
)


def test_a_later_run_finds_the_plan_and_what_was_sent(tmp_path: Path) -> None:
    work = ReplayWork(str(tmp_path), files=LocalFileSystem())
    assert (work.plan(), work.sent(PLAN)) == (None, frozenset())
    work.note_plan(PLAN)
    work.note_sent(1, 6)
    later = ReplayWork(str(tmp_path), files=LocalFileSystem())
    assert (later.plan(), later.sent(PLAN)) == (PLAN, frozenset({1}))
    assert PLAN.row_count == 10
    with pytest.raises(FileExistsError):
        later.note_plan(PLAN)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"id": "x", "shares": [], "slices": []}'])
def test_a_file_that_is_no_plan_is_an_error_that_names_it(tmp_path: Path, content: str) -> None:
    (tmp_path / "plan.json").write_text(content)
    with pytest.raises(StoreError, match=r"the plan of a replay.*plan\.json"):
        ReplayWork(str(tmp_path), files=LocalFileSystem()).plan()


@pytest.mark.parametrize("name", ["x.json", "00000002.json", "-0000001.json", "0000001.json", "00000001.json.bak"])
def test_a_file_that_names_no_slice_of_the_plan_is_an_error(tmp_path: Path, name: str) -> None:
    """It would be a slice that is never sent, or one more."""
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / name).touch()
    with pytest.raises(StoreError, match=f"a slice of the plan, which has 2.*{name}"):
        ReplayWork(str(tmp_path), files=LocalFileSystem()).sent(PLAN)


@given(st.dictionaries(st.integers(), st.integers(1, 100)), st.integers(1, 5))
def test_each_queue_has_one_task_and_the_tasks_have_about_as_much(counts: dict[int, int], tasks_max: int) -> None:
    tasks = shared_out(counts, tasks_max)
    assert sorted(queue for queues in tasks for queue in queues) == sorted(counts)
    assert len(tasks) == min(tasks_max, len(counts))
    sizes = [sum(counts[queue] for queue in queues) for queues in tasks]
    assert all(sizes)
    assert not sizes or max(sizes) - min(sizes) <= max(counts.values())
