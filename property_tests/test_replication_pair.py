"""A master and a slave over a simulated network: faults in any order, against two rules.

- The slave's log is always equal to the master's up to its end, from the file on that it began with, and ends with a
  record.
- What was answered PUT_OK is in the slave's log at that moment.

Once the faults are over, the slave has the whole log within a few seconds. The logs are in memory; the services, the
protocol and its rules are the product's. Random scripts, and planted bugs that they must find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from property_tests.hunts import skip_where_compiled
from rocketpy.store.ha.client import HAClient
from rocketpy.store.ha.connection import HATimes
from rocketpy.store.ha.group_transfer import GroupTransferService
from rocketpy.store.ha.service import HAService
from rocketpy.store.ha.verified_stream import VerifiedPiece, VerifiedStream
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.network import Link, SimListener, SimNetwork
from tests.store.ha.records import FILE, a_record, encode_blank
from tests.store.ha.slave_peer import MemoryLog

MASTER, SLAVE, ADDRESS = "m", "s", "m:10912"

OPS = ("put", "put", "put", "burst", "cut", "cut out", "cut in", "heal", "reset", "restart slave", "lose slave", "wait")


@attrs.define
class SlaveLog:
    """What the slave has stored; it survives the end of its process. An empty one begins with any file."""

    content: bytes = b""
    base: int = 0
    is_empty: bool = True
    file_size: int = FILE

    @property
    def end_offset(self) -> int:
        return self.base + len(self.content)

    def append(self, piece: VerifiedPiece) -> None:
        if self.is_empty:
            self.base, self.is_empty = piece.offset, False
        assert piece.offset == self.end_offset, "no gap, no overlap"
        self.content += piece.data


class Pair:
    """Both sides, and what the producers were answered."""

    def __init__(self, nursery: trio.Nursery, seed: int) -> None:
        self.nursery = nursery
        self.random = Random(seed)
        self.network = SimNetwork(randomness=self.random)
        self.network.set_link(MASTER, SLAVE, Link(delay_s=0.001, jitter_s=0.02))
        self.network.set_link(SLAVE, MASTER, Link(delay_s=0.001, jitter_s=0.02))
        self.log = MemoryLog(file_size=FILE)
        self.slave = SlaveLog()
        self.ends = {0}  # of the records, and of the files
        self.answers: list[PutMessageStatus] = []
        self.times = HATimes(heartbeat_s=1.0, housekeeping_s=4.0, batch_size=self.random.choice((1, 12, 300, 32_768)))
        self.service = HAService(log=self.log, settings=lambda: self.times, acknowledged=self.acknowledged)
        self.transfer = GroupTransferService(
            slaves=self.service.slaves,
            timeout_s=lambda: 3.0,
            fallbehind_max=lambda: 1 << 28,
            end_burst=lambda: None,
            flush_replies=lambda: None,
        )
        self.slave_life = trio.CancelScope()
        self.slave_ended = trio.Event()

    async def start(self) -> None:
        await self.nursery.start(self.transfer.run)
        (listener,) = await self.network.host(MASTER).listen(None, 10912)
        self.nursery.start_soon(self.accept, listener)
        self.begin_slave()

    def acknowledged(self) -> None:
        self.transfer.acknowledged()

    async def accept(self, listener: SimListener) -> None:
        while True:
            stream, (host, port) = await listener.accept()
            self.nursery.start_soon(self.service.serve, stream, f"{host}:{port}")

    def begin_slave(self) -> None:
        self.slave_life = trio.CancelScope()
        self.slave_ended = trio.Event()
        self.nursery.start_soon(self._live)

    async def _live(self) -> None:
        client = HAClient(
            log=self.slave,
            address=lambda: ADDRESS,
            connect=lambda address: self.network.connect(SLAVE, address),
            compare=_equal,
            settings=lambda: self.times,
            randomness=self.random,
        )
        with self.slave_life:
            await client.run()
        self.slave_ended.set()

    async def end_slave(self) -> None:
        self.slave_life.cancel()
        await self.slave_ended.wait()

    def put(self) -> None:
        record = a_record(self.log.end_offset, body=self.random.randbytes(self.random.randrange(200)))
        left = FILE - self.log.end_offset % FILE
        if len(record) + 8 > left:
            self.log.content += encode_blank(left) + b"\xa5" * (left - 8)
            self.ends.add(self.log.end_offset)
            record = a_record(self.log.end_offset, body=b"first of a file")
        self.log.content += record
        end = self.log.end_offset
        self.ends.add(end)
        self.transfer.wait_replicated(end, partial(self.answered, end))

    def end_burst(self) -> None:
        self.service.wake()
        self.transfer.burst_ended()

    def answered(self, end: int, status: PutMessageStatus) -> None:
        self.answers.append(status)
        if status is PutMessageStatus.PUT_OK:
            assert self.slave.end_offset >= end, f"PUT_OK for {end}, the slave has {self.slave.end_offset}"

    async def apply(self, op: str) -> None:
        match op:
            case "put":
                self.put()
                self.end_burst()
            case "burst":
                for _ in range(10):
                    self.put()
                self.end_burst()
            case "cut":
                self.network.cut(MASTER, SLAVE)
            case "cut out":
                self.network.cut(MASTER, SLAVE, one_way=True)
            case "cut in":
                self.network.cut(SLAVE, MASTER, one_way=True)
            case "heal":
                self.network.heal(MASTER, SLAVE)
            case "reset":
                self.network.reset(MASTER, SLAVE)
            case "restart slave":
                self.network.end_process(SLAVE)
                await self.end_slave()
                self.begin_slave()
            case "lose slave":
                self.network.lose_host(SLAVE)
                await self.end_slave()
                await trio.sleep(self.random.random() * 10)
                self.network.return_host(SLAVE)
                self.begin_slave()
            case "wait":
                await trio.sleep(self.random.random() * 6)
        await trio.sleep(self.random.choice((0, 0.002, 0.05, 0.5)))
        self.check()

    def check(self) -> None:
        common = self.log.content[self.slave.base : self.slave.end_offset]
        assert self.slave.content == common, "the slave's log is a part of the master's"
        assert self.slave.end_offset in self.ends, "it ends with a record"

    async def settle(self) -> None:
        self.network.heal(MASTER, SLAVE)
        for _ in range(20):
            self.put()
            self.end_burst()
            await trio.sleep(4)
            self.check()
            if self.answers[-1] is PutMessageStatus.PUT_OK:
                break
        assert self.answers[-1] is PutMessageStatus.PUT_OK, "without faults a slave acknowledges, soon"
        assert self.slave.end_offset == self.log.end_offset


async def _equal(address: str) -> None:
    await trio.lowlevel.checkpoint()


def run_script(ops: list[str], seed: int) -> list[PutMessageStatus]:
    """Run a script and return the answers; AssertionError for a broken rule."""
    answers: list[PutMessageStatus] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            pair = Pair(nursery, seed)
            await pair.start()
            for op in ops:
                await pair.apply(op)
            await pair.settle()
            answers.extend(pair.answers)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return answers


@given(ops=st.lists(st.sampled_from(OPS), max_size=30), seed=st.integers(0, 2**32))
def test_a_pair_keeps_its_rules_over_every_fault(ops: list[str], seed: int) -> None:
    run_script(ops, seed)


@pytest.mark.parametrize("seed", range(5))
def test_without_faults_everything_is_answered_put_ok(seed: int) -> None:
    answers = run_script(["wait", *["put", "burst"] * 10], seed)
    assert len(answers) == 111
    assert set(answers[-100:]) == {PutMessageStatus.PUT_OK}


def test_the_same_seed_is_the_same_history() -> None:
    ops = ["put", "cut out", "burst", "wait", "heal", "reset", "put", "lose slave", "burst"]
    assert run_script(ops, 7) == run_script(ops, 7)


# ---- planted bugs ---------------------------------------------------------------------------------------------------


def _answers_what_was_sent(self: GroupTransferService) -> None:
    sent = max((slave.sent_offset for slave in self._slaves()), default=0)
    while self._ends and self._ends[0] <= sent:
        del self._ends[0], self._began[0]
        self._callbacks.pop(0)(PutMessageStatus.PUT_OK)


def _passes_everything(self: VerifiedStream, data: bytes) -> list[VerifiedPiece]:
    offset = self.next_offset
    self.next_offset += len(data)
    return [VerifiedPiece(offset, data, ())] if data else []


@contextmanager
def planted(owner: type, name: str, bug: Callable[..., object]) -> Iterator[None]:
    skip_where_compiled(owner)
    right = getattr(owner, name)
    setattr(owner, name, bug)
    try:
        yield
    finally:
        setattr(owner, name, right)


def is_found(scripts: int = 60) -> bool:
    """Whether one of some random scripts breaks a rule."""
    for seed in range(scripts):
        choose = Random(seed)
        try:
            run_script([choose.choice(OPS) for _ in range(25)], seed)
        except BaseExceptionGroup as failures:
            if failures.subgroup(AssertionError) is None:
                raise
            return True
    return False


def test_bytes_that_were_sent_and_not_received_do_not_count() -> None:
    with planted(GroupTransferService, "acknowledged", _answers_what_was_sent):
        assert is_found()


def test_records_that_are_stored_before_they_are_whole_are_found() -> None:
    with planted(VerifiedStream, "receive", _passes_everything):
        assert is_found()


@pytest.mark.by_chance
def test_no_rule_is_broken_by_the_right_code() -> None:
    assert not is_found(scripts=30)
