"""A broker process is killed again and again, under load, in its start and in its stop: what it acknowledged is there.

SIGKILL does not take the page cache with it, so this says nothing about missing syncs: for that the simulated disk
loses its power (``property_tests/crash``). ``--rounds N`` (or ROCKETPY_KILL9_ROUNDS) sets how often brokers are killed,
ROCKETPY_INTEROP_TARGET=java tries the same, under load only, with the Java broker.
"""

from __future__ import annotations

import enum
import os
import random
import time
from collections import Counter
from itertools import cycle, islice
from pathlib import Path

import attrs
import pytest

from tests.blackbox.ledger import Ledger
from tests.blackbox.lives import JavaLives, Lives, OurLives, remove_folders
from tests.blackbox.load import Sender, key_of, parse_body
from tests.blackbox.wire import SUCCESS, Wire
from tests.patience import wait_until

pytestmark = pytest.mark.blackbox

TARGET = os.environ.get("ROCKETPY_INTEROP_TARGET", "rocketpy")
QUEUES = 4
BATCHES = (0, 0, 7, 16)  # a sender each: two of single messages, two of batches
WINDOW = 16
TOPIC = "kill9"
LOOKED_UP = 5
LOAD_S = 0.05, 0.22
RECOVERY_S = 0.08  # about how long opening a store of these sizes takes
STOP_S = 0.06
# Small files, so that the kill often meets one that has just been begun or is being prepared.
SETTINGS = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 5000,
}


class Ending(enum.Enum):
    """When SIGKILL comes."""

    UNDER_LOAD = "under load"
    IN_START = "during a start"
    IN_STOP = "during a clean shutdown"


@attrs.frozen
class Round:
    """One kill, and what is deleted before the next life."""

    ending: Ending
    deleted: tuple[str, ...] = ()


PLAN = (
    Round(Ending.UNDER_LOAD),
    Round(Ending.IN_START),
    Round(Ending.UNDER_LOAD, ("consumequeue",)),
    Round(Ending.IN_STOP),
    Round(Ending.UNDER_LOAD, ("index",)),
    Round(Ending.IN_STOP, ("consumequeue",)),
    Round(Ending.UNDER_LOAD),
    Round(Ending.IN_START, ("consumequeue", "index")),
)


@attrs.define(eq=False)
class Scene:
    """One store, its lives, and what was promised in them."""

    lives: Lives
    settings: dict[str, object]
    chance: random.Random
    ledger: Ledger
    topics: list[str] = attrs.field(factory=list)
    endings: Counter[str] = attrs.field(factory=Counter)

    def begin_life(self, *, again: bool) -> str:
        """Start a broker and check all that was promised so far; ``again`` from the beginning of each queue."""
        address = self.lives.live(self.settings)
        assert (self.lives.store / "abort").exists()
        with Wire(address) as wire:
            table = wire.topic_table()
            missing = [topic for topic in self.topics if f'"{topic}"' not in table]
            assert not missing, f"topics that were created are gone: {missing}"
            if again:
                self.ledger.read_again(wire)
            else:
                self.ledger.read_on(wire)
            self._look_up(wire)
        return address

    def create_topic(self, wire: Wire, name: str, queues: int) -> None:
        """Create a topic: when that is answered it is promised."""
        assert wire.create_topic(name, queues).code == SUCCESS
        self.topics.append(name)

    def load(self, address: str, number: int) -> list[Sender]:
        """Start to send."""
        with Wire(address) as wire:
            self.create_topic(wire, f"of-round-{number}", 1)
        senders = [
            Sender(f"r{number}s{index}", address, TOPIC, QUEUES, WINDOW, batch) for index, batch in enumerate(BATCHES)
        ]
        for sender in senders:
            sender.start()
        wait_until(lambda: any(sender.acknowledged for sender in senders), lambda: "no sender has had an answer")
        time.sleep(self.chance.uniform(*LOAD_S))
        return senders

    def count(self, senders: list[Sender], *, may_be_refused: bool) -> None:
        """Wait for senders to notice the end, and enter what was acknowledged to them."""
        for sender in senders:
            sender.join()
        refused = [refusal for sender in senders for refusal in sender.refused]
        assert may_be_refused or not refused, refused[:3]
        assert self.ledger.enter(senders), "nothing was acknowledged before the kill"

    def _look_up(self, wire: Wire) -> None:
        """Ask the index for some acknowledged messages; after a crash it catches up while the broker serves."""
        places = sorted(self.ledger.acknowledged)
        for place in self.chance.sample(places, min(LOOKED_UP, len(places))):
            sent = self.ledger.acknowledged[place]
            wait_until(
                lambda sent=sent: sent in [parse_body(each.body) for each in wire.query(TOPIC, key_of(*sent))],
                lambda sent=sent, place=place: f"the index has no {sent}, which is at {place}",
            )


