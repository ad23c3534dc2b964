"""When files go, and when a disk counts as full."""

from __future__ import annotations

import time
from collections.abc import Iterator

import attrs
import pytest

from rocketpy.store.retention import DiskUsage, RetentionPolicy, disk_usage, least_full, used_ratio
from rocketpy.testing.sim.disk import SimDisk

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
POLICY = RetentionPolicy.of(
    delete_hours=frozenset({4, 16}),
    file_reserved_hours=72,
    max_used_percent=75,
    clean_forcibly_percent=85,
    warning_percent=90,
    is_forcible=True,
)


@pytest.fixture(params=["UTC", "Asia/Shanghai", "America/New_York"])
def time_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def usages(log: float, queues: float = 0.1) -> list[DiskUsage]:
    return [DiskUsage("/log", log), DiskUsage("/queues", queues)]


@pytest.mark.usefixtures("time_zone")
def test_files_go_in_certain_hours_of_local_time_and_for_the_whole_of_them() -> None:
    due = set()
    for minute in range(24 * 60):
        now_ms = int(time.mktime((2026, 7, 1, 0, minute, 30, 0, 0, -1))) * 1000
        if POLICY.is_due(now_ms, usages(0.5)):
            due.add((minute // 60, minute % 60))
    assert due == {(hour, minute) for hour in (4, 16) for minute in range(60)}


@pytest.mark.parametrize(
    ("log", "queues", "is_due"),
    [(0.75, 0.75, False), (0.76, 0.1, True), (0.1, 0.76, True), (-1.0, 0.1, True), (0.1, -1.0, True)],
)
def test_a_disk_that_is_too_full_or_missing_sets_a_run_going(log: float, queues: float, is_due: bool) -> None:
    noon_ms = int(time.mktime((2026, 7, 1, 12, 0, 0, 0, 0, -1))) * 1000
    assert POLICY.is_due(noon_ms, usages(log, queues)) == is_due


@pytest.mark.parametrize(("percent", "ratio"), [(5, 0.10), (10, 0.10), (60, 0.60), (95, 0.95), (100, 0.95)])
def test_the_ratio_that_sets_a_run_going_has_bounds(percent: int, ratio: float) -> None:
    policy = RetentionPolicy.of(
        delete_hours=frozenset(),
        file_reserved_hours=1,
        max_used_percent=percent,
        clean_forcibly_percent=85,
        warning_percent=90,
        is_forcible=True,
    )
    assert policy.used_ratio_max == ratio


def test_a_file_expires_when_its_last_record_is_old_enough() -> None:
    assert not POLICY.is_expired(1000, 1000 + 3 * DAY_MS - 1)
    assert POLICY.is_expired(1000, 1000 + 3 * DAY_MS)
    assert not POLICY.is_expired(1000 + DAY_MS, 1000), "the clock was set back since"


@pytest.mark.parametrize(("log", "queues", "ignores"), [(0.85, 0.85, False), (0.86, 0.1, True), (0.1, 0.86, True)])
def test_a_nearly_full_disk_takes_files_that_are_not_expired(log: float, queues: float, ignores: bool) -> None:
    assert POLICY.ignores_age(usages(log, queues)) == ignores
    assert not attrs.evolve(POLICY, is_forcible=False).ignores_age(usages(log, queues))


def test_a_full_disk_is_named_with_ratio_and_limit() -> None:
    assert POLICY.full_or_why(usages(0.90, 0.90)) is None
    limit = "messages are taken up to 90% (diskSpaceWarningLevelRatio)"
    assert POLICY.full_or_why(usages(0.91)) == f"the disk of /log is 91% full, {limit}"
    assert POLICY.full_or_why(usages(-1.0, 0.99)) == f"the disk of /queues is 99% full, {limit}"


def test_new_files_go_where_there_is_room() -> None:
    assert POLICY.takes_new_files(DiskUsage("/a", 0.85))
    assert not POLICY.takes_new_files(DiskUsage("/a", 0.86))


def test_of_several_directories_the_emptiest_disk_counts() -> None:
    assert least_full([DiskUsage("/a", 0.9), DiskUsage("/b", 0.3), DiskUsage("/c", 0.5)]).path == "/b"


@pytest.mark.parametrize(
    ("used", "free", "ratio"), [(0, 100, 0.0), (1, 10**15, 0.01), (899, 101, 0.90), (900, 100, 0.90), (901, 99, 0.91)]
)
def test_how_full_a_disk_is_rounds_up_to_a_percent(used: int, free: int, ratio: float) -> None:
    assert used_ratio(used, free) == ratio


def test_the_disk_is_asked_and_a_missing_directory_has_no_ratio() -> None:
    disk = SimDisk(capacity_bytes=100 * 4096)
    disk.make_directories("/log")
    file = disk.open("/log/x", create=True)
    file.reserve(0, 30 * 4096)
    assert disk_usage(disk, "/log") == DiskUsage("/log", 0.30)
    assert disk_usage(disk, "/none") == DiskUsage("/none", -1.0)
