"""What a slave's reports may claim, and what counts as acknowledged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.store.ha.protocol import FrameReader, ReportReader
from rocketpy.store.ha.slave_progress import SlaveAheadError, SlaveBehindError, SlaveProgress, replicated_offset
from tests.store.ha.recordings import FILE_SIZE, streams

LOG = {"log_min": 1000, "log_max": 5000, "file_size": 1000}


def a_slave(request: int = 3000, sent: int = 4000) -> SlaveProgress:
    slave = SlaveProgress()
    slave.report(request, **LOG)
    slave.note_sent(sent)
    return slave


@pytest.mark.parametrize("stream", streams(), ids=str)
def test_every_report_of_a_java_slave_counts(stream: str) -> None:
    recorded = streams()[stream]
    slave, reports = SlaveProgress(), ReportReader()
    frames = FrameReader(recorded.request_offset or None, file_size=FILE_SIZE)
    seen: list[int] = []
    for is_report, data in recorded.chunks:
        if is_report:
            for offset in reports.receive(data):
                slave.report(offset, log_min=0, log_max=1 << 40 if slave.is_slave else offset, file_size=FILE_SIZE)
                seen.append(offset)
        else:
            for part in frames.receive(data):
                slave.note_sent(part.offset + len(part.data))
    assert len(seen) > 2
    assert slave.acknowledged_offset == max(seen)
    assert slave.has(max(seen))


def test_a_connection_is_no_slave_before_its_request() -> None:
    slave = SlaveProgress()
    assert not slave.is_slave
    assert not slave.has(0)
    slave.report(3000, **LOG)
    assert slave.is_slave
    assert (slave.request_offset, slave.sent_offset) == (3000, 3000)


def test_a_request_acknowledges_nothing() -> None:
    """RocketMQ takes 2^40 as the first report for the acknowledgement of everything to come."""
    slave = a_slave(5000, 5000)
    assert not any(slave.has(offset) for offset in (1, 4999, 5000, 5001))


def test_a_report_acknowledges_what_was_sent_up_to_it() -> None:
    slave = a_slave()
    slave.report(3500, **LOG)
    assert [slave.has(offset) for offset in (3000, 3001, 3500, 3501, 4000)] == [False, True, True, False, False]
    slave.report(3500, **LOG)
    slave.report(4000, **LOG)
    assert slave.has(4000)
    assert replicated_offset([a_slave(), slave]) == 4000
    assert replicated_offset([]) == 0


def test_the_end_of_its_log_is_what_was_asked_for_until_something_is_acknowledged() -> None:
    assert SlaveProgress().reached_offset == -1
    slave = a_slave()
    assert slave.reached_offset == 3000
    slave.report(3500, **LOG)
    assert slave.reached_offset == 3500


@pytest.mark.parametrize("offset", [-1, -(2**63)])
def test_a_negative_request_is_refused(offset: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"expected an offset from 0, found {offset}"):
        SlaveProgress().report(offset, **LOG)


@pytest.mark.parametrize("offset", [5001, 2**40, 2**63 - 1])
def test_a_slave_that_has_more_than_the_master_is_named(offset: int) -> None:
    slave = SlaveProgress()
    with pytest.raises(SlaveAheadError, match=f"the slave has {offset - 5000} bytes that this master lacks"):
        slave.report(offset, **LOG)
    assert not slave.is_slave


@pytest.mark.parametrize("offset", [1, 999])
def test_a_slave_that_needs_deleted_files_is_named(offset: int) -> None:
    with pytest.raises(SlaveBehindError, match=f"expected at least 1000.* found {offset}: the files"):
        SlaveProgress().report(offset, **LOG)


@pytest.mark.parametrize(("log_max", "sent_from"), [(5000, 5000), (4999, 4000), (1500, 1000), (1000, 1000)])
def test_an_empty_slave_gets_the_last_file(log_max: int, sent_from: int) -> None:
    slave = SlaveProgress()
    slave.report(0, log_min=1000, log_max=log_max, file_size=1000)
    assert slave.sent_offset == sent_from


def test_an_empty_slave_repeats_its_request_until_it_has_stored_something() -> None:
    slave = SlaveProgress()
    slave.report(0, **LOG)
    slave.note_sent(5500)
    slave.report(0, **LOG)
    assert slave.acknowledged_offset == -1
    slave.report(5500, **LOG)
    assert slave.has(5500)
    assert not slave.has(4000)  # before what it was sent
    with pytest.raises(RemoteProtocolError):
        slave.report(0, **LOG)


@pytest.mark.parametrize("offset", [3499, 0, -1, 4001, 5000, 2**62])
def test_a_report_that_goes_back_or_beyond_what_was_sent_is_refused(offset: int) -> None:
    slave = a_slave()
    slave.report(3500, **LOG)
    with pytest.raises(RemoteProtocolError, match=f"from 3500, its last one, to 4000, .* found {offset}"):
        slave.report(offset, **LOG)
    assert slave.acknowledged_offset == 3500


@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(-2, 6002) | st.sampled_from((2**62, -(2**62)))), max_size=20)
)
def test_whatever_is_reported_only_what_was_sent_and_reported_counts(steps: list[tuple[bool, int]]) -> None:
    slave, reported = SlaveProgress(), set[int]()
    for is_report, offset in steps:
        if not is_report:
            if slave.is_slave:
                slave.note_sent(max(slave.sent_offset, min(offset, 6000)))
            continue
        was_slave = slave.is_slave
        try:
            slave.report(offset, **LOG)
        except RemoteProtocolError:
            break  # the connection is closed, and counts no longer
        if was_slave:
            reported.add(offset)
        for end_offset in (*range(-2, 6004, 7), 2**62):
            if slave.has(end_offset):
                assert slave.request_offset < end_offset <= min(slave.sent_offset, max(reported, default=-1))
