"""Pairs of a Java broker and ours: whichever is the master, the slave has the same bytes, through kills and restarts.

Both are real processes on small files. ROCKETPY_INTEROP_TARGET=java makes both of them Java's.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs
import pytest

from rocketpy.protocol.stored_message import decode_message
from tests.blackbox.ledger import Ledger
from tests.blackbox.load import Sender, parse_body
from tests.blackbox.wire import Wire
from tests.interop.conftest import TARGET
from tests.interop.java_store import JavaStores, StoreSizes
from tests.interop.our_store import view_of_directory
from tests.interop.pair import FILE_SIZE, Member, Pair, assert_equal_stores, open_pair
from tests.patience import wait_until

pytestmark = pytest.mark.java

TOPIC = "pairs"
QUEUES = 4
BATCHES = (0, 7)
WINDOW = 16
ANSWERS = 100
SIZES = StoreSizes(log_file=FILE_SIZE, queue_file=2_000, index_slots=500, index_entries=5_000)


@attrs.define(eq=False)
class Scene:
    """A running pair, and what its masters have acknowledged."""

    pair: Pair
    ledger: Ledger
    _loads: int = 0

    def fill(self, requests: int, files: int) -> None:
        """Send over so many ends of files at least, wait until both are equal and compare their bytes."""
        begin = self.pair.master.log_end()
        senders = self.begin_load(requests)
        self.enter(senders)
        refused = [refusal for sender in senders for refusal in sender.refused]
        assert not refused, refused[:3]
        end = self.compare()
        assert end // FILE_SIZE >= begin // FILE_SIZE + files, (begin, end)

    def compare(self) -> int:
        """Wait until both are equal and compare their bytes."""
        end = self.pair.wait_equal()
        assert_equal_stores(self.pair.master.store, self.pair.slave.store, end)
        return end

    def begin_load(self, requests: int | None = None) -> list[Sender]:
        """Start to send singles and batches of all sizes, without end unless a number of requests is given."""
        self._loads += 1
        address = self.pair.master.address
        senders = [
            Sender(f"l{self._loads}b{batch}", address, TOPIC, QUEUES, WINDOW, batch, requests) for batch in BATCHES
        ]
        for sender in senders:
            sender.start()
        return senders

    def load(self) -> list[Sender]:
        """Start to send, and return in the middle of the load."""
        senders = self.begin_load()
        self.wait_answers(senders)
        return senders

    def wait_answers(self, senders: list[Sender]) -> None:
        """Wait until each sender has some more answers: a number and not a time, so that no log gets large."""
        before = [len(sender.acknowledged) for sender in senders]
        wait_until(
            lambda: all(len(each.acknowledged) >= n + ANSWERS for each, n in zip(senders, before, strict=True)),
            lambda: f"no answers\n{self.pair.logs()}",
        )

    def enter(self, senders: list[Sender]) -> None:
        """Wait for the end of senders and enter what was acknowledged."""
        for sender in senders:
            sender.join()
        assert self.ledger.enter(senders), self.pair.logs()

    def read(self, member: Member) -> None:
        """Read all that was acknowledged from one of the two; each message in its place, unchanged, once."""
        with Wire(member.address) as wire:
            member.wait(lambda: f'"{TOPIC}"' in wire.topic_table(), "it does not know the topic")
            self.ledger.read_on(wire)


def set_batch_size(pair: Pair, size: int) -> None:
    """Let the running master send frames of at most so many bytes."""
    with Wire(pair.master.address) as wire:
        wire.update_config(haTransferBatchSize=size)


KINDS = [("java", "java")] if TARGET == "java" else [("java", "rocketpy"), ("rocketpy", "java")]


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_a_pair_keeps_one_log(kinds: tuple[str, str], tmp_path: Path, namesrv: str, java_stores: JavaStores) -> None:
    """One pair for all of it, as each start of a Java broker takes seconds."""
    with open_pair(tmp_path, namesrv, kinds, "ASYNC_MASTER") as pair:
        scene = Scene(pair, Ledger(TOPIC, QUEUES, is_ordered=kinds[0] == "rocketpy"))
        pair.start()
        pair.wait_following()
        for batch_size, requests, files in ((1, 12, 1), (12, 30, 2), (32_768, 240, 10)):
            set_batch_size(pair, batch_size)
            scene.fill(requests, files)

        kill_the_slave_under_load(scene)
        kill_the_master_under_load(scene)
        # From now on what is acknowledged is on the slave.
        pair.master.role = "SYNC_MASTER"
        pair.master.start()
        pair.wait_following()
        scene.compare()
        scene.read(pair.master)
        scene.fill(60, 3)
        kill_the_master_under_load(scene)
        scene.read(pair.slave)
        if kinds[1] == "java":
            pair.slave.kill()  # a Java slave takes ten seconds to stop in order
        else:
            pair.slave.stop()
    found = view_of_the_other(kinds[1], pair.slave.store, tmp_path / "copy", java_stores)
    assert found.items() >= scene.ledger.acknowledged.items()


def kill_the_slave_under_load(scene: Scene) -> None:
    """End the slave in the middle of a load and start it after that: it then has everything, byte for byte."""
    senders = scene.load()
    scene.pair.slave.kill()
    scene.wait_answers(senders)
    for sender in senders:
        sender.stop()
    scene.enter(senders)
    scene.pair.slave.start()
    scene.compare()


def kill_the_master_under_load(scene: Scene) -> None:
    """End the master in the middle of a load, and enter what it has acknowledged."""
    senders = scene.load()
    scene.pair.master.kill()
    scene.enter(senders)


def view_of_the_other(kind: str, store: Path, copy: Path, java: JavaStores) -> dict[tuple[int, int], tuple[str, int]]:
    """Return the messages of a slave's store, opened as a master's by the implementation that did not write it."""
    shutil.copytree(store, copy)
    if kind == "java":
        view = view_of_directory(copy, SIZES)
    else:
        assert java.open(copy, SIZES)
        view = java.view(copy)
        java.drop(copy)
    return {
        (queue_id, view_of_queue.min_offset + index): parse_body(decode_message(record).body)
        for (topic, queue_id), view_of_queue in view.queues.items()
        if topic == TOPIC
        for index, record in enumerate(view_of_queue.records)
    }
