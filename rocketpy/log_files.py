"""Logging: one line per event, to standard error or to one size-limited file per concern.

::

    2026-11-21T17:00:00.123Z INFO broker.transaction half message checked topic=T queueId=0
    time in UTC              level concern           text                  fields

A concern is a logger with all loggers below it that are no concerns of their own. Its file is in a directory; when it
is full it goes to ``otherdays`` beside it as ``name.1.log``, the older ones move up, and the oldest is deleted.

Rule: logging never stops a program. Lines that cannot be written are lost; this is reported once on standard error, and
once more when writing works again. One event is one line: control characters are escaped, so that a text from a peer
cannot forge a line.

This module knows no program and no concern.

Compatibility: the names, sizes and numbers of files are those of RocketMQ's logback files; there ``otherdays`` is
compressed, and times are those of China. Here files are as they were written: compressing 128 MiB takes a second.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import attrs

OTHER_DAYS = "otherdays"
OFF = logging.CRITICAL + 10
"""A level that no event has."""

LEVELS: Mapping[str, int] = {
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "OFF": OFF,
}

LINE_BYTES_MAX = 65_536
"""Longer lines are truncated, so that a peer with long names cannot fill the disk."""

RETRY_SECONDS = 1.0
"""After a failed write so long nothing is tried: a full disk must not cost a system call per event."""

ROOT_NAME = "rocketpy."
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PLAIN_VALUE = re.compile(r"[^\s\"=\x00-\x1f\x7f-\x9f]+\Z")


@attrs.frozen
class Concern:
    """Subject of one log file. ``is_periodic``: lines at fixed intervals, which go to files only unless requested."""

    name: str
    logger: str
    file_name: str
    size_bytes_max: int
    backup_count: int
    is_periodic: bool = False


class LineFormatter(logging.Formatter):
    """Makes the line of an event.

    With ``is_one_line`` a traceback is a field and the handler bounds the line. Without, for standard error, a
    traceback follows on indented lines of its own, and all of it is cut after ``LINE_BYTES_MAX`` characters.
    """

    def __init__(self, *, is_one_line: bool) -> None:
        super().__init__("%(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime
        self._is_one_line = is_one_line

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, concern, text and the ``fields`` of ``extra``."""
        level = "WARN" if record.levelno == logging.WARNING else record.levelname
        concern = record.name.removeprefix(ROOT_NAME)
        when = f"{self.formatTime(record, self.datefmt)}.{int(record.msecs):03d}Z"
        line = f"{when} {level} {concern} {escaped(_cut(record.getMessage()))}"
        fields = vars(record).get("fields")
        if isinstance(fields, Mapping):
            line += "".join(f" {name}={_value(value)}" for name, value in fields.items())
        if record.exc_info:
            traceback = self.formatException(record.exc_info)
            line += f' traceback="{escaped(traceback)}"' if self._is_one_line else _indented(traceback)
        return line if self._is_one_line else _cut(line)


def event_fields(**fields: object) -> dict[str, object]:
    """Return what to pass as ``extra`` of a log call: the fields that follow the text on the line.

    >>> event_fields(topic="T")
    {'fields': {'topic': 'T'}}
    """
    return {"fields": fields}


def is_logged(count: int) -> bool:
    """Whether the ``count``-th occurrence of an event is logged: the first, second, fourth, eighth and so on.

    For what peers or a full disk cause again and again: a million occurrences are 20 lines.

    >>> [count for count in range(1, 20) if is_logged(count)]
    [1, 2, 4, 8, 16]
    """
    return count & (count - 1) == 0


def escaped(text: str) -> str:
    r"""Return a text with its control characters as escapes.

    >>> escaped("a\nb")
    'a\\nb'
    """
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


def _indented(traceback: str) -> str:
    """Return a traceback as lines that begin with blanks, so that no text in it can look like an event."""
    return "".join(f"\n    {escaped(line)}" for line in traceback.split("\n"))


def _cut(text: str) -> str:
    return text if len(text) <= LINE_BYTES_MAX else f"{text[:LINE_BYTES_MAX]}... ({len(text)} characters)"


def _value(value: object) -> str:
    text = _cut(str(value))  # before the searches, which cost a second for what a frame can hold
    return text if _PLAIN_VALUE.match(text) else '"' + escaped(text).replace('"', '\\"') + '"'


