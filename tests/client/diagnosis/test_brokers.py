"""What makes a broker a finding, row by row."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.client.diagnosis.brokers import (
    CLOCK_SKEW_MS,
    DISK_FULL_RATIO,
    DISK_HIGH_RATIO,
    SLAVE_LAG_BYTES,
    BrokerFacts,
    judge_brokers,
)
from rocketpy.client.diagnosis.finding import Severity
from rocketpy.errors import BrokerError, RemotingConnectError

BOOT = 1_700_000_000_000
RUNNING_MS = 1000 * (((24 * 1 + 2) * 60 + 3) * 60 + 4)
HEALTHY = BrokerFacts(
    name="a",
    broker_id=0,
    address="a:1",
    figures={
        "bootTimestamp": str(BOOT),
        "runtime": "[ 1 days, 2 hours, 3 minutes, 4 seconds ]",
        "commitLogDiskRatio": "0.5",
        "consumeQueueDiskRatio": "0.5",
        "commitLogMaxOffset": str(SLAVE_LAG_BYTES + 1),
        "brokerVersionDesc": "V4_9_8",
        "haAlarm": "",
        "brokerIdConflict": "",
    },
    settings={"brokerRole": "SYNC_MASTER", "flushDiskType": "ASYNC_FLUSH", "storePathRootDir": "/store"},
    asked_timestamp_ms=BOOT + RUNNING_MS,
)
SLAVE = attrs.evolve(HEALTHY, broker_id=1, address="a:2", figures={**HEALTHY.figures}, settings={"brokerRole": "SLAVE"})


def with_figures(facts: BrokerFacts, **figures: str) -> BrokerFacts:
    return attrs.evolve(facts, figures={**facts.figures, **figures})


def checks(*facts: BrokerFacts) -> list[str]:
    return [each.check for each in judge_brokers(facts)]


def test_a_master_and_its_slave_that_are_well() -> None:
    assert judge_brokers([HEALTHY, SLAVE]) == []
    assert judge_brokers([]) == []


def test_an_address_that_nobody_reaches() -> None:
    away = BrokerFacts(name="a", broker_id=0, address="a:1", failure=RemotingConnectError("cannot connect to a:1"))
    (found,) = judge_brokers([away])
    assert (found.check, found.subject) == ("address-unreachable", "a master a:1")
    assert "cannot connect to a:1" in found.problem
    assert "brokerIP1" in found.advice


def test_a_broker_that_refuses_to_say_is_alive_and_judged_by_what_it_said() -> None:
    refused = BrokerError(16, "need admin", "a:1")
    (found,) = judge_brokers([attrs.evolve(HEALTHY, failure=refused, settings={}), SLAVE])
    assert (found.check, "need admin" in found.problem) == ("broker-refuses", True)
    full = attrs.evolve(with_figures(HEALTHY, commitLogDiskRatio="0.95"), failure=refused)
    assert checks(full, SLAVE) == ["broker-refuses", "disk-full"]


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e999", "9" * 5000, "", "x", "[ " + "9" * 5000 + " days"])
def test_a_broker_that_tells_nonsense_takes_no_finding_about_others(value: str) -> None:
    """Each figure that a rule reads, whatever the others are."""
    for row in HEALTHY.figures:
        strange = with_figures(HEALTHY, **{row: value})
        assert "disk-full" in checks(strange, with_figures(SLAVE, commitLogDiskRatio="0.95"))
    runtime = f"[ {'9' * 5000} days, 1 hours, 1 minutes, 1 seconds ]"
    assert checks(with_figures(HEALTHY, runtime=runtime), SLAVE) == []


@pytest.mark.parametrize(
    ("off_ms", "expected"),
    [
        (0, []),
        (CLOCK_SKEW_MS, []),
        (-CLOCK_SKEW_MS, []),
        (CLOCK_SKEW_MS + 1000, []),  # a broker does not say the part of a second
        (CLOCK_SKEW_MS + 1001, ["clock-skew"]),
        (-CLOCK_SKEW_MS - 1, ["clock-skew"]),
    ],
)
def test_a_clock_may_be_off_by_some_seconds(off_ms: int, expected: list[str]) -> None:
    facts = attrs.evolve(HEALTHY, asked_timestamp_ms=BOOT + RUNNING_MS + off_ms)
    assert checks(facts, SLAVE) == expected


def test_a_clock_that_is_off_is_said_to_be_ahead_or_behind() -> None:
    for off_ms, text in ((60_000, "60 s behind"), (-60_000, "60 s ahead of")):
        (found,) = judge_brokers([attrs.evolve(HEALTHY, asked_timestamp_ms=BOOT + RUNNING_MS + off_ms), SLAVE])
        assert text in found.problem


@pytest.mark.parametrize("row", ["commitLogDiskRatio", "consumeQueueDiskRatio"])
def test_disks_that_fill_and_that_are_full(row: str) -> None:
    for ratio, expected in (
        (DISK_HIGH_RATIO - 0.01, []),
        (DISK_HIGH_RATIO, [("disk-high", Severity.NOTE)]),
        (DISK_FULL_RATIO, [("disk-full", Severity.PROBLEM)]),
    ):
        found = judge_brokers([with_figures(HEALTHY, **{row: str(ratio)}), SLAVE])
        assert [(each.check, each.severity) for each in found] == expected
        assert all("/store" in each.problem for each in found)


def test_one_disk_is_one_finding_and_its_limit_that_of_the_broker() -> None:
    both = with_figures(HEALTHY, commitLogDiskRatio="0.8", consumeQueueDiskRatio="0.8")
    assert checks(both, SLAVE) == ["disk-high"]
    for percent, expected in (("85", []), ("80", ["disk-high"])):
        limited = attrs.evolve(both, settings={**HEALTHY.settings, "diskMaxUsedSpaceRatio": percent})
        assert checks(limited, SLAVE) == expected


def test_rows_that_a_broker_does_not_have_or_fill_are_not_judged() -> None:
    facts = attrs.evolve(HEALTHY, figures={"bootTimestamp": "soon", "commitLogDiskRatio": "much"})
    assert checks(facts, attrs.evolve(SLAVE, figures={})) == []


def test_what_a_slave_of_ours_says_of_its_replication() -> None:
    (found,) = judge_brokers([HEALTHY, with_figures(SLAVE, haAlarm="the logs differ")])
    assert (found.check, found.subject) == ("replication-stopped", "a slave 1 a:2")
    assert "the logs differ" in found.problem
    assert checks(HEALTHY, with_figures(SLAVE, brokerIdConflict="a:3")) == ["broker-id-conflict"]


@pytest.mark.parametrize(
    ("row", "check"),
    [
        ("inconsistentSubscriptionGroups", "inconsistent-groups"),
        ("scheduleMessageLostCount", "delayed-messages-lost"),
        ("scheduleMessageDeadLetterCount", "delayed-messages-lost"),
    ],
)
def test_what_a_broker_of_ours_counts(row: str, check: str) -> None:
    assert checks(with_figures(HEALTHY, **{row: "0"}), SLAVE) == []
    (found,) = judge_brokers([with_figures(HEALTHY, **{row: "3"}), SLAVE])
    assert (found.check, found.severity) == (check, Severity.PROBLEM)
    assert found.problem.startswith("3 ")


def test_a_slave_that_lags() -> None:
    assert checks(HEALTHY, with_figures(SLAVE, commitLogMaxOffset="1")) == []
    (found,) = judge_brokers([HEALTHY, with_figures(SLAVE, commitLogMaxOffset="0")])
    assert (found.check, found.subject) == ("slave-lag", "a slave 1 a:2")
    assert str(SLAVE_LAG_BYTES + 1) in found.problem


def test_how_durable_the_messages_of_a_master_are() -> None:
    assert checks(HEALTHY) == ["sync-master-without-slave"]
    alone = attrs.evolve(HEALTHY, settings={"brokerRole": "ASYNC_MASTER", "flushDiskType": "ASYNC_FLUSH"})
    assert [(each.check, each.severity) for each in judge_brokers([alone])] == [
        ("single-copy", Severity.NOTE),
        ("async-flush", Severity.NOTE),
    ]
    synced = attrs.evolve(HEALTHY, settings={"brokerRole": "ASYNC_MASTER", "flushDiskType": "SYNC_FLUSH"})
    assert checks(synced, SLAVE) == []
    away = attrs.evolve(SLAVE, failure=RemotingConnectError("away"))
    assert checks(HEALTHY, away) == ["address-unreachable", "sync-master-without-slave"]


def test_slaves_without_a_master() -> None:
    assert checks(SLAVE) == ["no-master"]


def test_versions_beside_each_other() -> None:
    older = attrs.evolve(with_figures(SLAVE, brokerVersionDesc="V4_9_7"))
    (found,) = judge_brokers([HEALTHY, older])
    assert (found.check, found.severity) == ("versions", Severity.NOTE)
    assert "a:1 V4_9_8, a:2 V4_9_7" in found.problem
