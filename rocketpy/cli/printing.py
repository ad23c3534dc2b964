r"""Output of the commands, with control characters escaped.

Names of topics and brokers, properties, paths and remarks come from peers and from foreign disks. Printed unchanged
they could set the title of a terminal, move its cursor or forge an output line. Text output shows control characters as
``\x1b``, JSON as ``\u001b``, including DEL and the C1 controls, which some terminals interpret too.

Rule: a message body is data and is written unchanged (``consume``, ``export``), except to a terminal.
"""

from __future__ import annotations

import re

import msgspec
import typer

from rocketpy.log_files import escaped

# In UTF-8: DEL, and the C1 controls, of which U+009B begins a sequence as ESC [ does.
_LEFT_BY_JSON = re.compile(rb"\x7f|\xc2[\x80-\x9f]")


def print_line(text: str, *, err: bool = False) -> None:
    """Print one line, on standard error if ``err``."""
    typer.echo(escaped(text), err=err)


def print_lines(lines: list[str], *, err: bool = False) -> None:
    """Print several lines; a line break within one of them is escaped."""
    for line in lines:
        print_line(line, err=err)


def json_bytes(fields: object) -> bytes:
    """Return a JSON object of one line in which no byte is a control character."""
    return _LEFT_BY_JSON.sub(_json_escape, msgspec.json.encode(fields))


def print_json(fields: object, *, err: bool = False) -> None:
    """Print a JSON object on a line of its own."""
    typer.echo(json_bytes(fields).decode(), err=err)


def escaped_body(body: bytes) -> bytes:
    """Return a message body as it may be shown on a terminal."""
    return escaped(body.decode("utf-8", "backslashreplace")).encode()


def _json_escape(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(match.group().decode())
