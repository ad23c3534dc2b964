"""A process of a run in which all come and go: visits one after the other from several tasks, until SIGTERM.

Arguments: name, number of the first visit, nameserver, broker, directory, seconds between visits. Its journal is
``DIRECTORY/NAME``: ``visit KIND MS`` for each visit that has ended, ``failed KIND ERROR`` for one that could not do
what it came for, ``rest`` when after SIGUSR1 the last visit has ended. With SIGUSR2 they go on. One client with one
member of a group stays all the time.
"""

from __future__ import annotations

import itertools
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

from bench.soak.journal import Journal
from bench.soak.visits import (
    FIRST,
    PATIENCE_SECONDS,
    QUICK,
    RESIDENT_GROUP,
    RESIDENT_TOPIC,
    VISITS,
    Host,
    Received,
)
from rocketpy.client import MessageBatch, open_client
from rocketpy.containment import is_containable

TASKS = 4

_log = logging.getLogger("bench.soak.visitors")


class Forgetful(Received):
    """A member that stays: it keeps nothing of what it has handled."""

    async def handle(self, batch: MessageBatch) -> None:  # type: ignore[override]
        """Handle a batch."""
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class Door:
    """Lets visits begin at a pace, and none while all shall rest."""

    pause_s: float
    visitor_count: int = 0
    end: trio.Event = attrs.field(factory=trio.Event)
    _open: trio.Event = attrs.field(factory=trio.Event)
    _changed: trio.Event = attrs.field(factory=trio.Event)

    async def run(self, journal: Journal, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take signals."""
        self._open.set()
        async with trio.open_nursery() as nursery:
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2) as signals:
                task_status.started()
                async for number in signals:
                    if number == signal.SIGUSR1:
                        self._open = trio.Event()
                        nursery.start_soon(self._report_rest, journal)
                        continue
                    if number == signal.SIGTERM:
                        self.end.set()
                    self._open.set()  # the same event that tasks wait for: signals may come in another order

    async def _report_rest(self, journal: Journal) -> None:
        while self.visitor_count:
            await self._changed.wait()
        journal.write("rest")

    async def enter(self) -> bool:
        """Wait for the time of the next visit; return whether there is to be one."""
        await self._open.wait()
        self.visitor_count += not self.end.is_set()
        return not self.end.is_set()

    def leave(self) -> None:
        """End a visit."""
        self.visitor_count -= 1
        self._changed.set()
        self._changed = trio.Event()


async def visit(host: Host, name: str, number: int, journal: Journal) -> None:
    """Make one visit, and write down what became of it."""
    kind = list(VISITS)[number % len(VISITS)]
    begun = trio.current_time()
    try:
        with trio.fail_after(PATIENCE_SECONDS):
            await VISITS[kind](host, f"{name}-{number}")
    except Exception as failure:
        if not is_containable(failure):
            raise
        _log.exception("visit %d, %s", number, kind)
        journal.write("failed", kind, type(failure).__name__)
    else:
        journal.write("visit", kind, round(1000 * (trio.current_time() - begun)))


async def run(*arguments: str) -> None:
    """Let visitors come and go until SIGTERM."""
    name, first, namesrv, broker, directory, pause_s = arguments
    door, numbers = Door(float(pause_s)), itertools.count(int(first))
    journal = Journal(Path(directory) / name)

    async def visit_again_and_again(first_pause_s: float) -> None:
        await trio.sleep(first_pause_s)
        while await door.enter():
            try:
                await visit(host, name, next(numbers), journal)
            finally:
                door.leave()
            await trio.sleep(door.pause_s)

    async with trio.open_nursery() as nursery, open_client(namesrv, config=QUICK) as client:
        await nursery.start(door.run, journal)
        host = Host(client, namesrv, broker, Path(directory))
        async with (
            client.consumer(RESIDENT_GROUP, RESIDENT_TOPIC, config=FIRST) as consumer,
            trio.open_nursery() as member,
        ):
            await member.start(consumer.run, Forgetful().handle)
            async with trio.open_nursery() as tasks:
                for number in range(TASKS):
                    tasks.start_soon(visit_again_and_again, number * door.pause_s / TASKS)
            member.cancel_scope.cancel()
        nursery.cancel_scope.cancel()


def main(arguments: Sequence[str]) -> None:
    """Let visitors come and go until SIGTERM."""
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(name)s %(message)s")
    trio.run(run, *arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
