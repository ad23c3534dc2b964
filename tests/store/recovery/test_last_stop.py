"""The rule of where a start begins, on small values: each clause, and its order."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.store.recovery.checkpoint import DurableEnds, StoreCheckpoint
from rocketpy.store.recovery.last_stop import LastStop, LogEnds, QueueEnd, WalkBegin, begins_too_late
from rocketpy.store.recovery.marker_files import OrderlyEnd, digest_of_ends
from rocketpy.testing.sim.disk import SimDisk

QUEUE = QueueEnd("T", 0, 0, 5, lambda: 250)
NOTE = OrderlyEnd(350, 1000, digest_of_ends([("T", 0, 5)]), -1)
ENDS = DurableEnds(log_flushed_offset=220, durable_offset=210, unit_count=3)
TIMES = (10, 20, 30, 40)
LOG = LogEnds([(0, 100), (100, 200), (200, 300), (300, 400)], TIMES.__getitem__)
CLEAN = LastStop(seems_clean=True, durable_before_ms=25, ends=DurableEnds(350, 350, 5), note=NOTE)
SET_BACK = attrs.evolve(CLEAN, ends=ENDS)
KILLED = attrs.evolve(SET_BACK, seems_clean=False)
JAVA = attrs.evolve(CLEAN, ends=None, note=None)
EMPTY = LogEnds([], TIMES.__getitem__)


@pytest.mark.parametrize(
    ("has_abort_file", "time_ms", "seems_clean"), [(False, 1, True), (True, 1, False), (False, 0, False)]
)
def test_what_seems_clean(has_abort_file: bool, time_ms: int, seems_clean: bool) -> None:
    checkpoint = StoreCheckpoint(SimDisk(), "/checkpoint", time_ms)
    assert LastStop.of(has_abort_file=has_abort_file, checkpoint=checkpoint, note=NOTE).seems_clean is seems_clean


@pytest.mark.parametrize(
    ("stop", "begin"),
    [
        (CLEAN, WalkBegin(True, 350, 3, 350)),
        (attrs.evolve(CLEAN, note=None), WalkBegin(False, None, 3, 350)),
        (attrs.evolve(CLEAN, note=attrs.evolve(NOTE, queues_digest="")), WalkBegin(False, None, 3, 350)),
        (attrs.evolve(CLEAN, note=attrs.evolve(NOTE, end_offset=250)), WalkBegin(False, None, 3, 350)),
        (attrs.evolve(CLEAN, note=attrs.evolve(NOTE, end_offset=400)), WalkBegin(False, None, 3, 350)),
        (SET_BACK, WalkBegin(False, None, 2, 210)),
        (KILLED, WalkBegin(False, None, 2, 210)),
        (JAVA, WalkBegin(True, None, 1, None)),
        (attrs.evolve(JAVA, note=NOTE), WalkBegin(True, 350, 3, 350)),
        (attrs.evolve(JAVA, seems_clean=False), WalkBegin(False, None, 1, None)),
        (attrs.evolve(JAVA, seems_clean=False, durable_before_ms=5), WalkBegin(False, None, 0, None)),
        (attrs.evolve(KILLED, ends=attrs.evolve(ENDS, durable_offset=0)), WalkBegin(False, None, 0, None)),
        (attrs.evolve(KILLED, ends=attrs.evolve(ENDS, durable_offset=400)), WalkBegin(False, None, 3, 400)),
        (attrs.evolve(KILLED, ends=attrs.evolve(ENDS, durable_offset=900)), WalkBegin(False, None, 3, None)),
    ],
)
def test_where_the_walk_begins(stop: LastStop, begin: WalkBegin) -> None:
    assert stop.walk_begin([QUEUE], LOG) == begin


def test_a_log_without_files() -> None:
    assert CLEAN.walk_begin([QUEUE], EMPTY) == WalkBegin(True, 350, 0, 350)
    assert attrs.evolve(JAVA, seems_clean=False).walk_begin([], EMPTY) == WalkBegin(False, None, 0, None)
    assert (EMPTY.min_offset, EMPTY.end_offset, EMPTY.file_at(0)) == (0, 0, None)


def test_a_file_without_a_record_has_no_time() -> None:
    log = attrs.evolve(LOG, first_timestamp_ms=lambda index: 0)
    assert attrs.evolve(JAVA, seems_clean=False).walk_begin([], log).first_file == 0


@pytest.mark.parametrize(
    ("stop", "durable_end"),
    [
        (CLEAN, 350),
        (KILLED, 220),
        (attrs.evolve(CLEAN, ends=None), 350),
        (attrs.evolve(KILLED, ends=None), 350),
        (attrs.evolve(CLEAN, ends=None, note=attrs.evolve(NOTE, queues_digest="")), 250),
        (JAVA, 250),
        (attrs.evolve(JAVA, seems_clean=False), 0),
    ],
)
def test_up_to_where_the_log_must_be_valid(stop: LastStop, durable_end: int) -> None:
    assert stop.durable_end([QUEUE]) == durable_end


@pytest.mark.parametrize(
    ("stop", "queue", "is_inconsistent"),
    [
        (CLEAN, QUEUE, False),
        (CLEAN, attrs.evolve(QUEUE, begin_position=10), True),
        (CLEAN, attrs.evolve(QUEUE, begin_position=20), True),
        (CLEAN, attrs.evolve(QUEUE, physical_end=lambda: 401), True),
        (KILLED, attrs.evolve(QUEUE, physical_end=lambda: 401), False),
        (CLEAN, attrs.evolve(QUEUE, physical_end=lambda: 400), False),
    ],
)
def test_which_queues_cannot_be_right(stop: LastStop, queue: QueueEnd, is_inconsistent: bool) -> None:
    assert stop.is_inconsistent(queue, LOG) is is_inconsistent
    later = LogEnds([(100, 400)], TIMES.__getitem__)
    assert stop.is_inconsistent(attrs.evolve(queue, begin_position=20, physical_end=lambda: 0), later) is False


def test_a_queue_begins_too_late_only_if_the_log_has_its_beginning() -> None:
    found = {(begin, log_begin): begins_too_late(begin, log_begin) for begin in (0, 20) for log_begin in (0, 100)}
    assert found == {(0, 0): False, (0, 100): False, (20, 0): True, (20, 100): False}


def test_missing_units_are_noticed_after_a_crash_only() -> None:
    begin = KILLED.walk_begin([QUEUE], LOG)
    assert KILLED.misses_units(begin, 2)
    assert not KILLED.misses_units(begin, 3)
    assert not CLEAN.misses_units(CLEAN.walk_begin([QUEUE], LOG), 0)
    assert not JAVA.misses_units(JAVA.walk_begin([QUEUE], LOG), 0)
    assert not KILLED.misses_units(attrs.evolve(begin, offset=None), 0)
