"""Records with a damaged time are distinguished from a clock that was set, and from an idle log."""

from __future__ import annotations

import pytest

from rocketpy.protocol.stored_message import CheckedMessage, RecordStatus
from rocketpy.store.inspection.verify.time_inspection import FAR_MS, OddTime, TimeInspection

NOW = 1_700_000_000_000
LONG = FAR_MS * 3


@pytest.mark.parametrize(
    ("times", "odd"),
    [
        ([NOW, NOW, NOW + 5], []),
        ([NOW, NOW + LONG, NOW + LONG + 1], []),  # idle for days
        ([NOW, NOW - LONG, NOW - LONG + 1], []),  # a clock set back
        ([NOW, NOW + LONG, NOW + 2 * LONG, NOW + 2 * LONG], []),
        ([NOW, NOW + LONG, NOW + 1], [1]),
        ([NOW, NOW - LONG, NOW + 1], [1]),
        ([NOW, 0, NOW], [1]),
        ([NOW, -5], [1]),
        ([NOW, 1 << 50, NOW], [1]),
        ([NOW, NOW + LONG], []),  # not known yet
    ],
)
def test_times(times: list[int], odd: list[int]) -> None:
    inspection = TimeInspection()
    for number, time_ms in enumerate(times):  # one by one: slices may end anywhere
        record = CheckedMessage(RecordStatus.MESSAGE, 100, "T", 0, 0, number * 100, store_timestamp=time_ms)
        inspection.see([record])
    assert [each.physical_offset // 100 for each in inspection.odd] == odd
    assert all(
        each == OddTime(each.physical_offset, each.physical_offset + 56, times[1], NOW) for each in inspection.odd
    )


def test_the_first_record_has_its_born_time_to_go_by() -> None:
    inspection = TimeInspection()
    inspection.see([CheckedMessage(RecordStatus.MESSAGE, 100, "T", sys_flag=0x10, born_timestamp=NOW)])
    assert inspection.odd == [OddTime(0, 68, 0, NOW)]
