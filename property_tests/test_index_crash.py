"""Whatever dies and whenever: once the index has caught up with the log, a key leads to all of its messages.

The log is a list that survives everything (recovery of the log has its own tests). The index may lose what it likes in
a crash, but it must know from where on the log has to be read again, and never lead to a message without the key.
"""

from __future__ import annotations

import random

import trio
import trio.testing
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rocketpy.clock import ManualClock
from rocketpy.store.index.file import IndexLayout
from rocketpy.store.index.file_list import IndexFileList
from rocketpy.store.index.kernels import IndexKernels, index_kernels
from rocketpy.store.index.service import IndexService
from rocketpy.store.recovery.checkpoint import load_checkpoint
from rocketpy.testing.sim.disk import ProcessDied, SimDisk
from tests.turns import run_in_turn

KEYS = ("a", "b", "c")
LAYOUT = IndexLayout(slot_count=2, entry_count=6)
EVER = (0, 1 << 62)


class IndexCrashMachine(RuleBasedStateMachine):
    kernels: IndexKernels | None = None

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimDisk()
        self.clock = ManualClock()
        self.log: list[tuple[str, list[bytes], int, int]] = []
        self.open(is_clean=True)

    def open(self, *, is_clean: bool) -> None:
        self.checkpoint = load_checkpoint(self.disk, "/checkpoint")
        files = IndexFileList(
            path="/index", disk=self.disk, clock=self.clock, checkpoint=self.checkpoint, layout=LAYOUT
        )
        self.index = IndexService(
            files=files, disk=self.disk, run_blocking=run_in_turn, query_count_max=1_000, kernels=self.kernels
        )
        self.index.load(is_clean=is_clean)
        begin = self.index.end_physical_offset
        self.index.pending += [work for work in self.log if work[2] >= begin]

    def restart(self, *, has_power: bool, seed: int) -> None:
        if has_power:
            self.disk.kill_process()
        else:
            self.disk.lose_power(random.Random(seed).randrange)
        self.open(is_clean=False)

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True), milliseconds=st.integers(0, 2_000))
    def put(self, keys: list[str], milliseconds: int) -> None:
        self.clock.advance_ms(milliseconds)
        work = ("T", [key.encode() for key in keys], 100 * (len(self.log) + 1), self.clock.timestamp_ms())
        self.log.append(work)
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

    @precondition(lambda self: self.index.pending)
    @rule(call=st.integers(1, 30), has_power=st.booleans(), seed=st.integers(0, 2**20))
    def die_while_building(self, call: int, has_power: bool, seed: int) -> None:
        self.disk.die_at_call(call)
        try:
            self.run_for_a_while()
        except ProcessDied:
            pass
        self.restart(has_power=has_power, seed=seed)

    @rule()
    def end_in_order(self) -> None:
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

        if self.index.behind:
            return  # a query would build what is pending, and the rules could not die in the middle of it
        for key in KEYS:
            expected = [offset for _, keys, offset, _ in self.log if key.encode() in keys]
            assert sorted(set(trio.run(ask, key))) == expected

    def teardown(self) -> None:
        self.index.build()
        self.keys_lead_to_their_messages()


class KernelsCrashMachine(IndexCrashMachine):
    kernels = index_kernels()


TestIndexCrash = IndexCrashMachine.TestCase
TestIndexCrashWithKernels = KernelsCrashMachine.TestCase
