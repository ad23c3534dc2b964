"""Marks of places in a log: a log has the record that a mark names, or has lost it, or has another one there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.errors import RemoteProtocolError
from rocketpy.store.ha.log_mark import LogMark, LogMarks
from rocketpy.store.ha.record_digest import RecordDigests, digest_of
from rocketpy.store.ha.recorded_log import CommitLogRecords
from rocketpy.store.log.commit_log import CommitLog
from tests.store.ha.records import FILE, a_log, a_record
from tests.store.ha.test_log_source import run_now
from tests.store.ha.test_recorded_log import ranges, stored
from tests.store.parts import Place

RunBlocking = Callable[..., object]


def marks_of(log: CommitLog, run_blocking: object = run_now) -> LogMarks:
    records = CommitLogRecords(log, run_blocking=run_blocking)  # type: ignore[arg-type]
    return LogMarks(log, records, RecordDigests(log, run_blocking=run_blocking))  # type: ignore[arg-type]


def mark_at(content: bytes, begin: int, end: int) -> LogMark:
    return LogMark(end, end - begin, digest_of(content[begin:end]))


async def test_the_mark_of_an_empty_log_is_its_beginning_which_every_log_has(place: Place) -> None:
    marks = marks_of(stored(place, b""))
    mark = await marks.now()
    assert mark == LogMark()
    assert mark.is_beginning
    assert await marks_of(stored(place, b"")).has(mark)


async def test_the_mark_is_that_of_the_last_record_whatever_wrote_it(place: Place) -> None:
    """Burst by burst in one life, some of several records, over the ends of files; and found by a later life."""
    content = a_log(20)
    places = ranges(content)
    assert sum(each.is_blank for each in places) > 2
    log = stored(place, b"")
    log.add_file()
    marks, last = marks_of(log), LogMark()
    for number, each in enumerate(places):
        record = content[each.offset : each.end_offset]
        if each.is_blank:
            log.add_file(record)
        else:
            log.write(record, 1)
            last = mark_at(content, each.offset, each.end_offset)
        if number % 3 == 0 or each.is_blank:
            assert await marks.now() == last, each
            assert await marks_of(log).now() == last, "nothing is remembered"
    assert await marks.now() == last


async def test_a_log_has_the_marks_of_its_past(place: Place) -> None:
    content = a_log(20)
    log = stored(place, content)
    marks = marks_of(log)
    for each in ranges(content):
        if not each.is_blank:
            mark = mark_at(content, each.offset, each.end_offset)
            assert await marks.has(mark)
            assert not await marks.has(LogMark(mark.offset, mark.size, digest_of(b"another record")))
            assert not await marks.has(LogMark(mark.offset + 1, mark.size, mark.digest))
    end = log.wrote_offset
    assert not await marks.has(LogMark(end + 500, 500, digest_of(b"what has not arrived")))


async def test_a_log_that_parted_and_grew_past_a_mark_does_not_have_it(place: Place) -> None:
    first, second, other = a_record(0), a_record(len(a_record(0))), a_record(len(a_record(0)), body=b"Some body")
    assert len(second) == len(other)
    log = stored(place, first + other)
    marks = marks_of(log)
    end = len(first + second)
    assert not await marks.has(mark_at(first + second, len(first), end))
    assert await marks.has(mark_at(first + other, len(first), end))
    assert await marks.latest([mark_at(first + second, len(first), end), mark_at(first, 0, len(first))]) == mark_at(
        first, 0, len(first)
    )
    assert await marks.latest([mark_at(first + second, len(first), end)]) == LogMark()


async def test_what_is_appended_while_a_mark_is_made_is_not_in_it(place: Place) -> None:
    first = a_record(0)
    second = a_record(len(first))
    log = stored(place, first)

    async def run_and_append(function: Callable[..., object], *arguments: object) -> object:
        if log.wrote_offset == len(first):
            log.write(second, 1)
        return function(*arguments)

    mark = await marks_of(log, run_and_append).now()
    assert mark == mark_at(first, 0, len(first))
    assert await marks_of(log).now() == mark_at(first + second, len(first), len(first + second))


async def test_a_record_that_has_expired_counts_as_had(place: Place) -> None:
    content = a_log(20)
    log = stored(place, content)
    begin = ranges(content)[0]
    mark = mark_at(content, begin.offset, begin.end_offset)
    log.end_flush(log.begin_flush(), is_synced=True)  # type: ignore[arg-type]
    log.take_first(lambda file: file.close())
    assert log.min_offset == FILE
    assert await marks_of(log).has(mark)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"offset": 1, "size": 1},
        {"offset": True, "size": 1, "digest": "0" * 64},
        {"offset": 10, "size": 11, "digest": "0" * 64},
        {"offset": 1 << 63, "size": 11, "digest": "0" * 64},
        {"offset": 10, "size": 5, "digest": "x" * 64},
        {"offset": 0, "size": 0, "digest": "0" * 64},
    ],
)
def test_what_is_no_mark_is_refused(value: object) -> None:
    with pytest.raises(RemoteProtocolError, match=r"^the file: T: expected "):
        LogMark.from_json(value, "the file: T")


def test_a_mark_comes_back_from_its_form() -> None:
    for mark in (LogMark(), LogMark(10, 5, "0123456789abcdef" * 4)):
        assert LogMark.from_json(mark.as_json(), "here") == mark
