"""``rocketpy store``: looks at the directory of a store, of ours or of a Java broker, dead or running.

Only options and printing are here; what is found and done is in :mod:`rocketpy.store`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from rocketpy.cli.dump import dump
from rocketpy.cli.outcome import FAILED, CommandError, outcome
from rocketpy.cli.printing import json_bytes, print_json, print_line, print_lines

if TYPE_CHECKING:
    from rocketpy.store.inspection.repair.steps import RepairStep
    from rocketpy.store.inspection.verify.findings import Finding
    from rocketpy.store.inspection.verify.store_inspection import StoreInspection

store_commands = typer.Typer(
    help="Look at the files of a store, and mend them.", no_args_is_help=True, rich_markup_mode=None
)

store_commands.command()(dump)

FOREVER = 1 << 62
"""A time and a queue offset that never come."""

Directory = Annotated[
    Path,
    typer.Argument(metavar="DIR", exists=True, file_okay=False, show_default=False, help="The store's directory."),
]
CommitLogs = Annotated[
    list[str] | None,
    typer.Option(
        "--commitlog",
        help="Where the CommitLog is, if not in DIR/commitlog; several directories by repeating it.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("-J", "--json", help="A JSON object a line.")]


@store_commands.command()
def verify(directory: Directory, commitlog: CommitLogs = None, as_json: AsJson = False) -> None:
    """Read everything and say what is wrong. Changes nothing.

    Exit status: 0 nothing is wrong (a notice is what a start deals with), 1 something is, 2 wrong use.
    """
    with outcome():
        inspection = inspected(directory, commitlog, is_live=warn_if_locked(directory))
        for finding in inspection.findings:
            show_finding(finding, as_json=as_json)
        print_line(summary_text(inspection), err=as_json)
        if inspection.is_severe:
            raise typer.Exit(FAILED)


@store_commands.command()
def repair(
    directory: Directory,
    commitlog: CommitLogs = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without this nothing is written.")] = False,
    cut: Annotated[
        bool, typer.Option("--cut", help="Cut the log at its first damaged place instead of filling such places.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what would be mended, and with --yes mend it; what is cut or overwritten is kept in DIR.

    Exit status: 0 there is nothing to mend or it is done, 1 there is something to mend, or it cannot be mended, 2 wrong
    use.
    """
    from rocketpy.clock import SystemClock
    from rocketpy.store.inspection.lock_probe import is_locked
    from rocketpy.store.inspection.plain_files_disk import DirectoryBoundDisk
    from rocketpy.store.inspection.repair.repair import plan_repair, repair_store
    from rocketpy.store.layout import LOCK_FILE

    root, paths = str(directory), commit_log_paths(commitlog)
    disk = DirectoryBoundDisk([root, *paths])

    def show(steps: Sequence[RepairStep]) -> None:
        for number, step in enumerate(steps, 1):
            if as_json:
                print_json(step_fields(step))
            else:
                print_lines(step_lines(number, step))

    with outcome():
        if is_locked(f"{root}/{LOCK_FILE}"):
            raise CommandError(f"a broker has {root} open: stop it first")
        with progress_bar("reading the log") as advance:
            if yes:
                report = repair_store(
                    disk,
                    root,
                    timestamp_ms=SystemClock().timestamp_ms(),
                    commit_log_paths=paths,
                    cut=cut,
                    progress=advance,
                    planned=show,
                )
            else:
                report = plan_repair(disk, root, commit_log_paths=paths, cut=cut, progress=advance)
        if not yes:
            show(report.steps)
        for finding in report.left:
            show_finding(finding, as_json=as_json, err=True)
        if not report.steps:
            print_line("nothing can be mended" if report.left else "nothing has to be mended", err=as_json)
        elif yes:
            kept = f"; what was there before is in {report.kept_path}" if report.kept_path else ""
            print_line(f"done{kept}", err=as_json)
        else:
            print_line("nothing was written; --yes does these steps", err=as_json)
        if report.left or (report.steps and not yes):
            raise typer.Exit(FAILED)


