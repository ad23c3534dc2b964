"""Locks on queues: one holder per group, renewal, expiry."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rocketpy.broker.clients import queue_locks as rebalance_lock
from rocketpy.log_files import LineFormatter
from rocketpy.protocol.message import MessageQueue
from tests.broker.tables_of_a_broker import Tables, make_tables

Q0, Q1, Q2 = (MessageQueue("t", "broker-a", each) for each in range(3))


def test_a_free_queue_is_taken_and_a_held_one_is_not(tables: Tables) -> None:
    assert tables.locks.try_lock_batch("g", [Q0, Q1], "c1") == [Q0, Q1]
    assert tables.locks.try_lock_batch("g", [Q0, Q2], "c2") == [Q2]
    assert tables.locks.holder("g", Q0) == "c1"


def test_groups_do_not_see_each_others_locks(tables: Tables) -> None:
    tables.locks.try_lock_batch("g", [Q0], "c1")
    assert tables.locks.try_lock_batch("h", [Q0], "c2") == [Q0]


def test_a_lock_expires_after_30_seconds_without_renewal(tables: Tables) -> None:
    tables.locks.try_lock_batch("g", [Q0, Q1], "c1")
    tables.time.now += 20
    assert tables.locks.try_lock_batch("g", [Q1], "c1") == [Q1]
    tables.time.now += 10
    assert tables.locks.try_lock_batch("g", [Q0, Q1], "c2") == []
    tables.time.now += 0.001
    assert tables.locks.try_lock_batch("g", [Q0, Q1], "c2") == [Q0]


def test_only_the_holder_frees_a_queue(tables: Tables) -> None:
    tables.locks.try_lock_batch("g", [Q0], "c1")
    tables.locks.unlock_batch("g", [Q0, Q1], "c2")
    assert tables.locks.holder("g", Q0) == "c1"
    tables.locks.unlock_batch("g", [Q0, Q1], "c1")
    assert tables.locks.holder("g", Q0) is None
    tables.locks.unlock_batch("no such group", [Q0], "c1")


def test_a_client_that_leaves_its_group_frees_its_queues_of_that_group(tables: Tables) -> None:
    for group, queues, client_id in (("g", [Q0, Q1], "c1"), ("g", [Q2], "c2"), ("h", [Q0], "c1")):
        tables.locks.try_lock_batch(group, queues, client_id)
    tables.locks.unlock_all("g", "c1")
    tables.locks.unlock_all("no such group", "c1")
    holders = [tables.locks.holder(group, queue) for group in "gh" for queue in (Q0, Q1, Q2)]
    assert holders == [None, None, "c2", "c1", None, None]


def test_asking_for_nothing_leaves_nothing(tables: Tables) -> None:
    assert tables.locks.try_lock_batch("g", [], "c1") == []
    assert tables.locks.drop_expired() == 0


def test_locks_that_are_not_renewed_are_dropped(tables: Tables) -> None:
    tables.locks.try_lock_batch("g", [Q0], "c1")
    tables.time.now += 150
    tables.locks.try_lock_batch("g", [Q1], "c1")
    tables.time.now += 151
    assert tables.locks.drop_expired() == 1
    assert tables.locks.holder("g", Q0) is None
    assert tables.locks.holder("g", Q1) == "c1"
    tables.time.now += 151
    assert tables.locks.drop_expired() == 1


def test_how_long_a_lock_lives_is_a_setting(tmp_path: Path) -> None:
    tables = make_tables(tmp_path, lock_max_live_time=1500)
    tables.locks.try_lock_batch("g", [Q0], "c1")
    tables.time.now += 1.5
    assert tables.locks.try_lock_batch("g", [Q0], "c2") == []
    tables.time.now += 0.001
    assert tables.locks.try_lock_batch("g", [Q0], "c2") == [Q0]
    tables.time.now += 14
    assert tables.locks.drop_expired() == 0
    tables.time.now += 1.1
    assert tables.locks.drop_expired() == 1


def test_who_gets_and_gives_queues_is_logged_and_renewals_are_not(
    tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="rocketpy.broker.lock")
    for _ in range(3):
        tables.locks.try_lock_batch("g", [Q0], "c1")
    tables.locks.try_lock_batch("g", [Q0], "c2")
    tables.locks.unlock_batch("g", [Q0], "c1")
    formatter = LineFormatter(is_one_line=True)
    queue = "group=g topic=t broker=broker-a queueId=0"
    assert [formatter.format(record).split("broker.lock ")[1] for record in caplog.records] == [
        f"queue locked {queue} client=c1",
        f"queue not locked: another holds it {queue} client=c2 holder=c1",
        f"queue unlocked {queue} client=c1",
    ]


def test_there_is_an_end_to_locks(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues and groups need not exist, so any client could lock any number."""
    monkeypatch.setattr(rebalance_lock, "LOCKS_MAX", 2)
    assert tables.locks.try_lock_batch("g", [Q0, Q1, Q2], "c1") == [Q0, Q1]
    assert tables.locks.try_lock_batch("h", [Q0], "c1") == []
    assert tables.locks.try_lock_batch("g", [Q0, Q1], "c1") == [Q0, Q1], "what is held can be renewed"
    tables.locks.unlock_batch("g", [Q1], "c1")
    assert tables.locks.try_lock_batch("h", [Q0, Q1], "c1") == [Q0]
    tables.time.now += 601
    assert tables.locks.drop_expired() == 2
    assert tables.locks.try_lock_batch("h", [Q0, Q1, Q2], "c2") == [Q0, Q1]


def test_thousands_of_queues_are_not_thousands_of_lines(tables: Tables, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="rocketpy.broker.lock")
    tables.locks.try_lock_batch("g", [MessageQueue("t", "b", number) for number in range(1000)], "c1")
    assert len(caplog.records) == rebalance_lock.LINES_MAX + 1
    line = LineFormatter(is_one_line=True).format(caplog.records[-1])
    assert line.endswith(f"more queues of the same request group=g client=c1 count={1000 - rebalance_lock.LINES_MAX}")
