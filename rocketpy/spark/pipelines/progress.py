"""Progress bar over the jobs of a pipeline: tasks done and tasks planned, from Spark's status tracker.

Spark plans the stages of a job when it reaches them, so the total grows while it runs. The bar is drawn on standard
error by a thread of its own, because the thread that runs a job waits in the JVM. Only jobs that were started within
the block count: they get a job group of their own.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOOK_EVERY_SECONDS = 0.2


@attrs.frozen
class JobProgress:
    """Tasks of the jobs of one group, as Spark knows them at one moment."""

    tasks_done: int
    tasks_planned: int
    tasks_failed: int


def job_progress(context: SparkContext, group: str) -> JobProgress:
    """Return how far the jobs of a group are; stages that Spark has not planned yet are not counted."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    return JobProgress(
        sum(stage.numCompletedTasks for stage in known),
        sum(stage.numTasks for stage in known),
        sum(stage.numFailedTasks for stage in known),
    )


@contextmanager
def message_bar(title: str, *, show: bool, console: Console | None = None) -> Iterator[Callable[[int, int], None]]:
    """Show a bar over messages; the block gets a function that takes how many are done, and how many there are."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("messages")
    console = console or Console(stderr=True)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=not show) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def progress_bar(spark: SparkSession, title: str, *, show: bool, console: Console | None = None) -> Iterator[None]:
    """Show a bar while the block runs Spark jobs in this thread; without ``show`` nothing is drawn and no thread runs.

    The job group of this thread is replaced for the block, and there is none after it.
    """
    if not show:
        yield
        return
    context, group = spark.sparkContext, f"rocketpy-{uuid.uuid4()}"
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("tasks")
    context.setJobGroup(group, title)
    ended = threading.Event()
    with Progress(*columns, TimeElapsedColumn(), console=console or Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None)

        def look() -> None:
            while not ended.wait(LOOK_EVERY_SECONDS):
                seen = job_progress(context, group)
                if seen.tasks_planned:
                    progress.update(task, completed=seen.tasks_done, total=seen.tasks_planned)

        watcher = threading.Thread(target=look, name="rocketpy progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
            context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
