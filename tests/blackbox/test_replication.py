"""A master and its slave as processes, killed and suspended under load: what SYNC_MASTER acknowledged is on the slave.

Each round of the first test is one SIGKILL of the master; ROCKETPY_TIER sets how many there are.
"""

from __future__ import annotations

import math
import os
import random
import signal
import time
from pathlib import Path

import attrs
import pytest

from tests.blackbox.ledger import Ledger
from tests.blackbox.load import Sender
from tests.blackbox.wire import (
    FLUSH_SLAVE_TIMEOUT,
    SEND_MESSAGE_V2,
    SLAVE_NOT_AVAILABLE,
    SUCCESS,
    Response,
    Wire,
    encode_request,
    send_fields,
)
from tests.interop.pair import Member, Pair, assert_equal_stores, open_pair
from tests.patience import PATIENCE_MS, wait_until

pytestmark = pytest.mark.blackbox

TOPIC = "pairs"
QUEUES = 4
BATCHES = (0, 0, 7, 16)
WINDOW = 16
ROUNDS = {"dev": 1, "ci": 4, "deep": 200}[os.environ.get("ROCKETPY_TIER", "dev")]
OURS = ("rocketpy", "rocketpy")
LOAD_S = 0.05, 0.3
SLAVE_TIMEOUT_MS = 1_000
NEVER_MS = 4 * PATIENCE_MS
ATTEMPTS = 5
TOLERANCE_S = 1.0
HOUSEKEEPING_MS = 3_000
BURST = 20


def start(pair: Pair) -> None:
    """Start both, and wait until the slave follows."""
    pair.master.start()
    with Wire(pair.master.address) as wire:
        assert wire.create_topic(TOPIC, QUEUES).code == SUCCESS
    pair.slave.start()
    pair.wait_following()


def begin_load(pair: Pair, name: str) -> list[Sender]:
    """Start to send to the master, and return when something was acknowledged."""
    senders = [
        Sender(f"{name}s{index}", pair.master.address, TOPIC, QUEUES, WINDOW, batch)
        for index, batch in enumerate(BATCHES)
    ]
    for sender in senders:
        sender.start()
    wait_until(lambda: all(sender.acknowledged for sender in senders), lambda: f"no answer\n{pair.logs()}")
    return senders


def wait_topic(member: Member, wire: Wire) -> None:
    """Wait until a member knows the topic: a slave asks its master for the table every ten seconds."""
    member.wait(lambda: f'"{TOPIC}"' in wire.topic_table(), "it does not know the topic")


def read_on(ledger: Ledger, member: Member) -> None:
    """Read what is new in a member's queues: all that was acknowledged is there, unchanged, in order, once."""
    with Wire(member.address) as wire:
        wait_topic(member, wire)
        ledger.read_on(wire)


@pytest.mark.sample
def test_what_sync_master_acknowledged_is_on_the_slave(tmp_path: Path, namesrv: str, counts: list[str]) -> None:
    chance, begun = random.Random("pairs"), time.monotonic()
    ledger = Ledger(TOPIC, QUEUES)
    with open_pair(tmp_path, namesrv, OURS, "SYNC_MASTER") as pair:
        start(pair)
        with Wire(pair.slave.address) as wire:
            wait_topic(pair.slave, wire)
        for number in range(ROUNDS):
            senders = begin_load(pair, f"r{number}")
            time.sleep(chance.uniform(*LOAD_S))
            pair.master.kill()
            for sender in senders:
                sender.join()
                assert not sender.refused, sender.refused[:3]
            assert ledger.enter(senders)
            read_on(ledger, pair.slave)
            # A slave that lost its master tries again seconds later: one that starts again does so at once.
            if number:
                end_slave = pair.slave.kill if number % 2 else pair.slave.stop
                end_slave()
            pair.master.start()
            if number:
                pair.slave.start()
            pair.wait_following()
        assert_equal_stores(pair.master.store, pair.slave.store, pair.wait_equal())
        for member in (pair.slave, pair.master):
            with Wire(member.address) as wire:
                ledger.read_again(wire)
        pair.master.stop()
        pair.slave.stop()
    assert "Traceback" not in pair.logs()
    counts.append(
        f"SYNC_MASTER: {ROUNDS} kills of the master, {len(ledger.acknowledged)} acknowledged, "
        f"{ledger.found_count} found on the slave, each once, in {time.monotonic() - begun:.1f} s"
    )


