"""Judges brokers by what they said of themselves: address, clock, disk, durability, replication. Pure.

The figures are rows of GET_BROKER_RUNTIME_INFO, the settings keys of GET_BROKER_CONFIG. Brokers in Java have fewer rows
than ours; a row that is missing or no number is not judged.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import attrs

from rocketpy.client.diagnosis.finding import Finding, note, problem
from rocketpy.errors import BrokerError, RocketpyError
from rocketpy.protocol.bodies.route import MASTER_ID
from rocketpy.protocol.topic_name import DELAY_DEAD_LETTER_TOPIC

CLOCK_SKEW_MS = 5_000
"""The clock of a broker may be off by this much; what it says is exact to a second."""
DISK_FULL_RATIO = 0.90
"""A broker refuses sends from here on (diskSpaceWarningLevelRatio)."""
DISK_HIGH_RATIO = 0.75
"""A broker deletes the oldest messages before their time from here on, unless diskMaxUsedSpaceRatio says more."""
SLAVE_LAG_BYTES = 64 << 20
"""A slave lags when it lacks more of the log than this."""

_RUNTIME = re.compile(r"\[ (\d{1,9}) days?, (\d{1,9}) hours?, (\d{1,9}) minutes?, (\d{1,9}) seconds? \]")
_NUMBER_MAX = float(1 << 63)


@attrs.frozen(kw_only=True)
class BrokerFacts:
    """What is known of a broker at one of its addresses.

    ``failure`` is why it did not answer, or not everything. ``asked_timestamp_ms`` is our wall time when it said its
    figures.
    """

    name: str
    broker_id: int
    address: str
    figures: Mapping[str, str] = attrs.field(factory=dict)
    settings: Mapping[str, str] = attrs.field(factory=dict)
    asked_timestamp_ms: int = 0
    failure: RocketpyError | None = None

    @property
    def subject(self) -> str:
        """How a finding names it."""
        return f"{self.name} {'master' if self.broker_id == MASTER_ID else f'slave {self.broker_id}'} {self.address}"

    @property
    def is_alive(self) -> bool:
        """Whether it answers, if only with a refusal."""
        return self.failure is None or isinstance(self.failure, BrokerError)


def judge_brokers(brokers: Iterable[BrokerFacts]) -> list[Finding]:
    """Return what is wrong with brokers, each by itself, and with those of one name beside each other."""
    facts = list(brokers)
    by_name: dict[str, list[BrokerFacts]] = defaultdict(list)
    for each in facts:
        by_name[each.name].append(each)
    found = [finding for each in facts for finding in _judge_one(each)]
    for name, group in by_name.items():
        found += _judge_name(name, group)
    found += _versions(facts)
    return found


def _judge_one(facts: BrokerFacts) -> Iterator[Finding]:
    if isinstance(facts.failure, BrokerError):
        yield problem(
            "broker-refuses",
            facts.subject,
            f"it does not say how it is: {facts.failure}",
            "Ask with the credentials of an administrator",
        )
    elif facts.failure is not None:
        yield problem(
            "address-unreachable",
            facts.subject,
            f"this address, which the broker advertises, does not answer: {facts.failure}",
            "Start the broker; if it runs, clients need an address that they reach: set brokerIP1, or open the port",
        )
    yield from _clock(facts)
    yield from _disk(facts)
    yield from _own_figures(facts)


def _own_figures(facts: BrokerFacts) -> Iterator[Finding]:
    """Judge rows that only brokers of rocketpy have."""
    alarm = facts.figures.get("haAlarm")
    if alarm:
        yield problem(
            "replication-stopped",
            facts.subject,
            f"it does not replicate: {alarm}",
            "Mend the cause, then it goes on by itself; until then it cannot stand in for its master",
        )
    conflict = facts.figures.get("brokerIdConflict")
    if conflict:
        yield problem(
            "broker-id-conflict",
            facts.subject,
            f"another live broker has its name and id: {conflict}",
            "Stop one of them: clients see only one, and neither has the messages of the other",
        )
    count = _number(facts.figures.get("inconsistentSubscriptionGroups"))
    if count:
        yield problem(
            "inconsistent-groups",
            facts.subject,
            f"{count:.0f} of its groups have consumers with different subscriptions; its log names them",
            "Give all consumers of a group the same topics and expressions",
        )
    for row, what in (
        ("scheduleMessageLostCount", "delayed messages were damaged and not delivered since its start"),
        ("scheduleMessageDeadLetterCount", f"delayed messages went to {DELAY_DEAD_LETTER_TOPIC} since its start"),
    ):
        count = _number(facts.figures.get(row))
        if count:
            yield problem(
                "delayed-messages-lost",
                facts.subject,
                f"{count:.0f} {what}",
                "Its log says where each is, and why",
            )


def _clock(facts: BrokerFacts) -> Iterator[Finding]:
    boot = _number(facts.figures.get("bootTimestamp"))
    running = _RUNTIME.search(facts.figures.get("runtime", ""))
    if boot is None or running is None:
        return
    days, hours, minutes, seconds = map(int, running.groups())
    now_ms = boot + 1000 * (((24 * days + hours) * 60 + minutes) * 60 + seconds)
    skew_ms = now_ms - facts.asked_timestamp_ms
    # The broker cuts off the part of a second, so its clock may be ahead by one more than it says.
    if not -CLOCK_SKEW_MS - 1000 <= skew_ms <= CLOCK_SKEW_MS:
        direction = "ahead of" if skew_ms > 0 else "behind"
        yield problem(
            "clock-skew",
            facts.subject,
            f"its clock is {abs(skew_ms) / 1000:.0f} s {direction} this machine's",
            "Synchronise the clocks (NTP): delays, searches by time, resets and unique keys go by them",
        )


def _disk(facts: BrokerFacts) -> Iterator[Finding]:
    high_percent = _number(facts.settings.get("diskMaxUsedSpaceRatio"))
    high_ratio = DISK_HIGH_RATIO if high_percent is None else high_percent / 100
    # The first of two rows with one ratio is enough: usually both directories are on one disk.
    ratios: dict[float | None, str] = {}
    for row, setting in (
        ("commitLogDiskRatio", "storePathCommitLog"),
        ("consumeQueueDiskRatio", "storePathRootDir"),
    ):
        where = facts.settings.get(setting) or facts.settings.get("storePathRootDir") or row
        ratios.setdefault(_number(facts.figures.get(row)), where)
    for ratio, where in ratios.items():
        if ratio is None or ratio < min(high_ratio, DISK_FULL_RATIO):
            continue
        if ratio >= DISK_FULL_RATIO:
            yield problem(
                "disk-full",
                facts.subject,
                f"the disk of {where} is {ratio:.0%} full: sends are refused from {DISK_FULL_RATIO:.0%} on",
                "Free space, or lower fileReservedTime",
            )
        else:
            yield note(
                "disk-high",
                facts.subject,
                f"the disk of {where} is {ratio:.0%} full: messages are deleted before their time",
                "Free space, or lower fileReservedTime",
            )


def _judge_name(name: str, group: list[BrokerFacts]) -> Iterator[Finding]:
    """Judge the master and the slaves of one name beside each other."""
    alive = [each for each in group if each.is_alive]
    masters = [each for each in group if each.broker_id == MASTER_ID]
    if not masters:
        yield problem(
            "no-master",
            name,
            f"no master is registered, only {len(group)} of its slaves",
            "Start the master, or promote a slave: nothing can be sent to this broker",
        )
        return
    for master in (each for each in masters if each.is_alive):
        slaves = [each for each in alive if each.broker_id != MASTER_ID]
        yield from _durability(master, slaves)
        for slave in slaves:
            lag = _lag_bytes(master, slave)
            if lag is not None and lag > SLAVE_LAG_BYTES:
                yield problem(
                    "slave-lag",
                    slave.subject,
                    f"it lacks {lag} bytes of the master's log",
                    "Look at its log, disk and network: until it has them, they are lost with the master",
                )


def _durability(master: BrokerFacts, slaves: list[BrokerFacts]) -> Iterator[Finding]:
    role = master.settings.get("brokerRole")
    if role == "SYNC_MASTER" and not slaves:
        yield problem(
            "sync-master-without-slave",
            master.subject,
            "it is a SYNC_MASTER and no slave is there: sends are answered SLAVE_NOT_AVAILABLE",
            "Start its slave, or make it an ASYNC_MASTER",
        )
    elif role is not None and not slaves:
        yield note(
            "single-copy",
            master.subject,
            "it has no slave: there is one copy of its messages",
            "Add a slave if losing the disk must not lose messages",
        )
    if master.settings.get("flushDiskType") == "ASYNC_FLUSH" and role != "SYNC_MASTER":
        yield note(
            "async-flush",
            master.subject,
            "it flushes after it has answered (ASYNC_FLUSH): a loss of power may take the last ten seconds",
            "Set flushDiskType=SYNC_FLUSH, or brokerRole=SYNC_MASTER with a slave, if that must not happen",
        )


def _lag_bytes(master: BrokerFacts, slave: BrokerFacts) -> int | None:
    ends = [_number(each.figures.get("commitLogMaxOffset")) for each in (master, slave)]
    if ends[0] is None or ends[1] is None:
        return None
    return int(ends[0] - ends[1])


def _versions(facts: list[BrokerFacts]) -> Iterator[Finding]:
    versions = {each.figures["brokerVersionDesc"] for each in facts if "brokerVersionDesc" in each.figures}
    if len(versions) > 1:
        named = ", ".join(f"{each.address} {each.figures.get('brokerVersionDesc', '?')}" for each in facts)
        yield note("versions", "brokers", f"they have different versions: {named}", "Finish the upgrade")


def _number(text: str | None) -> float | None:
    """Return a figure; None for what is none of a broker's: an answer may hold anything."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if -_NUMBER_MAX <= number <= _NUMBER_MAX else None
