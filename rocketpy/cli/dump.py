"""``rocketpy store dump``: prints any file of a store. Holds only options and output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketpy.cli.outcome import outcome
from rocketpy.cli.printing import json_bytes
from rocketpy.log_files import escaped

if TYPE_CHECKING:
    from rocketpy.store.inspection.show.dump import Item


def dump(
    path: Annotated[
        Path, typer.Argument(metavar="FILE_OR_DIR", exists=True, help="A file of a store, or a directory of them.")
    ],
    begin: Annotated[
        int | None,
        typer.Option("--from", min=0, help="From this offset of the log, queue offset or index entry on.", metavar="N"),
    ] = None,
    count: Annotated[
        int | None, typer.Option("-c", "--count", min=0, help="At most so many items of each file, or of a log.")
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option(
            "-o", "--offset", min=0, metavar="N", help="Only what is at this offset of the log, queue offset or entry."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Whole bodies.")] = False,
    as_hex: Annotated[bool, typer.Option("--hex", help="Bodies in hex.")] = False,
    slots: Annotated[bool, typer.Option("--slots", help="The hash slots of index files too.")] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="A JSON object a line.")] = False,
) -> None:
    """Print the contents of a store file: log, queue, extension, index, checkpoint or table. Read-only."""
    from rocketpy.store.inspection.plain_files_disk import PlainFilesDisk
    from rocketpy.store.inspection.show.dump import DumpOptions, StoreDump

    options = DumpOptions(
        begin=begin, count=count, offset=offset, is_full=full, as_hex=as_hex, with_slots=slots, as_json=as_json
    )
    with outcome():
        output = sys.stdout.buffer
        store_dump = StoreDump(PlainFilesDisk(), options)
        try:
            for item in store_dump.items(str(path)):
                output.write((json_line(item) if as_json else text_line(item).encode("utf-8", "replace")) + b"\n")
            output.flush()
        finally:
            store_dump.close()


def json_line(item: Item) -> bytes:
    """Return an item as a JSON object."""
    return json_bytes({"kind": item.kind, **item.fields})


def text_line(item: Item) -> str:
    """Return an item as one line of text: its kind, then ``name=value`` for each field."""
    return escaped(" ".join([item.kind, *(f"{name}={_text(value)}" for name, value in item.fields.items())]))


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, str) and (" " in value or not value):
        return repr(value)
    return "-" if value is None else str(value)