@store_commands.command()
def export(
    directory: Directory,
    commitlog: CommitLogs = None,
    topic: Annotated[str | None, typer.Option("-t", "--topic", help="One topic only.", show_default=False)] = None,
    queue: Annotated[
        int | None, typer.Option("-q", "--queue", min=0, help="One queue id only.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Option("-k", "--key", help="Messages with this key or message id.", show_default=False)
    ] = None,
    begin: Annotated[str, typer.Option(help="Stored at this time or later: ISO 8601, or ms since the epoch.")] = "",
    end: Annotated[str, typer.Option(help="Stored at this time or earlier.")] = "",
    offsets: Annotated[str, typer.Option(metavar="FROM:TO", help="Queue offsets FROM up to, without, TO.")] = "",
    through_log: Annotated[
        bool, typer.Option("--through-log", help="In the order of the log, even where there are queues.")
    ] = False,
    as_base64: Annotated[bool, typer.Option("--base64", help="Every body in base64, not only binary ones.")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A file instead of standard output.")] = None,
) -> None:
    """Write messages as JSON, a line each; damaged places are passed over and reported on standard error.

    Exit status: 0 all of it is there, 1 something was passed over, 2 wrong use.
    """
    from rocketpy.store.inspection.plain_files_disk import PlainFilesDisk
    from rocketpy.store.inspection.show.export import ExportWish, StoreExport
    from rocketpy.store.inspection.show.message_fields import body_fields, message_fields

    first, behind = parse_offsets(offsets)
    wish = ExportWish(
        topic=topic,
        queue_id=queue,
        key=key,
        begin_timestamp_ms=parse_time(begin, "--begin", 0),
        end_timestamp_ms=parse_time(end, "--end", FOREVER),
        begin_offset=first,
        end_offset=behind,
        through_log=through_log,
    )
    complaints = 0

    def report(text: str) -> None:
        nonlocal complaints
        complaints += 1
        print_line(f"rocketpy: {text}", err=True)

    with outcome():
        warn_if_locked(directory)
        exported = StoreExport(
            PlainFilesDisk(), str(directory), wish, commit_log_paths=commit_log_paths(commitlog), report=report
        )
        try:
            with opened_output(output) as file:
                for message in exported.messages():
                    fields = message_fields(message) | body_fields(message.body, as_base64=as_base64)
                    file.write(json_bytes(fields) + b"\n")
        finally:
            exported.close()
        if complaints:
            raise typer.Exit(FAILED)


@contextmanager
def opened_output(path: Path | None) -> Iterator[BinaryIO]:
    """Open the file of --output, or give standard output; all is written when the block has ended."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        file = path.open("wb")
    except OSError as failure:
        raise CommandError(f"cannot write {path}: {failure.strerror}") from failure
    with file:
        yield file


def parse_time(text: str, option: str, default_ms: int) -> int:
    """Return a time in ms since the epoch; without a zone it is local."""
    if not text:
        return default_ms
    if text.isdecimal():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        expected = "2026-01-31T23:59:59, with +02:00 or Z for a zone, or ms since the epoch"
        raise typer.BadParameter(f"{text!r}, expected {expected}", param_hint=option) from None


def parse_offsets(text: str) -> tuple[int, int]:
    """Return what --offsets means; either side may be left out."""
    first, colon, behind = text.partition(":")
    if any(each and not each.isdecimal() for each in (first, behind)) or (text and not colon):
        raise typer.BadParameter(f"{text!r}, expected FROM:TO", param_hint="--offsets")
    return int(first or 0), int(behind) if behind else FOREVER


def warn_if_locked(directory: Path) -> bool:
    """Whether a broker has the store open; says what that means for a reader."""
    from rocketpy.store.inspection.lock_probe import is_locked
    from rocketpy.store.layout import LOCK_FILE

    locked = is_locked(str(directory / LOCK_FILE))
    if locked:
        print_line(f"rocketpy: a broker has {directory} open: what it is writing now is not judged", err=True)
    return locked


def inspected(directory: Path, commitlog: list[str] | None, *, is_live: bool) -> StoreInspection:
    """Return a finished look at a store, showing on a terminal how far it has come."""
    from rocketpy.store.inspection.plain_files_disk import PlainFilesDisk
    from rocketpy.store.inspection.verify.store_inspection import StoreInspection

    inspection = StoreInspection(
        PlainFilesDisk(), str(directory), commit_log_paths=commit_log_paths(commitlog), is_live=is_live
    )
    try:
        with progress_bar("reading the log") as advance:
            for done, total in inspection.run():
                advance(done, total)
    finally:
        inspection.close()
    return inspection


def commit_log_paths(commitlog: list[str] | None) -> tuple[str, ...]:
    """Return the directories of --commitlog; RocketMQ's comma separates them too."""
    return tuple(path.rstrip("/") for each in commitlog or () for path in each.split(",") if path)


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error while the block runs, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def show_finding(finding: Finding, *, as_json: bool, err: bool = False) -> None:
    """Print a finding, on standard error if ``err``."""
    if as_json:
        print_json(finding.as_fields(), err=err)
    else:
        print_lines(finding_lines(finding), err=err)


def finding_lines(finding: Finding) -> list[str]:
    """Return a finding for a person."""
    where = finding.path if finding.position is None else f"{finding.path} at {finding.position}"
    return [
        f"{finding.severity.value}: {where}",
        f"    expected {finding.expected}",
        f"    found    {finding.found}",
        f"    a start  {finding.start}",
        f"    a repair {finding.repair}",
    ]


def step_lines(number: int, step: RepairStep) -> list[str]:
    """Return a step for a person."""
    place = step.path
    if step.begin is not None:
        place += f" from {step.begin} on" if step.end is None else f" from {step.begin} to {step.end}"
    return [f"{number}. {place}", f"    {step.does}", f"    because: {step.why}"]


def step_fields(step: RepairStep) -> dict[str, object]:
    """Return a step as what JSON can say."""
    return {"path": step.path, "begin": step.begin, "end": step.end, "does": step.does, "why": step.why}


def summary_text(inspection: StoreInspection) -> str:
    """Return in a line what was looked at."""
    looked_at = inspection.summary()
    hidden = looked_at.finding_count - len(inspection.findings)
    more = f" ({hidden} more are not shown)" if hidden else ""
    return (
        f"{_counted(looked_at.record_count, 'record')} from {looked_at.log_begin} to {looked_at.log_end}, "
        f"{_counted(looked_at.unit_count, 'unit')} in {_counted(looked_at.queue_count, 'queue')}, "
        f"{looked_at.entry_count} in the index: {_counted(looked_at.finding_count, 'finding')}{more}"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