def one_round(scene: Scene, number: int, planned: Round, *, again: bool) -> None:
    """Live one life, end it as planned, and delete what is to be deleted."""
    lives, chance = scene.lives, scene.chance
    came_too_late = False
    if planned.ending is Ending.IN_START:
        assert isinstance(lives, OurLives)
        lives.begin(scene.settings)
        lives.await_opening()
        time.sleep(chance.uniform(0, RECOVERY_S))
        lives.kill()
    else:
        senders = scene.load(scene.begin_life(again=again), number)
        if planned.ending is Ending.IN_STOP:
            assert isinstance(lives, OurLives)
            lives.terminate()
            time.sleep(chance.uniform(0, STOP_S))
            came_too_late = not lives.process.is_running()
        lives.kill()
        scene.count(senders, may_be_refused=planned.ending is Ending.IN_STOP)
    scene.endings["too late, after a clean shutdown" if came_too_late else planned.ending.value] += 1
    if planned.ending is Ending.UNDER_LOAD:
        assert (lives.store / "abort").exists(), "the next start would take this for a clean shutdown"
    remove_folders(lives.store, planned.deleted)


@pytest.mark.sample
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_what_was_acknowledged_survives_sigkill(flush: str, tmp_path: Path, rounds: int, counts: list[str]) -> None:
    lives: Lives = JavaLives(tmp_path) if TARGET == "java" else OurLives(tmp_path)
    ledger = Ledger(TOPIC, QUEUES, is_ordered=TARGET != "java")
    scene = Scene(lives, {**SETTINGS, "flushDiskType": flush}, random.Random(flush), ledger)
    plan = PLAN if TARGET != "java" else (Round(Ending.UNDER_LOAD),)
    begun = time.monotonic()
    deleted: tuple[str, ...] = ()
    try:
        with Wire(lives.live(scene.settings)) as wire:
            scene.create_topic(wire, TOPIC, QUEUES)
        lives.kill()
        for number, planned in enumerate(islice(cycle(plan), (rounds + 1) // 2)):
            one_round(scene, number, planned, again="consumequeue" in deleted)
            # A life that is killed in its start has read nothing back: what was deleted before it still counts.
            deleted = planned.deleted or (deleted if planned.ending is Ending.IN_START else ())
        # Once more from the start, after a clean shutdown: nothing old has changed on either way into a store.
        scene.begin_life(again="consumequeue" in deleted)
        assert lives.stop() == 0
        assert not (lives.store / "abort").exists()
        scene.begin_life(again=True)
    finally:
        lives.kill()
    assert TARGET == "java" or "Traceback" not in (tmp_path / "broker-0.log").read_text()
    kinds = ", ".join(f"{count} {kind}" for kind, count in scene.endings.items())
    counts.append(
        f"{flush}: {scene.endings.total()} kills ({kinds}), {len(ledger.acknowledged)} acknowledged, "
        f"{ledger.found_count} found, each once, in {time.monotonic() - begun:.1f} s"
    )
