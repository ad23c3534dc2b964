"""Whatever dies and whenever: once the index has caught up with the log, a key leads to all of its messages.

The log is a list that survives everything but a cut (recovery of the log has its own tests). The index may lose what it
likes in a crash, but it must know from where on the log has to be read again, and never lead to a message without the
key. After a kill it believes the note of its last file, as long as that is this very file, and loses nothing.

Planted bugs in what believes the note are found by the same machine.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pytest
import trio
import trio.testing
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from property_tests.hunts import Bug, Function, PromiseBroken, play, play_with_bug
from rocketpy.clock import ManualClock
from rocketpy.store.index.feed import IndexWork
from rocketpy.store.index.file import HEADER_SIZE, IndexLayout
from rocketpy.store.index.file_list import IndexFileList, NotedIndexFile
from rocketpy.store.index.hash import hash_before_key, hash_index_key, hash_of_key
from rocketpy.store.index.kernels import IndexKernels, index_kernels
from rocketpy.store.index.service import IndexService
from rocketpy.store.recovery.checkpoint import load_checkpoint
from rocketpy.testing.sim.disk import ProcessDied, SimDisk
from tests.turns import run_in_turn

KEYS = ("a", "b", "c")
LAYOUT = IndexLayout(slot_count=2, entry_count=6)
EVER = (0, 1 << 62)


class Promise(enum.Enum):
    """The sentences that hold."""

    KEYS_LEAD = "a key leads to all messages that have it, and to no other"
    NOTE_COUNTS = "after a kill the note is believed, so that nothing is read again"


class IndexCrashMachine(RuleBasedStateMachine):
    kernels: IndexKernels | None = None

    def __init__(self) -> None:
        super().__init__()
        self.note: NotedIndexFile | None = None
        self.disk = SimDisk(sector_size=64)  # a file is longer than a sector
        self.clock = ManualClock()
        self.log: list[IndexWork] = []
        self.open(is_clean=True)

    def open(self, *, is_clean: bool) -> None:
        self.checkpoint = load_checkpoint(self.disk, "/checkpoint")
        files = IndexFileList(
            path="/index", disk=self.disk, clock=self.clock, checkpoint=self.checkpoint, layout=LAYOUT
        )
        self.index = IndexService(
            files=files, disk=self.disk, run_blocking=run_in_turn, query_count_max=1_000, kernels=self.kernels
        )
        self.why = self.index.load(
            is_clean=is_clean, log_end_offset=self.log_end, noted=self.note, leads_to=self.leads_to
        )
        for _ in self.index.repair():
            pass
        begin = self.index.end_physical_offset
        self.take_up([work for work in self.log if work[2] >= begin])
        self.note = self.index.noted_file

    @property
    def log_end(self) -> int:
        return 100 * (len(self.log) + 1)

    def leads_to(self, physical_offset: int, key_hash: int) -> bool:
        return any(
            key_hash == hash_index_key("T", key.decode())
            for _, keys, offset, _ in self.log
            if offset == physical_offset
            for key in keys
        )

    def take_up(self, work: list[IndexWork]) -> None:
        """Give the index what it lacks after a start."""
        self.index.pending += work

    def restart(self, *, has_power: bool, seed: int) -> None:
        if has_power:
            self.disk.kill_process()
        else:
            self.disk.lose_power(random.Random(seed).randrange)
        self.open(is_clean=False)
        if has_power and self.why:
            raise PromiseBroken(Promise.NOTE_COUNTS, self.why)

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True), milliseconds=st.integers(0, 2_000))
    def put(self, keys: list[str], milliseconds: int) -> None:
        self.clock.advance_ms(milliseconds)
        work = ("T", [key.encode() for key in keys], 100 * (len(self.log) + 1), self.clock.timestamp_ms())
        self.log.append(work)
        self.append(work)

    def append(self, work: IndexWork) -> None:
        self.index.pending.append(work)

    @rule()
    def build(self) -> None:
        self.index.build()

    @rule()
    def run_for_a_while(self) -> None:
        async def run() -> None:
            with trio.move_on_after(1):
                await self.index.run()

        trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))

    @rule(has_power=st.booleans(), seed=st.integers(0, 2**20))
    def crash(self, has_power: bool, seed: int) -> None:
        self.restart(has_power=has_power, seed=seed)

    @precondition(lambda self: self.is_behind)
    @rule(call=st.integers(1, 30), has_power=st.booleans(), seed=st.integers(0, 2**20))
    def die_while_building(self, call: int, has_power: bool, seed: int) -> None:
        self.disk.die_at_call(call)
        try:
            self.catch_up(2)
            self.run_for_a_while()
        except ProcessDied:
            pass
        self.restart(has_power=has_power, seed=seed)

    @rule()
    def write_note(self) -> None:
        self.note = self.index.noted_file

    @rule(count=st.integers(1, 4), keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=2, unique=True))
    def kill_and_cut_the_log(self, count: int, keys: list[str]) -> None:
        """Other messages will be where the index has those that were cut."""
        self.disk.kill_process()
        del self.log[-count:]
        self.open(is_clean=False)
        self.put(keys, 0)

    @rule()
    def kill_and_copy_while_it_was_written(self) -> None:
        """A copy that a tool made of a live file: its header is newer than its slots."""
        self.disk.kill_process()
        for name in self.disk.list_directory("/index"):
            path = f"/index/{name}"
            file = self.disk.open(path, read_only=True)
            content = file.read(0, LAYOUT.file_size)
            file.close()
            self.disk.unlink(path)
            copy = self.disk.open(path, create=True)
            copy.reserve(0, LAYOUT.file_size)
            copy.write(0, content[:HEADER_SIZE] + bytes(LAYOUT.entries_position - HEADER_SIZE))
            copy.write(LAYOUT.entries_position, content[LAYOUT.entries_position :])
            copy.close()
        self.checkpoint.index_msg_timestamp_ms = 0  # nothing is known of copies
        self.checkpoint.flush()
        self.open(is_clean=False)

    @rule()
    def end_in_order(self) -> None:
        self.catch_up(1_000)
        self.index.flush()
        self.checkpoint.flush()
        self.index.close()
        self.disk.sync_directory("/")
        self.disk.lose_power(lambda count: 0)
        self.open(is_clean=True)

    @invariant()
    def keys_lead_to_their_messages(self) -> None:
        async def ask(key: str) -> list[int]:
            return (await self.index.query_offset("T", key, 1_000, *EVER)).physical_offsets

        if self.is_behind:
            return  # a query would build what is pending, and the rules could not die in the middle of it
        for key in KEYS:
            expected = [offset for _, keys, offset, _ in self.log if key.encode() in keys]
            found = sorted(set(trio.run(ask, key)))
            if found != expected:
                raise PromiseBroken(Promise.KEYS_LEAD, f"key {key} leads to {found}, expected {expected}")

    @property
    def is_behind(self) -> bool:
        return bool(self.index.behind)

    def catch_up(self, count_max: int) -> None:
        """Give the index some of what is still to be read from the log; here it has everything at once."""

    def teardown(self) -> None:
        self.catch_up(1_000)
        self.index.build()
        self.keys_lead_to_their_messages()


class KernelsCrashMachine(IndexCrashMachine):
    """By the kernels: what the index lacks after a start is read from the log, until append gives it the rest."""

    kernels = index_kernels()

    def take_up(self, work: list[IndexWork]) -> None:
        self.unread = list(work)

    def append(self, work: IndexWork) -> None:
        (self.unread or self.index.pending).append(work)

    @property
    def is_behind(self) -> bool:
        return bool(self.unread or self.index.behind)

    @rule(count_max=st.integers(1, 9))
    def catch_up(self, count_max: int) -> None:
        if self.unread:
            keys, message_count = self.kernels.hash_work(self.unread, count_max, hash_before_key, hash_of_key)
            self.index.build_packed(keys, self.kernels)
            del self.unread[:message_count]


TestIndexCrash = IndexCrashMachine.TestCase
TestIndexCrashWithKernels = KernelsCrashMachine.TestCase


# ---- planted bugs ---------------------------------------------------------------------------------------------------


def _forgets_boots(identity: Function) -> Function:
    return lambda self, path: identity(self, path).partition("/")[2]


def _names_for_files(identity: Function) -> Function:
    return lambda self, path: f"{identity(self, path).partition('/')[0]}{path}"


def _nothing_to_do(repair: Function) -> Function:
    return lambda self: iter(())


def _no_end(load: Function) -> Function:
    def believes(self: Any, *, log_end_offset: int, **others: Any) -> str:
        why: str = load(self, log_end_offset=1 << 62, **others)
        return why

    return believes


def _already_synced(load: Function) -> Function:
    def forgets(self: Any, **arguments: Any) -> str:
        why: str = load(self, **arguments)
        self.unsynced.clear()
        return why

    return forgets


def _believes_all(objection: Function) -> Function:
    return lambda *_: ""


Script: TypeAlias = Callable[[IndexCrashMachine], None]


def lose_power_often(machine: IndexCrashMachine) -> None:
    for seed in range(30):
        machine.put(["a", "b"], 5)
        machine.build()
        machine.write_note()
        machine.crash(False, seed)
        machine.build()
        machine.keys_lead_to_their_messages()


def copy_a_live_file(machine: IndexCrashMachine) -> None:
    machine.put(["a"], 5)
    machine.put(["b"], 5)
    machine.build()
    machine.write_note()
    machine.kill_and_copy_while_it_was_written()


def kill_in_each_call(machine: IndexCrashMachine) -> None:
    for call in range(1, 8):
        machine.put(["a"], 5)
        machine.build()
        machine.write_note()
        machine.put(["a", "b"], 5)
        machine.die_while_building(call, True, 0)
        machine.build()
        machine.keys_lead_to_their_messages()


def cut_the_log(machine: IndexCrashMachine) -> None:
    for _ in range(6):
        machine.put(["a"], 5)
    machine.run_for_a_while()  # the first file is full and synced
    machine.write_note()
    machine.kill_and_cut_the_log(4, ["c"])


def stop_after_a_kill(machine: IndexCrashMachine) -> None:
    for _ in range(4):
        machine.put(["a", "b"], 5)
    machine.build()  # more than one file, and none is synced
    machine.write_note()
    machine.crash(True, 0)
    machine.end_in_order()


SCRIPTS: Sequence[Script] = (
    lose_power_often,
    copy_a_live_file,
    kill_in_each_call,
    cut_the_log,
    stop_after_a_kill,
)
BUGS: Mapping[str, Bug] = {
    "the boot is ignored": Bug(SimDisk, "identity", _forgets_boots, (Promise.KEYS_LEAD,), lose_power_often),
    "the file may be a copy": Bug(SimDisk, "identity", _names_for_files, (Promise.KEYS_LEAD,), copy_a_live_file),
    "a torn burst is left as it is": Bug(
        IndexFileList, "repair", _nothing_to_do, (Promise.KEYS_LEAD,), kill_in_each_call
    ),
    "a cut of the log is not noticed": Bug(IndexFileList, "load", _no_end, (Promise.KEYS_LEAD,), cut_the_log),
    "full files that were kept are not synced": Bug(
        IndexFileList, "load", _already_synced, (Promise.KEYS_LEAD,), stop_after_a_kill
    ),
    "the index may disagree": Bug(IndexFileList, "_objection", _believes_all, (Promise.KEYS_LEAD,), copy_a_live_file),
}


def test_no_planted_bug_is_left_out() -> None:
    """Each has a script that finds nothing without it."""
    assert {bug.script for bug in BUGS.values()} == {*SCRIPTS}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_about_the_note_is_found(name: str) -> None:
    play_with_bug(IndexCrashMachine, BUGS[name])


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_find_nothing_without_a_bug(script: Script) -> None:
    play(IndexCrashMachine, script)
