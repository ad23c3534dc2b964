"""The waits of a SYNC_MASTER against a model that looks at every message after every step.

Scripts put messages in bursts, let slaves connect, report and go, let the disk sync or be late, and let time pass.
After each step every message must have been answered as the model says: with that status, or not yet. The services are
the product's; disk and slaves are the script's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from random import Random
from unittest import mock

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from property_tests.hunts import skip_where_compiled
from rocketpy.store.ha import group_transfer
from rocketpy.store.ha.group_transfer import TICK_SECONDS, GroupTransferService
from rocketpy.store.ha.slave_progress import SlaveProgress
from rocketpy.store.results import PutMessageStatus, StoredCallback
from rocketpy.store.services import stored_waits as stored_waits_module
from rocketpy.store.services.stored_waits import stored_waits

OK = PutMessageStatus.PUT_OK
TIMEOUT = PutMessageStatus.FLUSH_SLAVE_TIMEOUT
NONE = PutMessageStatus.SLAVE_NOT_AVAILABLE
LATE = PutMessageStatus.FLUSH_DISK_TIMEOUT
SIZE, FALLBEHIND, FILE = 10, 60, 400
STEP_S = 0.05
# Between two steps, so that neither the timer nor a burst that it ended makes a difference.
TIMEOUT_S = 0.37
assert 2 * TICK_SECONDS < STEP_S - TIMEOUT_S % STEP_S, "an answer may be late by two ticks"

Op = tuple[str, int]
OPS = ("put", "put", "again", "end", "end", "connect", "report", "report", "go", "sync", "late", "wait")


@attrs.define
class Disk:
    """The flush: a script says when it ends, and how."""

    waiting: list[StoredCallback] = attrs.Factory(list)

    def wait_durable(self, physical_end: int, callback: StoredCallback) -> None:
        self.waiting.append(callback)


@attrs.define
class Message:
    """What the model knows of one message."""

    end: int
    began: float
    is_written: bool = False
    flush: PutMessageStatus | None = None
    replica: PutMessageStatus | None = None

    @property
    def status(self) -> PutMessageStatus | None:
        if self.flush is None or self.replica is None:
            return None
        return self.replica if self.replica is not OK else self.flush


@attrs.define
class Pair:
    """The services and the model, in the same world."""

    is_sync_flush: bool
    slaves: list[SlaveProgress] = attrs.Factory(list)
    messages: list[Message] = attrs.Factory(list)
    answers: dict[int, PutMessageStatus] = attrs.Factory(dict)
    disk: Disk = attrs.Factory(Disk)
    wrote_offset: int = 0
    written_end: int = 0
    transfer: GroupTransferService = attrs.field(init=False)
    wait_stored: Callable[[int, StoredCallback], None] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.transfer = GroupTransferService(
            slaves=lambda: self.slaves,
            timeout_s=lambda: TIMEOUT_S,
            fallbehind_max=lambda: FALLBEHIND,
            end_burst=self.write,
            flush_replies=lambda: None,
        )
        self.wait_stored = stored_waits(self.disk if self.is_sync_flush else None, self.transfer)

    # ---- the world ------------------------------------------------------------------------------------------------

    def write(self) -> None:
        self.written_end = self.wrote_offset
        for slave in self.slaves:
            slave.note_sent(self.written_end)
        self._model_written()

    def put(self, size: int) -> None:
        self.wrote_offset += size
        number = len(self.messages)
        message = Message(self.wrote_offset, trio.current_time(), flush=None if self.is_sync_flush else OK)
        self.messages.append(message)

        def answered(status: PutMessageStatus) -> None:
            assert number not in self.answers, "each is answered once"
            assert message.end <= self.written_end, "whatever the status says, it is written"
            if status is OK:
                assert self._is_on_a_slave(message), "a live slave has it now"
            self.answers[number] = status

        self.wait_stored(message.end, answered)

    def connect(self, back: int) -> None:
        request = max(0, self.written_end - back * SIZE)
        slave = SlaveProgress()
        slave.report(request, log_min=0, log_max=self.written_end, file_size=FILE)
        slave.note_sent(self.written_end)
        self.slaves.append(slave)

    def report(self, slave: SlaveProgress, ahead: int) -> None:
        least = max(slave.request_offset, slave.acknowledged_offset, 0)
        offset = min(least + ahead * SIZE, slave.sent_offset)
        slave.report(offset, log_min=0, log_max=self.written_end, file_size=FILE)
        self._model_acknowledged()
        self.transfer.acknowledged()

    def flush(self, status: PutMessageStatus, count: int) -> None:
        if not self.is_sync_flush:
            return
        written = [message for message in self.messages if message.flush is None and message.is_written]
        for message in written[:count]:
            callback = self.disk.waiting.pop(0)
            message.flush = status
            if message.replica is OK and not self._is_on_a_slave(message):
                message.replica = None  # its slave has gone: it is waited for again
            callback(status)

    async def apply(self, op: str, number: int) -> None:
        match op:
            case "put":
                for _ in range(number % 4 + 1):
                    self.put(SIZE)
            case "again":
                self.put(0)
            case "end":
                self.write()
                self.transfer.burst_ended()
            case "connect":
                self.connect(number % 8)
            case "report" if self.slaves:
                self.report(self.slaves[number % len(self.slaves)], number % 5)
            case "go" if self.slaves:
                self.slaves.pop(number % len(self.slaves))
            case "sync":
                self.flush(OK, number % 6)
            case "late":
                self.flush(LATE, number % 2)
            case "wait":
                await self.pass_time(number % 9 + 1)
        self.check()

    async def pass_time(self, steps: int) -> None:
        await trio.sleep(steps * STEP_S)
        for message in self.messages:
            if message.replica is None and message.began + TIMEOUT_S <= trio.current_time():
                message.replica = TIMEOUT

    # ---- the model ------------------------------------------------------------------------------------------------

    def _is_on_a_slave(self, message: Message) -> bool:
        return any(slave.has(message.end) for slave in self.slaves)

    def _model_written(self) -> None:
        """Decide on the messages of the burst."""
        reached = [max(slave.request_offset, slave.acknowledged_offset) for slave in self.slaves]
        for message in self.messages:
            if not message.is_written:
                message.is_written = True
                if not reached or message.end - max(reached) >= FALLBEHIND:
                    message.replica = NONE
        self._model_acknowledged()

    def _model_acknowledged(self) -> None:
        for message in self.messages:
            if message.is_written and message.replica is None and self._is_on_a_slave(message):
                message.replica = OK

    def check(self) -> None:
        expected = {
            number: message.status for number, message in enumerate(self.messages) if message.status is not None
        }
        assert self.answers == expected
        waiting = sum(message.replica is None for message in self.messages)
        assert self.transfer.statistics().waiting == waiting


def run_script(ops: Sequence[Op], *, is_sync_flush: bool) -> list[PutMessageStatus]:
    """Run a script and return the answers; AssertionError where services and model differ."""
    answers: list[PutMessageStatus] = []

    async def main() -> None:
        pair = Pair(is_sync_flush)
        async with trio.open_nursery() as nursery:
            await nursery.start(pair.transfer.run)
            for op, number in ops:
                await pair.apply(op, number)
            nursery.cancel_scope.cancel()
        answers.extend(pair.answers.values())

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return answers


SCRIPTS = st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 100)), max_size=60)


@given(ops=SCRIPTS, is_sync_flush=st.booleans())
def test_each_message_is_answered_as_the_model_says(ops: list[Op], is_sync_flush: bool) -> None:
    run_script(ops, is_sync_flush=is_sync_flush)


def random_script(seed: int) -> list[Op]:
    choose = Random(seed)
    return [(choose.choice(OPS), choose.randrange(100)) for _ in range(60)]


def test_random_scripts_reach_every_status() -> None:
    answers = [each for seed in range(40) for each in run_script(random_script(seed), is_sync_flush=seed % 2 == 0)]
    assert set(answers) == {OK, TIMEOUT, NONE, LATE}


# ---- planted bugs ---------------------------------------------------------------------------------------------------


def _planted(owner: object, name: str, bug: object) -> AbstractContextManager[object]:
    skip_where_compiled(owner)
    return mock.patch.object(owner, name, bug)


def _answer_before(self: GroupTransferService, offset: int) -> None:
    while self._ends and self._ends[0] <= offset:
        del self._ends[0], self._began[0]
        self._callbacks.pop(0)(OK)


def _answers_uncovered(self: GroupTransferService) -> None:
    reached = max((slave.acknowledged_offset for slave in self._slaves()), default=-1)
    _answer_before(self, reached)


def _answers_sent(self: GroupTransferService) -> None:
    reached = max((slave.sent_offset for slave in self._slaves()), default=-1)
    _answer_before(self, reached)


BUGS = {
    "what a slave was not sent is answered": lambda: _planted(GroupTransferService, "acknowledged", _answers_uncovered),
    "what was sent is answered": lambda: _planted(GroupTransferService, "acknowledged", _answers_sent),
    "a report does not cover its last byte": lambda: _planted(group_transfer, "bisect_right", bisect_left),
    "a burst too far behind waits": lambda: _planted(GroupTransferService, "_available_end", lambda *_: 1 << 40),
    "a slave that has gone counts": lambda: _planted(GroupTransferService, "has", lambda self, end: True),
    "nobody waits again": lambda: _planted(GroupTransferService, "wait_again", lambda *_: None),
    "a flush counts for a slave": lambda: _planted(stored_waits_module, "_PUT_OK", TIMEOUT),
    "what waits again waits after all others": lambda: _planted(group_transfer, "bisect_left", bisect_right),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_planted_bug_is_found(bug: Callable[[], AbstractContextManager[object]]) -> None:
    with bug():
        for seed in range(200):
            try:
                run_script(random_script(seed), is_sync_flush=seed % 2 == 0)
            except BaseExceptionGroup as failures:
                if failures.subgroup((AssertionError, IndexError)) is None:
                    raise
                return
    pytest.fail("not found")
