"""A broker process is killed under load and started again, many times: what it acknowledged is there, once, in order.

With ASYNC_FLUSH, as SIGKILL does not take the page cache with it: this says nothing about missing syncs, which the
simulated power loss is for. ROCKETPY_KILL9_ROUNDS sets the number of rounds (5; 20 with ROCKETPY_TIER=ci),
ROCKETPY_INTEROP_TARGET=java tries the same with the Java broker.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from pathlib import Path

import attrs
import pytest

from tests.blackbox.load import Acknowledged, Sender
from tests.blackbox.wire import SUCCESS, Record, Wire
from tests.interop.cluster import Cluster, start_cluster

pytestmark = pytest.mark.blackbox

TARGET = os.environ.get("ROCKETPY_INTEROP_TARGET", "rocketpy")
ROUNDS = int(
    os.environ.get("ROCKETPY_KILL9_ROUNDS") or (20 if os.environ.get("ROCKETPY_TIER") in ("ci", "deep") else 5)
)
QUEUES = 4
SENDERS = 4
WINDOW = 32
TOPIC = "kill9"
# Small files, so that the kill often meets one that has just been begun or is being prepared.
SETTINGS = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20_000}


@attrs.define(eq=False)
class Ledger:
    """What was acknowledged so far and what has been read back of it, by queue."""

    by_place: dict[tuple[int, int], Acknowledged] = attrs.field(factory=dict)
    read_up_to: dict[int, int] = attrs.field(factory=lambda: dict.fromkeys(range(QUEUES), 0))
    seen: set[bytes] = attrs.field(factory=set)

    def acknowledge(self, found: Acknowledged) -> None:
        """Enter an acknowledgement; no place may be given twice."""
        place = (found.queue_id, found.queue_offset)
        assert place not in self.by_place, f"{place} given to {self.by_place[place]} and to {found}"
        self.by_place[place] = found

    def check(self, records: list[Record], queue_id: int) -> None:
        """Check the next records of a queue: no gap, nothing twice, each acknowledged body where it was said to be."""
        for record in records:
            place = (queue_id, self.read_up_to[queue_id])
            assert (record.queue_id, record.queue_offset) == place
            assert record.body not in self.seen, f"{record.body[:40]!r} is there twice, again at {place}"
            self.seen.add(record.body)
            if place in self.by_place:
                assert record.body == self.by_place[place].body, f"another body at {place}"
            self.read_up_to[queue_id] += 1

    def check_complete(self) -> None:
        """Check that nothing acknowledged lies behind the end of its queue."""
        lost = [found for (queue_id, offset), found in self.by_place.items() if offset >= self.read_up_to[queue_id]]
        assert not lost, f"{len(lost)} of {len(self.by_place)} acknowledged messages are lost, first {lost[0]}"


def read_on(address: str, ledger: Ledger) -> None:
    """Read each queue from where the last round stopped to its end."""
    with Wire(address) as wire:
        for queue_id in range(QUEUES):
            start, end = ledger.read_up_to[queue_id], wire.max_offset(TOPIC, queue_id)
            assert end >= start, f"queue {queue_id} ends at {end}, was at {start}"
            ledger.check(list(wire.pull_all(TOPIC, queue_id, start, end)), queue_id)
    ledger.check_complete()


def check_order_of_senders(found: list[Acknowledged]) -> None:
    """Check that what one connection sent to one queue lies in the order of sending."""
    last: dict[tuple[str, int], int] = defaultdict(int)
    for each in sorted(found, key=lambda each: (each.queue_id, each.queue_offset)):
        key = (each.sender, each.queue_id)
        assert each.sequence > last[key], f"{each} lies behind a later one of its sender"
        last[key] = each.sequence


def load_until_killed(cluster: Cluster, round_number: int, load_s: float) -> list[Acknowledged]:
    """Send for a while, kill the broker in the midst of it and return what it acknowledged."""
    address = cluster.brokers["broker-0"]
    senders = [Sender(f"r{round_number}s{index}", address, TOPIC, QUEUES, WINDOW) for index in range(SENDERS)]
    for sender in senders:
        sender.start()
    time.sleep(load_s)
    cluster.kill()
    for sender in senders:
        sender.join()
    assert [refusal for sender in senders for refusal in sender.refused] == []
    return [each for sender in senders for each in sender.acknowledged]


def test_what_was_acknowledged_survives_sigkill(tmp_path: Path) -> None:
    chance = random.Random("kill9")
    ledger = Ledger()
    cluster = start_cluster(TARGET, tmp_path / "cluster", 1, SETTINGS)
    try:
        cluster.create_topic(TOPIC, QUEUES)
        for round_number in range(ROUNDS):
            found = load_until_killed(cluster, round_number, chance.uniform(0.1, 1.0))
            assert found, f"round {round_number}: nothing was acknowledged before the kill"
            for each in found:
                ledger.acknowledge(each)
            if TARGET == "rocketpy":  # Java handles the sends of one connection in several threads
                check_order_of_senders(found)
            cluster = start_cluster(TARGET, tmp_path / "cluster", 1, SETTINGS)
            read_on(cluster.brokers["broker-0"], ledger)
        # Once more from the start, after an orderly stop: nothing old has changed, and no restart took the other path.
        cluster.stop()
        cluster = start_cluster(TARGET, tmp_path / "cluster", 1, SETTINGS)
        again = Ledger(by_place=ledger.by_place)
        read_on(cluster.brokers["broker-0"], again)
        assert again.seen == ledger.seen
    finally:
        cluster.stop()
    print(f"{ROUNDS} rounds, {len(ledger.by_place)} acknowledged, {len(ledger.seen)} read back")


def test_sends_go_on_with_the_next_offset_after_sigkill(tmp_path: Path) -> None:
    cluster = start_cluster(TARGET, tmp_path / "cluster", 1, SETTINGS)
    try:
        cluster.create_topic(TOPIC, QUEUES)
        for expected in range(3):
            with Wire(cluster.brokers["broker-0"]) as wire:
                response = wire.send(TOPIC, 0, b"%d" % expected)
                assert (response.code, response.fields["queueOffset"]) == (SUCCESS, str(expected))
            cluster.kill()
            cluster = start_cluster(TARGET, tmp_path / "cluster", 1, SETTINGS)
        with Wire(cluster.brokers["broker-0"]) as wire:
            assert [each.body for each in wire.pull_all(TOPIC, 0, 0, 3)] == [b"0", b"1", b"2"]
    finally:
        cluster.stop()
