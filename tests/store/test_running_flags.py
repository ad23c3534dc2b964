"""RocketMQ's bits, and what each of them forbids."""

from __future__ import annotations

import pytest

from rocketpy.store.running_flags import RunningFlag, RunningFlags


def test_a_store_serves_everything_at_first() -> None:
    flags = RunningFlags()
    assert (flags.is_readable, flags.is_writeable, flags.is_cq_writeable) == (True, True, True)


@pytest.mark.parametrize(
    ("flag", "bit", "is_readable", "is_writeable", "is_cq_writeable"),
    [
        (RunningFlag.NOT_READABLE, 1, False, True, True),
        (RunningFlag.NOT_WRITEABLE, 2, True, False, False),
        (RunningFlag.WRITE_LOGICS_QUEUE_ERROR, 4, True, False, False),
        (RunningFlag.WRITE_INDEX_FILE_ERROR, 8, True, False, False),
        (RunningFlag.DISK_FULL, 16, True, False, True),
    ],
)
def test_what_a_flag_forbids(
    flag: RunningFlag, bit: int, is_readable: bool, is_writeable: bool, is_cq_writeable: bool
) -> None:
    flags = RunningFlags()
    assert flags.set(flag, to=True)
    assert not flags.set(flag, to=True), "nothing has changed"
    assert flags.value == bit
    assert (flags.is_readable, flags.is_writeable, flags.is_cq_writeable) == (
        is_readable,
        is_writeable,
        is_cq_writeable,
    )
    assert flags.set(flag, to=False)
    assert flags.value == 0
