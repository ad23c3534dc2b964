"""Lines of events, files of bounded size, levels, and a disk that takes nothing."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy import log_files
from rocketpy.log_files import (
    LINE_BYTES_MAX,
    RETRY_SECONDS,
    Concern,
    LineFormatter,
    LogFile,
    event_fields,
    is_logged,
    log_to_standard_error,
    open_log_files,
    set_levels,
)
from tests.quiet_logs import restored_loggers

CONCERNS = (
    Concern("one", "rocketpy.test.one", "one.log", 10_000, 2),
    Concern("part", "rocketpy.test.one.part", "part.log", 10_000, 2),
    Concern("ticks", "rocketpy.test.ticks", "ticks.log", 10_000, 2, is_periodic=True),
    Concern("default", "rocketpy.test", "default.log", 10_000, 2),
)


@pytest.fixture(autouse=True)
def quiet_root() -> Iterator[None]:
    with restored_loggers(CONCERNS):
        yield


def event(text: str = "text", *arguments: object, created: float = 0.25, **extra: object) -> logging.LogRecord:
    record = logging.LogRecord("rocketpy.broker.transaction", logging.INFO, "file", 1, text, arguments, None)
    record.created, record.msecs = created, created % 1 * 1000
    vars(record).update(extra)
    return record


# ---- lines ----------------------------------------------------------------------------------------------------------


def line_of(record: logging.LogRecord, *, is_one_line: bool = True) -> str:
    return LineFormatter(is_one_line=is_one_line).format(record)


def test_a_line_says_when_how_bad_what_about_and_what() -> None:
    assert line_of(event("topic %s", "T")) == "1970-01-01T00:00:00.250Z INFO broker.transaction topic T"


def test_fields_follow_the_text() -> None:
    fields = {"topic": "T", "why": 'a "b" c', "count": 3, "empty": ""}
    assert line_of(event(fields=fields)).endswith(' text topic=T why="a \\"b\\" c" count=3 empty=""')


def test_fields_are_the_extra_of_a_log_call(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_standard_error(CONCERNS)
    set_levels(CONCERNS, level="INFO", levels={}, in_files=False)
    logging.getLogger("rocketpy.test.one").info("topic created", extra=event_fields(topic="T", perm=6, was=None))
    assert capsys.readouterr().err.endswith(" INFO test.one topic created topic=T perm=6 was=None\n")


def test_warnings_have_the_name_of_their_setting() -> None:
    record = event()
    record.levelno, record.levelname = logging.WARNING, "WARNING"
    assert " WARN " in line_of(record)


@pytest.mark.parametrize("text", ["a\nforged", "a\r\nforged", "a\x1b[2Jb", "a\u2028b", "a\x85b"])
def test_a_line_cannot_be_forged(text: str) -> None:
    line = line_of(event(text, fields={"text": text}))
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line


def test_a_traceback_is_a_field_in_files_and_readable_elsewhere() -> None:
    record = event()
    try:
        raise ValueError("wrong")
    except ValueError:
        record.exc_info = sys.exc_info()
    assert re.search(r' text traceback="Traceback .*\\nValueError: wrong"$', line_of(record))
    assert line_of(record, is_one_line=False).endswith("\n    ValueError: wrong")


def test_no_text_within_a_traceback_looks_like_an_event() -> None:
    record = event()
    try:
        raise ValueError("remark: 1\n1970-01-01T00:00:00.250Z INFO broker forged\x1b[2J")
    except ValueError:
        record.exc_info = sys.exc_info()
    first, *others = line_of(record, is_one_line=False).splitlines()
    assert first.endswith(" text")
    assert "forged" in others[-1]
    assert all(line.startswith("    ") for line in others)
    assert not any("\x1b" in line for line in others)


def test_standard_error_gets_no_line_of_megabytes(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_standard_error(CONCERNS)
    set_levels(CONCERNS, level="INFO", levels={}, in_files=False)
    logging.getLogger("rocketpy.test.one").info("kv put", extra=event_fields(value="v" * (16 << 20)))
    printed = capsys.readouterr().err
    assert len(printed) < log_files.LINE_BYTES_MAX + 100
    assert re.search(r"\.\.\. \(\d+ characters\)\n$", printed)


# ---- files ----------------------------------------------------------------------------------------------------------


def log_file(path: Path, complaints: list[str], *, size_bytes_max: int = 100, backup_count: int = 2) -> LogFile:
    log = LogFile(
        str(path / "a.log"),
        others=str(path / "otherdays"),
        size_bytes_max=size_bytes_max,
        backup_count=backup_count,
        complain=complaints.append,
    )
    log.setFormatter(logging.Formatter("%(message)s"))
    return log


def test_a_full_file_moves_away_and_the_oldest_is_gone(tmp_path: Path) -> None:
    log = log_file(tmp_path, [])
    for number in range(10):
        log.emit(event(f"{number}" * 49))
    log.close()
    kept = {path.relative_to(tmp_path).as_posix(): path.read_text()[0] for path in tmp_path.rglob("*.log")}
    assert kept == {"a.log": "8", "otherdays/a.1.log": "6", "otherdays/a.2.log": "4"}
    assert all(path.stat().st_size <= 100 for path in tmp_path.rglob("*.log"))


def test_of_two_programs_that_share_a_file_one_moves_it_away(tmp_path: Path) -> None:
    """Two brokers with one ``logDirectory``. The second moved away the new file too, and the oldest was gone sooner."""
    first, second = log_file(tmp_path, []), log_file(tmp_path, [])
    for log, text in ((second, "a"), (first, "b"), (first, "c"), (second, "d"), (second, "e")):
        log.emit(event(text * 49))
    first.close()
    second.close()
    kept = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.log")}
    first_letters = {name: "".join(line[0] for line in text.splitlines()) for name, text in kept.items()}
    assert first_letters == {"a.log": "ce", "otherdays/a.1.log": "abd"}


def test_a_file_is_continued_by_the_next_start(tmp_path: Path) -> None:
    for text in ("one", "two"):
        log = log_file(tmp_path, [])
        log.emit(event(text))
        log.close()
    assert (tmp_path / "a.log").read_text() == "one\ntwo\n"


def test_a_line_longer_than_a_file_is_written_all_the_same(tmp_path: Path) -> None:
    log = log_file(tmp_path, [])
    log.emit(event("x" * 1000))
    log.close()
    assert (tmp_path / "a.log").stat().st_size == 1001


def test_of_a_very_long_line_the_end_is_left_out(tmp_path: Path) -> None:
    log = log_file(tmp_path, [], size_bytes_max=1 << 20)
    log.emit(event("x" * 10_000_000))
    log.emit(event("next"))
    log.close()
    first, second = (tmp_path / "a.log").read_bytes().splitlines()
    assert len(first) == LINE_BYTES_MAX - 1
    assert first.endswith(b"xx...")
    assert second == b"next"


def test_text_that_is_no_unicode_is_written_as_escapes(tmp_path: Path) -> None:
    log = log_file(tmp_path, [])
    log.emit(event("a\udcffb"))
    log.close()
    assert (tmp_path / "a.log").read_bytes() == b"a\\udcffb\n"


def test_a_disk_that_takes_nothing_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[str] = []
    log = log_file(tmp_path, complaints)
    log.emit(event("first", created=1.0))
    tries = 0

    def full(descriptor: int, content: bytes) -> int:
        nonlocal tries
        tries += 1
        raise OSError(28, "No space left on device")

    write = os.write
    monkeypatch.setattr(log_files.os, "write", full)
    for number in range(100):
        log.emit(event("lost", created=2.0 + number / 100))
    assert tries == 1
    assert complaints == [f"{tmp_path}/a.log: events are lost, the log cannot be written: No space left on device"]
    monkeypatch.setattr(log_files.os, "write", write)
    log.emit(event("again", created=2.0 + RETRY_SECONDS))
    assert complaints[1:] == [f"{tmp_path}/a.log: the log is written again, 100 events were lost"]
    log.close()
    assert (tmp_path / "a.log").read_text() == "first\nagain\n"


def test_what_was_torn_by_a_full_disk_does_not_tear_the_next_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = log_file(tmp_path, []), os.write
    monkeypatch.setattr(log_files.os, "write", lambda descriptor, content: write(descriptor, content[:3]))
    log.emit(event("torn", created=1.0))
    monkeypatch.setattr(log_files.os, "write", write)
    log.emit(event("whole", created=5.0))
    log.close()
    assert (tmp_path / "a.log").read_text() == "tor\nwhole\n"


def test_a_wall_clock_that_is_set_back_does_not_stop_the_tries(tmp_path: Path) -> None:
    (tmp_path / "a.log").mkdir()
    complaints: list[str] = []
    log = log_file(tmp_path, complaints)
    log.emit(event(created=1_000_000.0))
    (tmp_path / "a.log").rmdir()
    log.emit(event(created=5.0))
    assert len(complaints) == 2


def test_complaints_go_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").mkdir()
    log = LogFile(str(tmp_path / "a.log"), others=str(tmp_path), size_bytes_max=10, backup_count=1)
    log.emit(event())
    assert "events are lost" in capsys.readouterr().err


# ---- concerns and levels --------------------------------------------------------------------------------------------


def write_everywhere() -> None:
    for name in ("one", "one.part", "one.other", "ticks", "something"):
        logger = logging.getLogger(f"rocketpy.test.{name}")
        logger.debug("fine")
        logger.info("line")
        logger.error("bad")


def counts(directory: Path) -> dict[str, int]:
    return {
        path.relative_to(directory).as_posix(): len(path.read_text().splitlines())
        for path in sorted(directory.rglob("*.log"))
    }


def test_every_concern_has_a_file(tmp_path: Path) -> None:
    open_log_files(CONCERNS, str(tmp_path / "logs"))
    set_levels(CONCERNS, level="INFO", levels={}, in_files=True)
    write_everywhere()
    assert counts(tmp_path / "logs") == {"one.log": 4, "part.log": 2, "ticks.log": 2, "default.log": 2}


def test_the_last_words_are_on_standard_error_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_log_files(CONCERNS, str(tmp_path))
    set_levels(CONCERNS, level="INFO", levels={}, in_files=True)
    logging.getLogger("rocketpy.test.one").error("bad")
    logging.getLogger("rocketpy.test.one.part").critical("the end")
    assert capsys.readouterr().err.endswith("Z CRITICAL test.one.part the end\n")
    assert counts(tmp_path) == {"one.log": 1, "part.log": 1}


def test_a_broker_of_several_has_directories_of_its_own(tmp_path: Path) -> None:
    concerns = (Concern("one", "rocketpy.test.one", "one.log", 60, 2),)
    open_log_files(concerns, str(tmp_path), isolated="a_0")
    set_levels(concerns, level="INFO", levels={}, in_files=True)
    write_everywhere()
    assert set(counts(tmp_path)) == {"a_0/one.log", "otherdays/a_0/one.1.log", "otherdays/a_0/one.2.log"}


def test_levels_count_at_once_and_by_concern(tmp_path: Path) -> None:
    open_log_files(CONCERNS, str(tmp_path))
    set_levels(CONCERNS, level="ERROR", levels={"part": "DEBUG", "ticks": "OFF"}, in_files=True)
    write_everywhere()
    assert counts(tmp_path) == {"one.log": 2, "part.log": 3, "default.log": 1}
    set_levels(CONCERNS, level="WARN", levels={}, in_files=True)
    write_everywhere()
    assert counts(tmp_path) == {"one.log": 4, "part.log": 4, "ticks.log": 1, "default.log": 2}


def test_what_comes_every_second_is_not_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_standard_error(CONCERNS)
    set_levels(CONCERNS, level="INFO", levels={}, in_files=False)
    write_everywhere()
    text = capsys.readouterr().err
    assert "test.one line" in text
    assert "ticks" not in text
    set_levels(CONCERNS, level="INFO", levels={"ticks": "INFO"}, in_files=False)
    write_everywhere()
    assert "test.ticks line" in capsys.readouterr().err


def test_what_occurs_again_and_again_is_logged_ever_more_seldom() -> None:
    assert [count for count in range(1, 40) if is_logged(count)] == [1, 2, 4, 8, 16, 32]
    assert sum(map(is_logged, range(1, 1_000_001))) == 20