@attrs.define
class Asker:
    """Sends to the master on one connection and keeps what was sent: all of it is stored, whatever the status is."""

    wire: Wire
    topic: str = TOPIC
    _bodies: list[bytes] = attrs.field(factory=list)

    def send(self) -> Response:
        """Send one message and return the answer."""
        self._bodies.append(b"%d" % len(self._bodies))
        return self.wire.send(self.topic, 0, self._bodies[-1])

    def send_burst(self) -> tuple[set[int], float, float]:
        """Send many at once; return their statuses, and after how many seconds the first and the last came."""
        first = len(self._bodies)
        bodies = [b"%d" % number for number in range(first, first + BURST)]
        self._bodies += bodies
        begun = time.monotonic()
        frames = [
            encode_request(SEND_MESSAGE_V2, first + index, send_fields(self.topic, 0), each)
            for index, each in enumerate(bodies)
        ]
        self.wire.write(b"".join(frames))
        answers = [(self.wire.read_response().code, time.monotonic() - begun) for _ in frames]
        return {code for code, _ in answers}, answers[0][1], answers[-1][1]

    def send_until(self, wanted: int) -> set[int]:
        """Send one message after the other until a status comes, and return those before it."""
        found: set[int] = set()

        def has_come() -> bool:
            found.add(self.send().code)
            return wanted in found

        wait_until(has_come, lambda: f"no status {wanted}, but {found}")
        return found - {wanted}

    def check(self, pair: Pair) -> None:
        """Check that both have everything that was sent, in its order."""
        assert_equal_stores(pair.master.store, pair.slave.store, pair.wait_equal())
        with Wire(pair.slave.address) as wire:
            wait_topic(pair.slave, wire)
            found = [each.body for each in wire.pull_all(self.topic, 0, 0, wire.max_offset(self.topic, 0))]
        assert found == self._bodies


def test_a_suspended_slave_shows_in_the_statuses(tmp_path: Path, namesrv: str) -> None:
    """Times are changed while it runs: each is out of reach, but the one that the next statuses are about."""
    times = {"slaveTimeout": NEVER_MS, "haHousekeepingInterval": NEVER_MS}
    with open_pair(tmp_path, namesrv, OURS, "SYNC_MASTER", **times) as pair:
        start(pair)
        with Wire(pair.master.address) as wire:
            asker = Asker(wire)
            assert asker.send_burst()[0] == {SUCCESS}
            pair.slave.send_signal(signal.SIGSTOP)
            wire.update_config(slaveTimeout=SLAVE_TIMEOUT_MS)
            check_timeouts(pair, asker)
            wire.update_config(slaveTimeout=NEVER_MS, haHousekeepingInterval=HOUSEKEEPING_MS)
            pair.slave.send_signal(signal.SIGCONT)
            asker.send_until(SUCCESS)

            # A connection over which nothing comes is closed after a while: then there is no slave. That of now, on
            # which reports are read, would be looked at when the interval is over that there was when they were begun.
            pair.slave.kill()
            pair.slave.start()
            asker.send_until(SUCCESS)
            pair.slave.send_signal(signal.SIGSTOP)
            wire.update_config(slaveTimeout=SLAVE_TIMEOUT_MS)
            assert asker.send_until(SLAVE_NOT_AVAILABLE) <= {FLUSH_SLAVE_TIMEOUT}
            wire.update_config(slaveTimeout=NEVER_MS, haHousekeepingInterval=NEVER_MS)
            assert asker.send_burst()[0] == {SLAVE_NOT_AVAILABLE}, "nothing is waited for that is gone"
            pair.slave.send_signal(signal.SIGCONT)
            assert asker.send_until(SUCCESS) <= {SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT}
            assert asker.send_burst()[0] == {SUCCESS}
        asker.check(pair)


def check_timeouts(pair: Pair, asker: Asker) -> None:
    """Each message of a burst is answered when its own time is over: the best of a few bursts, on a busy machine."""
    best_s = math.inf
    for _ in range(ATTEMPTS):
        starved_s = pair.master.starved_s()
        statuses, first_s, last_s = asker.send_burst()
        assert statuses == {FLUSH_SLAVE_TIMEOUT}
        assert first_s >= SLAVE_TIMEOUT_MS / 1000
        best_s = min(best_s, last_s - (pair.master.starved_s() - starved_s))
        if best_s < SLAVE_TIMEOUT_MS / 1000 + TOLERANCE_S:
            return
    raise AssertionError(f"{best_s} s for a timeout of {SLAVE_TIMEOUT_MS} ms")


def test_a_killed_slave_comes_back_under_load(tmp_path: Path, namesrv: str) -> None:
    ledger = Ledger(TOPIC, QUEUES)
    with open_pair(tmp_path, namesrv, OURS, "SYNC_MASTER", slaveTimeout=SLAVE_TIMEOUT_MS) as pair:
        start(pair)
        senders = begin_load(pair, "before")
        pair.slave.kill()
        with Wire(pair.master.address) as wire:
            asker = Asker(wire, "asked")
            assert asker.send_until(SLAVE_NOT_AVAILABLE) <= {SUCCESS, FLUSH_SLAVE_TIMEOUT}
            pair.slave.start()
            assert asker.send_until(SUCCESS) <= {SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT}
        for sender in senders:
            sender.stop()
            sender.join()
            assert {each.split()[0] for each in sender.refused} <= {str(SLAVE_NOT_AVAILABLE), str(FLUSH_SLAVE_TIMEOUT)}
        assert ledger.enter(senders)
        assert_equal_stores(pair.master.store, pair.slave.store, pair.wait_equal())
        read_on(ledger, pair.slave)