class LogFile(logging.Handler):
    """Appends lines to a file of bounded size. Nothing is buffered: a kill loses no line that was written."""

    def __init__(
        self,
        path: str,
        *,
        others: str,
        size_bytes_max: int,
        backup_count: int,
        complain: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__()
        self._path = path
        self._others = others  # the directory of the older files
        self._size_bytes_max = size_bytes_max
        self._backup_count = backup_count
        self._complain = complain or _to_standard_error
        self._descriptor = -1
        self._size_bytes = 0
        self._is_line_torn = False
        self._lost_count = 0
        self._retry_at = 0.0  # by the times of events

    def emit(self, record: logging.LogRecord) -> None:
        """Write an event's line, or count it as lost."""
        if self._lost_count and abs(record.created - self._retry_at) < RETRY_SECONDS:
            self._lost_count += 1
            return
        line = self.format(record).encode("utf-8", "backslashreplace")
        line = line + b"\n" if len(line) < LINE_BYTES_MAX else line[: LINE_BYTES_MAX - 4] + b"...\n"
        try:
            self._write(line)
        except OSError as failure:
            if not self._lost_count:
                self._complain(f"{self._path}: events are lost, the log cannot be written: {failure.strerror}")
            self._lost_count += 1
            self._retry_at = record.created
            self._close_file()
            return
        if self._lost_count:
            self._complain(f"{self._path}: the log is written again, {self._lost_count} events were lost")
            self._lost_count = 0

    def close(self) -> None:
        """Close the file."""
        self._close_file()
        super().close()

    # ---- private --------------------------------------------------------------------------------------------------

    def _write(self, line: bytes) -> None:
        if self._descriptor < 0:
            self._open_file()
        if self._size_bytes and self._size_bytes + len(line) > self._size_bytes_max:
            if self._is_in_its_place():
                self._roll()
            self._close_file()
            self._open_file()
        if self._is_line_torn:
            line = b"\n" + line
        wrote = os.write(self._descriptor, line)
        self._size_bytes += wrote
        self._is_line_torn = wrote < len(line)
        if self._is_line_torn:
            raise OSError(28, "No space left on device")

    def _open_file(self) -> None:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._size_bytes = os.fstat(self._descriptor).st_size
        self._is_line_torn &= self._size_bytes > 0

    def _close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _is_in_its_place(self) -> bool:
        """Whether the path leads to the open file; not if another program of the same directory has moved it away."""
        opened = os.fstat(self._descriptor)
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)

    def _roll(self) -> None:
        """Move the file to the others, each of which moves up by one; the last one is written over."""
        os.makedirs(self._others, exist_ok=True)
        stem = os.path.basename(self._path).removesuffix(".log")
        numbers = range(1, self._backup_count + 1)
        paths = [self._path, *(os.path.join(self._others, f"{stem}.{number}.log") for number in numbers)]
        for older, newer in zip(reversed(paths), reversed(paths[:-1]), strict=False):
            if os.path.exists(newer):
                os.replace(newer, older)


def open_log_files(concerns: Sequence[Concern], directory: str, *, isolated: str = "") -> None:
    """Let each concern go to its file; one about the logger "" gets what no other is about. OSError: no directory.

    What is critical, because the program ends with it, goes to standard error too.

    ``isolated`` is a directory of its own below both ``directory`` and its ``otherdays``, for one broker of several.
    Call once, in a ``__main__``. The handlers there were are taken away.
    """
    own = os.path.join(directory, isolated) if isolated else directory
    others = os.path.join(directory, OTHER_DAYS, isolated) if isolated else os.path.join(directory, OTHER_DAYS)
    os.makedirs(own, exist_ok=True)
    _detach(concerns)
    last_words = logging.StreamHandler()
    last_words.setLevel(logging.CRITICAL)
    last_words.setFormatter(LineFormatter(is_one_line=False))
    for concern in concerns:
        handler = LogFile(
            os.path.join(own, concern.file_name),
            others=others,
            size_bytes_max=concern.size_bytes_max,
            backup_count=concern.backup_count,
        )
        handler.setFormatter(LineFormatter(is_one_line=True))
        logger = logging.getLogger(concern.logger)
        logger.addHandler(handler)
        logger.addHandler(last_words)
        logger.propagate = False


def log_to_standard_error(concerns: Sequence[Concern]) -> None:
    """Let every concern go to standard error. Call once, in a ``__main__``."""
    _detach(concerns)
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(is_one_line=False))
    logging.getLogger().addHandler(handler)


def set_levels(concerns: Sequence[Concern], *, level: str, levels: Mapping[str, str], in_files: bool) -> None:
    """Say from which level on events count: ``levels`` by concern, ``level`` for all others. Effective at once.

    Both are names of LEVELS. Periodic concerns are off without files unless ``levels`` names them.
    """
    logging.getLogger().setLevel(LEVELS[level.upper()])
    for concern in concerns:
        name = levels.get(concern.name, "")
        if not name:
            name = "OFF" if concern.is_periodic and not in_files else level
        logging.getLogger(concern.logger).setLevel(LEVELS[name.upper()])


def _detach(concerns: Sequence[Concern]) -> None:
    loggers = [logging.getLogger(), *(logging.getLogger(each.logger) for each in concerns)]
    for logger in loggers:
        for handler in logger.handlers[:]:
            logger.removeHandler(handler)
            handler.close()
        logger.propagate = True


def _to_standard_error(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
