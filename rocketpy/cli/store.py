"""``rocketpy store``: inspects the store directory of a rocketpy or Java broker, running or not.

Holds only options and output; the inspection itself is in :mod:`rocketpy.store`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from rocketpy.cli.dump import dump
from rocketpy.cli.outcome import FAILED, CommandError, outcome
from rocketpy.cli.printing import json_bytes, print_line
from rocketpy.cli.store_report import repair_summary, show_finding, show_kept_tail, show_steps, summary_text

if TYPE_CHECKING:
    from rocketpy.store.inspection.show.export import ExportOptions
    from rocketpy.store.inspection.verify.store_inspection import StoreInspection

store_commands = typer.Typer(
    help="Inspect and repair the files of a store.", no_args_is_help=True, rich_markup_mode=None
)

store_commands.command()(dump)

FOREVER = 1 << 62
"""An upper bound that no time and no queue offset reaches."""

Directory = Annotated[
    Path,
    typer.Argument(metavar="DIR", exists=True, file_okay=False, show_default=False, help="The store's directory."),
]
CommitLogs = Annotated[
    list[str] | None,
    typer.Option(
        "--commitlog",
        help="CommitLog directory, if not DIR/commitlog; may be repeated for several directories.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("-J", "--json", help="A JSON object a line.")]


@store_commands.command()
def verify(directory: Directory, commitlog: CommitLogs = None, as_json: AsJson = False) -> None:
    """Read the whole store and report its defects. Read-only.

    Exit status: 0 no defect (a notice is resolved by the next start), 1 at least one defect, 2 wrong usage.
    """
    with outcome():
        inspection = inspected(directory, commitlog, is_live=warn_if_locked(directory))
        for finding in inspection.findings:
            show_finding(finding, as_json=as_json)
        print_line(summary_text(inspection.summary(), shown_count=len(inspection.findings)), err=as_json)
        if inspection.is_severe:
            raise typer.Exit(FAILED)


@store_commands.command()
def repair(
    directory: Directory,
    commitlog: CommitLogs = None,
    yes: Annotated[bool, typer.Option("--yes", help="Carry out the repair. Without it nothing is written.")] = False,
    cut: Annotated[
        bool, typer.Option("--cut", help="Truncate the log at its first damage instead of filling damaged ranges.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the repair plan, and with --yes carry it out; bytes that are cut or overwritten are kept in DIR.

    Exit status: 0 nothing to repair, or repaired, 1 something to repair, or not repairable, 2 wrong usage.
    """
    from rocketpy.clock import SystemClock
    from rocketpy.store.inspection.lock_probe import is_locked
    from rocketpy.store.inspection.plain_files_disk import DirectoryBoundDisk
    from rocketpy.store.inspection.repair.repair import plan_repair, repair_store
    from rocketpy.store.layout import LOCK_FILE

    root, paths = str(directory), commit_log_paths(commitlog)
    disk = DirectoryBoundDisk([root, *paths])
    show = partial(show_steps, as_json=as_json)

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
        print_line(repair_summary(report, is_repaired=yes), err=as_json)
        if report.left or (report.steps and not yes):
            raise typer.Exit(FAILED)


@store_commands.command()
def diverged(directory: Directory, as_json: AsJson = False) -> None:
    """List the parts of a slave's log that were cut off where it parted from its master's. Read-only.

    "store dump PATH" prints the records of one, "store export DIR --commitlog PATH --through-log" exports them.
    """
    from rocketpy.store.inspection.plain_files_disk import PlainFilesDisk
    from rocketpy.store.inspection.show.diverged import kept_tails

    with outcome():
        for tail in kept_tails(PlainFilesDisk(), str(directory)):
            show_kept_tail(tail, as_json=as_json)


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
    offsets: Annotated[
        str, typer.Option(metavar="FROM:TO", help="Queue offsets FROM (inclusive) to TO (exclusive).")
    ] = "",
    through_log: Annotated[
        bool, typer.Option("--through-log", help="In the order of the log, even if there are queues.")
    ] = False,
    as_base64: Annotated[bool, typer.Option("--base64", help="Every body in base64, not only binary ones.")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A file instead of standard output.")] = None,
) -> None:
    """Write messages as JSON, one per line; damaged ranges are skipped and reported on standard error.

    Exit status: 0 complete, 1 something was skipped, 2 wrong usage.
    """
    from rocketpy.store.inspection.show.export import ExportOptions

    first, end_offset = parse_offsets(offsets)
    options = ExportOptions(
        topic=topic,
        queue_id=queue,
        key=key,
        begin_timestamp_ms=parse_time(begin, "--begin", 0),
        end_timestamp_ms=parse_time(end, "--end", FOREVER),
        begin_offset=first,
        end_offset=end_offset,
        through_log=through_log,
    )
    with outcome():
        warn_if_locked(directory)
        if write_messages(directory, commit_log_paths(commitlog), options, output, as_base64=as_base64):
            raise typer.Exit(FAILED)


def write_messages(
    directory: Path, log_paths: tuple[str, ...], options: ExportOptions, output: Path | None, *, as_base64: bool
) -> int:
    """Write messages as JSON, one per line; return how many damaged ranges were reported and skipped."""
    from rocketpy.store.inspection.plain_files_disk import PlainFilesDisk
    from rocketpy.store.inspection.show.export import StoreExport
    from rocketpy.store.inspection.show.message_fields import body_fields, message_fields

    complaints = 0

    def report(text: str) -> None:
        nonlocal complaints
        complaints += 1
        print_line(f"rocketpy: {text}", err=True)

    exported = StoreExport(PlainFilesDisk(), str(directory), options, commit_log_paths=log_paths, report=report)
    try:
        with opened_output(output) as file:
            for message in exported.messages():
                fields = message_fields(message) | body_fields(message.body, as_base64=as_base64)
                file.write(json_bytes(fields) + b"\n")
    finally:
        exported.close()
    return complaints


@contextmanager
def opened_output(path: Path | None) -> Iterator[BinaryIO]:
    """Open the file of --output, or use standard output; everything is flushed at the end of the block."""
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
    """Parse --offsets into begin and end; either side may be left out."""
    first, colon, end = text.partition(":")
    if any(each and not each.isdecimal() for each in (first, end)) or (text and not colon):
        raise typer.BadParameter(f"{text!r}, expected FROM:TO", param_hint="--offsets")
    return int(first or 0), int(end) if end else FOREVER


def warn_if_locked(directory: Path) -> bool:
    """Whether a broker has the store open; if so, prints a notice about its unfinished writes."""
    from rocketpy.store.inspection.lock_probe import is_locked
    from rocketpy.store.layout import LOCK_FILE

    locked = is_locked(str(directory / LOCK_FILE))
    if locked:
        print_line(f"rocketpy: a broker has {directory} open: writes in progress are not checked", err=True)
    return locked


def inspected(directory: Path, commitlog: list[str] | None, *, is_live: bool) -> StoreInspection:
    """Run an inspection of a store to its end, with a progress bar on a terminal."""
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
    """Return the directories of --commitlog, which RocketMQ's comma may separate too."""
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
