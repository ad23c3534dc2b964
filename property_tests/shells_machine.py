"""The rules by which programs of asyncio and plain code use clients, and the promises that they are held to.

The model is the same program with the Trio client (:class:`TrioProgram`): what it does, the shells do, call by call.
What only the shells have, the machine knows itself: an object whose block has ended, a child of the process, an event
loop that is left. A slot is what one worker has open::

            opens                     loop_ends, loop_is_left (asyncio)
    nothing ------> open ---------------------------------------> nothing, and no trace of it in the next loop
       ^             | closes
       +--- ended <--+ calls raise LocalProtocolError, those in progress too
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import warnings
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, ClassVar, NoReturn

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from property_tests import shells_programs as programs
from property_tests.hunts import PromiseBroken
from property_tests.shells_programs import AsyncioProgram, Lives, Operation, Outcome, PlainProgram, Program, Slot
from rocketpy.client.client import Client
from rocketpy.client.shells.loop_call import CANCELLED, CLOSED
from rocketpy.forks import OTHER_PROCESS
from tests.processes import in_child

WORKERS = 3
LIMIT_SECONDS = 8.0
"""What takes longer never ends: everything here is a matter of milliseconds."""

STEPS = 24
"""Rounds of an asyncio loop in which clients that come and go begin, and are cancelled."""

workers = st.sampled_from(range(WORKERS))
calls = st.sampled_from(["doubles", "fails", "takes", "takes", "commits", "commits"])


class Promise(Enum):
    """What holds of the shells, whatever a program does."""

    SAME = "a call ends as with Trio: the same value or exception, or cancelled once its work has ended"
    ENDS = "everything comes to its end"
    CLOSED = "an object whose block has ended says so, and so does a call that was in progress"
    LEFT = "a block is left in order, and what is left open by a loop that ends is, too"
    LOOPS = "a loop that is left takes nothing with it: the next one has clients, and a second one is told"
    CHILD = "a child is told that a client is its parent's, and has its own"
    INTERRUPT = "Ctrl-C ends the program"


@attrs.define(eq=False)
class Work:
    """Something that a worker is at."""

    owner: int
    is_in_trio: bool
    """Whether the model is at it, too."""


class Shells(RuleBasedStateMachine):
    """A program of some kind and its model."""

    kind: ClassVar[type[Program]]

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = False
        self.lives: list[Lives] = []  # of clients that the rules open besides
        Client.role = programs.role  # type: ignore[attr-defined]
        self.model = programs.TrioProgram(WORKERS)
        self.program = self.kind(WORKERS)
        self.work: dict[int, Work] = {}

    # ---- rules ------------------------------------------------------------------------------------------------------

    @initialize()
    def first_start(self) -> None:
        """Nothing is open."""

    @rule(worker=workers)
    def opens(self, worker: int) -> None:
        if worker not in self.work and not self.program.slots[worker].block:
            self._both(worker, lambda program, slot: partial(programs.opens, slot, program.opener), worker)

    @rule(worker=workers)
    def closes(self, worker: int) -> None:
        slot = self.program.slots[worker]
        if worker in self.work or not slot.block:
            return
        self._both(worker, lambda _, slot: partial(programs.closes, slot), worker)
        if slot.lives[-1] != "left":
            self._broken(Promise.LEFT, f"{slot.lives}")
        for each in [each for each, work in self.work.items() if work.owner == worker]:
            self._expect(Promise.CLOSED, ("LocalProtocolError", CANCELLED), self._end(each))

    @rule(worker=workers, owner=workers, call=calls)
    def calls(self, worker: int, owner: int, call: str) -> None:
        self._call(worker, owner, lambda _, slot: partial(getattr(programs, call), slot))

    @rule(worker=workers, owner=workers, raises=st.booleans())
    def handles(self, worker: int, owner: int, raises: bool) -> None:
        self._call(worker, owner, lambda program, slot: partial(programs.handles, slot, program.handler(raises=raises)))

    @rule(worker=workers, owner=workers)
    def hangs(self, worker: int, owner: int) -> None:
        if self._may_hang(worker, owner):
            for program in (self.model, self.program):
                slot = program.slots[owner]
                count = slot.role.events.count("begun")
                program.begin(worker, partial(programs.hangs, slot))
                self._await(lambda events=slot.role.events, count=count: events.count("begun") > count)
            self.work[worker] = Work(owner, is_in_trio=True)

    @rule(worker=workers, owner=workers)
    def waits(self, worker: int, owner: int) -> None:
        if self._may_hang(worker, owner):
            slot = self.program.slots[owner]
            count = len(slot.role.begun)
            self.program.begin(worker, partial(programs.waits, slot))
            self._await(lambda: len(slot.role.begun) > count)
            self.work[worker] = Work(owner, is_in_trio=False)

    @rule(
        count=st.integers(1, 8),
        pauses=st.lists(st.integers(0, STEPS - 1), min_size=8, max_size=8),
        cancelled=st.integers(0, 255),
    )
    def come_and_go(self, count: int, pauses: list[int], cancelled: int) -> None:
        """Many open, use and close clients of their own at once; some begin later than others, some are cancelled."""
        slots = [Slot() for _ in range(count)]
        self.lives += [slot.lives for slot in slots]
        self._come_and_go(slots, pauses, cancelled)

    @rule(owner=workers)
    def forks(self, owner: int) -> None:
        role = self.program.slots[owner].role
        if role is not None and self.program.slots[owner].block:
            use = partial(self._in_child, partial(programs.doubles, self.program.slots[owner]))
            if (word := in_child(use, seconds=LIMIT_SECONDS)) != f"LocalProtocolError: {OTHER_PROCESS}":
                self._broken(Promise.CHILD, f"using its parent's client: {word}")
        if (word := in_child(partial(self._in_child, partial(self._use)), seconds=LIMIT_SECONDS)) != "9":
            self._broken(Promise.CHILD, f"using its own client: {word}")

    def teardown(self) -> None:
        try:
            if not self.is_broken:
                for worker in (*range(WORKERS), *range(WORKERS)):  # those that are at nothing end what others are at
                    self.closes(worker)
                for slot in self.program.slots:
                    self._check_lives(slot.lives)
                for lives in self.lives:
                    self._check_lives(lives)
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                self.program.end()
            self.model.end()
            del Client.role  # type: ignore[attr-defined]

    # ---- what a kind of program does -------------------------------------------------------------------------------

    def _come_and_go(self, slots: list[Slot], pauses: list[int], cancelled: int) -> None:
        raise NotImplementedError

    def _in_child(self, operation: Operation) -> object:
        """Do something in a child, and return or raise what it does."""
        raise NotImplementedError

    def _await(self, condition: Callable[[], object]) -> None:
        """Wait for what must come."""
        raise NotImplementedError

    # ---- private ----------------------------------------------------------------------------------------------------

    async def _use(self) -> object:
        """Open, use and close a client."""
        slot = Slot()
        await programs.opens(slot, self.program.opener)
        result = await programs.doubles(slot)
        await programs.closes(slot)
        return result

    def _may_call(self, worker: int, owner: int) -> bool:
        return worker not in self.work and self.program.slots[owner].role is not None

    def _may_hang(self, worker: int, owner: int) -> bool:
        """Whether it can be ended: the owner is free to close what it has open."""
        is_free = (
            worker != owner and owner not in self.work and worker not in {each.owner for each in self.work.values()}
        )
        return is_free and self._may_call(worker, owner) and bool(self.program.slots[owner].block)

    def _call(self, worker: int, owner: int, operation: Callable[[Program, Slot], Operation]) -> None:
        if not self._may_call(worker, owner):
            return
        if self.program.slots[owner].block:
            self._both(worker, operation, owner)
        else:
            self.program.begin(worker, operation(self.program, self.program.slots[owner]))
            self._expect(Promise.CLOSED, ("LocalProtocolError", CLOSED), self._outcome(self.program, worker))

    def _both(self, worker: int, operation: Callable[[Program, Slot], Operation], owner: int) -> None:
        """Let the model and the program do the same, and compare."""
        for program in (self.model, self.program):
            program.begin(worker, operation(program, program.slots[owner]))
        self._expect(Promise.SAME, self._outcome(self.model, worker), self._outcome(self.program, worker))

    def _outcome(self, program: Program, worker: int) -> Outcome:
        outcome = program.outcome(worker, LIMIT_SECONDS)
        if outcome is None:
            self._broken(Promise.ENDS, f"worker {worker} of {type(program).__name__} hangs")
        return outcome

    def _end(self, worker: int) -> Outcome:
        """Wait for the end of what a worker is at, which something else has ended."""
        self._cancel_model(worker)
        return self._outcome(self.program, worker)

    def _cancel_model(self, worker: int) -> None:
        if (work := self.work.pop(worker, None)) is not None and work.is_in_trio:
            self.model.cancel(worker)
            self._expect(Promise.SAME, ("cancelled", None), self._outcome(self.model, worker))

    def _check_lives(self, lives: Lives) -> None:
        """Every role that was opened has been closed."""
        if lives.count("opened") != len(lives) / 2:
            self._broken(Promise.LEFT, f"{lives}")

    def _expect(self, promise: Promise, expected: object, found: object) -> None:
        if expected != found:
            self._broken(promise, f"expected {expected}, found {found}")

    def _broken(self, promise: Promise, what: str) -> NoReturn:
        self.is_broken = True
        raise PromiseBroken(promise, what)


class PlainShells(Shells):
    """Workers are threads."""

    kind = PlainProgram

    def _come_and_go(self, slots: list[Slot], pauses: list[int], cancelled: int) -> None:
        found: list[object] = []
        threads = [
            threading.Thread(target=lambda: found.append(programs.at_once(self._use())), daemon=True) for _ in slots
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_SECONDS)
        self._expect(Promise.ENDS, [9] * len(slots), found)

    def _in_child(self, operation: Operation) -> object:
        return programs.at_once(operation())

    def _await(self, condition: Callable[[], object]) -> None:
        limit = threading.Event()
        for _ in range(int(LIMIT_SECONDS / programs.PAUSE_SECONDS)):
            if condition():
                return
            limit.wait(programs.PAUSE_SECONDS)
        self._broken(Promise.ENDS, "what must come does not come")


class AsyncioShells(Shells):
    """Workers are tasks of a loop, which may end or be left at any time."""

    kind = AsyncioProgram
    program: AsyncioProgram

    @rule(worker=workers)
    def is_cancelled(self, worker: int) -> None:
        if worker in self.work:
            work = self.work[worker]
            events = self.program.slots[work.owner].role.events
            self.program.cancel(worker)
            outcome = self._outcome(self.program, worker)
            self._expect(Promise.SAME, ("cancelled", None), outcome)
            self._cancel_model(worker)
            hanging = sum(1 for each in self.work.values() if each.owner == work.owner and each.is_in_trio)
            if events.count("begun") - events.count("ended") != hanging:
                self._broken(Promise.SAME, f"cancelled before the end of its work: {events}")

    @rule(owner=workers, step=st.integers(0, STEPS - 1))
    def gives_up(self, owner: int, step: int) -> None:
        """A task opens a block in a client, and is cancelled; once it has ended, nothing of the block is open."""
        slot = self.program.slots[owner]
        if slot.block is None:
            return
        lives: Lives = []

        async def open_and_close() -> None:
            async with slot.client.role(lives):
                pass

        async def drive() -> None:
            task = asyncio.create_task(open_and_close())
            for _ in range(step):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task], timeout=LIMIT_SECONDS)

        self.program.loop.run_until_complete(drive())
        self._check_lives(lives)

    @rule()
    def loop_ends(self) -> None:
        """As ``asyncio.run`` ends it, with clients open."""
        was_open = self._open_slots()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", ResourceWarning)
            self.program.end_loop()
        for slot in was_open:
            if slot.lives[-1] != "left":
                self._broken(Promise.LEFT, f"by the end of a loop: {slot.lives}")
        self._begin_anew(was_open, told)

    @rule(steps=st.integers(0, 6), opens=st.booleans())
    def loop_is_left(self, steps: int, opens: bool) -> None:
        """It is closed with clients open, and one perhaps about to be opened."""
        if opens:
            self.lives.append([])
            self._left = self.program.loop.create_task(programs.opens(Slot(self.lives[-1]), self.program.opener))
            self.program.let(lambda: False, steps=steps)
        was_open = self._open_slots()
        self.program.loop.close()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", ResourceWarning)
            self._expect(Promise.LOOPS, ("value", 9), self._in_loop(self._use()))
        self._begin_anew(was_open, told)

    @rule()
    def second_loop(self) -> None:
        """Another loop of the thread, while the first one is left but not closed."""
        outcome = self._in_loop(self._use())
        if any(slot.block for slot in self.program.slots):
            is_told = outcome[0] == "LocalProtocolError" and f"aio.open_client('{programs.NOWHERE}')" in str(outcome[1])
            if not is_told:
                self._broken(Promise.LOOPS, f"a second loop beside an open client: {outcome}")
        else:
            self._expect(Promise.LOOPS, ("value", 9), outcome)

    @rule()
    def is_interrupted(self) -> None:
        self.program.loop.call_later(0.001, os.kill, os.getpid(), signal.SIGINT)
        try:
            self.program.let(lambda: False, seconds=LIMIT_SECONDS)
        except KeyboardInterrupt:
            return
        self._broken(Promise.INTERRUPT, "the program goes on")

    # ---- private ----------------------------------------------------------------------------------------------------

    def _open_slots(self) -> list[Slot]:
        return [slot for slot in self.program.slots if slot.block]

    def _begin_anew(self, was_open: list[Slot], told: list[warnings.WarningMessage]) -> None:
        count = sum("rocketpy.client.aio.open_client" in str(each.message) for each in told)
        if count < len(was_open):
            self._broken(Promise.LOOPS, f"{len(was_open)} clients were open, {count} warnings")
        for worker in list(self.work):
            self._cancel_model(worker)
        for worker, slot in enumerate(self.model.slots):
            if slot.block:
                self.model.begin(worker, partial(programs.closes, slot))
                self._outcome(self.model, worker)
        self.model.slots = [Slot() for _ in self.model.slots]
        self.lives += [slot.lives for slot in self.program.slots]
        self.program.start_loop()

    def _come_and_go(self, slots: list[Slot], pauses: list[int], cancelled: int) -> None:
        async def come_and_go(slot: Slot, pause: int) -> object:
            for _ in range(pause):
                await asyncio.sleep(0)
            await programs.opens(slot, self.program.opener)
            try:
                return await programs.doubles(slot)
            finally:
                await programs.closes(slot)

        tasks: list[asyncio.Task[object]] = []

        async def drive() -> None:
            """Cancel tasks at the wanted step of the loop: between two of them is where a moment may be missed."""
            tasks.extend(asyncio.create_task(come_and_go(*each)) for each in zip(slots, pauses, strict=False))
            for step in range(STEPS):
                for number, task in enumerate(tasks):
                    if cancelled >> number & 1 and pauses[-1 - number] == step:
                        task.cancel()
                await asyncio.sleep(0)

        self.program.loop.run_until_complete(drive())
        if not self.program.let(lambda: all(task.done() for task in tasks), seconds=LIMIT_SECONDS):
            self._broken(Promise.ENDS, "a client that comes or goes hangs")
        for number, task in enumerate(tasks):
            if not (task.cancelled() and cancelled >> number & 1) and (task.exception() or task.result() != 9):
                self._broken(Promise.SAME, f"a client that comes and goes: {task.exception()!r}")

    def _in_child(self, operation: Operation) -> object:
        return asyncio.run(_in_task(operation))

    def _in_loop(self, use: Any) -> Outcome:
        """Do something in another loop of this thread."""
        loop = asyncio.new_event_loop()
        task = loop.create_task(use)
        loop.run_until_complete(asyncio.wait([task], timeout=LIMIT_SECONDS))
        if not task.done():
            self._broken(Promise.ENDS, "a client of another loop hangs")
        loop.close()
        failure = task.exception()
        return ("value", task.result()) if failure is None else (type(failure).__name__, str(failure))

    def _await(self, condition: Callable[[], object]) -> None:
        if not self.program.let(condition, seconds=LIMIT_SECONDS):
            self._broken(Promise.ENDS, "what must come does not come")


async def _in_task(operation: Operation) -> object:
    return await operation()
