"""Room for records and units: the ends of files, bounds, and a disk without space."""

from __future__ import annotations

import pytest

from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store.append.records import record_at
from tests.store.parts import LOG_FILE_SIZE, Parts, Place


def test_append_rolls_to_the_next_file_when_the_tail_is_too_small(place: Place) -> None:
    parts = Parts(place)
    size = 91 + len("TopicTest") + len("TAGS\x01TagA") + 100
    fitting = (LOG_FILE_SIZE - 8) // size
    places = parts.put_all([b"x" * 100] * (fitting + 1))
    assert places[-1] == LOG_FILE_SIZE
    assert parts.bodies() == [b"x" * 100] * (fitting + 1)
    end = fitting * size
    blank = record_at(parts, end, 8)
    assert int.from_bytes(blank[:4], "big") == LOG_FILE_SIZE - end
    assert blank[4:].hex() == "cbd43194"
    assert parts.allocator.prepared == [place.log_file(LOG_FILE_SIZE), place.log_file(2 * LOG_FILE_SIZE)]


@pytest.mark.parametrize("left", range(14))
def test_a_record_needs_eight_bytes_after_it(place: Place, left: int) -> None:
    parts = Parts(place)
    first = LOG_FILE_SIZE // 2
    parts.put_all([b"x" * (first - 91 - 9 - 9)])
    second = LOG_FILE_SIZE - first - left
    (physical_offset,) = parts.put_all([b"x" * (second - 91 - 9 - 9)])
    assert physical_offset == (first if left >= 8 else LOG_FILE_SIZE)
    parts.kill()
    assert Parts(place, is_clean=False).commit_log.wrote_offset == physical_offset + second


def test_a_record_larger_than_a_file_is_illegal(place: Place) -> None:
    parts = Parts(place, message_size_max=1 << 20)
    assert parts.put(b"x" * LOG_FILE_SIZE)[0] is PutMessageStatus.MESSAGE_ILLEGAL
    assert parts.put(b"x" * (LOG_FILE_SIZE - 8 - 91 - 18))[0] is PutMessageStatus.PUT_OK


def test_a_burst_s_pending_bytes_are_bounded(place: Place) -> None:
    """An endless burst must not fill the memory: at a bound the log is written, still invisible to readers."""
    parts = Parts(place, log_file_size=16 << 20, message_size_max=1 << 20)
    for _ in range(10):
        parts.put(b"x" * (1 << 20))
    assert parts.appender.wrote_offset - parts.commit_log.wrote_offset <= 5 << 20
    assert parts.queues.find("TopicTest", 0).max_offset == 0
    parts.appender.end_burst()
    assert len(parts.messages()) == 10


def test_a_full_disk_refuses_and_takes_messages_again_when_there_is_space() -> None:
    """Sends are refused with path and free space, reads go on, and space is looked for at most once a second."""
    disk = SimDisk(capacity_bytes=5 * LOG_FILE_SIZE)
    parts = Parts(Place(disk, "/store"))
    accepted = []
    status = PutMessageStatus.PUT_OK
    while status is PutMessageStatus.PUT_OK:
        body = b"%06d" % len(accepted) * 20
        status, _, _ = parts.put(body)
        if status is PutMessageStatus.PUT_OK:
            accepted.append(body)
        assert len(accepted) < 1000
    parts.appender.end_burst()
    assert status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    why = parts.appender.writable_or_why()
    assert why is not None
    assert "/store/" in why
    assert "bytes free" in why
    assert parts.bodies() == accepted

    calls = disk.calls["reserve"]
    assert parts.put(b"again")[0] is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert disk.calls["reserve"] == calls, "not asked again so soon"
    disk.capacity_bytes *= 2
    assert parts.put(b"again")[0] is PutMessageStatus.SERVICE_NOT_AVAILABLE
    parts.clock.advance_ms(1000)
    assert parts.put(b"again")[0] is PutMessageStatus.PUT_OK
    assert parts.appender.writable_or_why() is None
    parts.appender.end_burst()
    assert parts.bodies() == [*accepted, b"again"]
    parts.kill()
    assert Parts(Place(disk, "/store"), is_clean=False).bodies() == [*accepted, b"again"]


def test_a_queue_without_space_for_its_units_refuses_too() -> None:
    disk = SimDisk(capacity_bytes=LOG_FILE_SIZE + 3 * 4096)
    parts = Parts(Place(disk, "/store"))
    assert parts.put(b"one", queue_id=0)[0] is PutMessageStatus.PUT_OK
    status = PutMessageStatus.PUT_OK
    for queue_id in range(1, 10):
        status, _, _ = parts.put(b"other", queue_id=queue_id)
        if status is not PutMessageStatus.PUT_OK:
            break
    assert status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    parts.appender.end_burst()
    assert parts.bodies() == [b"one"]
