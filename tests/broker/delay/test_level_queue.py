"""The queue of one delay level: its offset, due messages of a turn, and when the next attempt is."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from rocketpy.broker.delay.level_queue import (
    BYTES_PER_TURN,
    MESSAGES_PER_TURN,
    RETRY_SECONDS_MAX,
    RETRY_SECONDS_MIN,
    LevelQueue,
)
from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.delay.offsets import DelayOffsetManager
from rocketpy.broker.send.put import MessageExtBrokerInner, MessagePut
from rocketpy.runner import run_inline
from rocketpy.store.message_store import MessageStore
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.delay.delayed import BORN_HOST, FILE, TrioWallClock, open_small_store

Jumping = trio.testing.MockClock  # pytest-trio takes it only from a test's own arguments

LEVELS = DelayLevels.parse("1s 5s")


class Waiting:
    """A store with messages that wait in level 1, and the queue of that level; nothing delivers them."""

    def __init__(self, store: MessageStore, clock: TrioWallClock) -> None:
        self.store = store
        self.clock = clock
        self.offsets = DelayOffsetManager(path=FILE, disk=SimDisk(), run_blocking=run_inline)
        self._put = MessagePut(store=store, levels=LEVELS, delivery=None)

    def send(self, *bodies: bytes, level: int = 1) -> None:
        for body in bodies:
            properties = {"DELAY": str(level)}
            self._put.put(MessageExtBrokerInner(topic="T", queue_id=0, body=body, properties=properties, flag=0,
                sys_flag=0, born_timestamp=12, born_host=BORN_HOST, reconsume_times=0))  # fmt: skip
        self.store.end_burst()

    def queue(self, level: int = 1, *, at: int | None = None) -> LevelQueue:
        if at is not None:
            self.offsets.offset_table[level] = at
        return LevelQueue(
            level,
            store=self.store,
            levels=LEVELS,
            offsets=self.offsets,
            clock=self.clock,
            begin_ms=self.clock.timestamp_ms(),
        )


@pytest.fixture
async def waiting(autojump_clock: Jumping) -> AsyncIterator[Waiting]:
    clock = TrioWallClock()
    async with open_small_store(
        LEVELS, clock=clock, mapped_file_size_commit_log=1 << 20, max_message_size=1 << 18
    ) as store:
        yield Waiting(store, clock)


# ---- position -------------------------------------------------------------------------------------------------------


async def test_an_offset_past_the_end_moves_back_and_skips_nothing(
    autojump_clock: Jumping, waiting: Waiting, caplog: pytest.LogCaptureFixture
) -> None:
    waiting.send(b"a")
    queue = waiting.queue(at=7)
    assert queue.correct(is_known=True) == 0
    assert queue.queue_offset == waiting.offsets.offset_table[1] == 1
    assert "delay level 1: the next offset is 7, but its queue has 0 to 1; it goes on at 1" in caplog.text


@pytest.mark.parametrize(("is_known", "lost_count"), [(True, 3), (False, 0)])
async def test_messages_before_the_queue_count_only_if_the_offset_was_known(
    autojump_clock: Jumping,
    waiting: Waiting,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_known: bool,
    lost_count: int,
) -> None:
    waiting.send(b"a", b"b", b"c", b"d", b"e")
    queue = waiting.queue(at=1)
    monkeypatch.setattr(waiting.store, "min_offset_in_queue", lambda topic, queue_id: 4)
    assert queue.correct(is_known=is_known) == lost_count
    assert queue.queue_offset == 4
    assert bool(caplog.records) == is_known


# ---- messages -------------------------------------------------------------------------------------------------------


async def test_a_turn_is_bounded_in_messages(autojump_clock: Jumping, waiting: Waiting) -> None:
    waiting.send(*[b"a"] * (MESSAGES_PER_TURN + 1))
    queue = waiting.queue()
    await trio.sleep(1)
    assert len(await queue.due_units()) == MESSAGES_PER_TURN
    assert queue.due_ms is None  # of the one after them nothing is known


async def test_a_turn_is_bounded_in_bytes_and_has_at_least_one_message(
    autojump_clock: Jumping, waiting: Waiting
) -> None:
    waiting.send(bytes(BYTES_PER_TURN - 1_000), b"b", bytes(2_000))
    queue = waiting.queue()
    await trio.sleep(1)
    assert [unit.queue_offset for unit in await queue.due_units()] == [0, 1]
    assert queue.due_ms == waiting.clock.timestamp_ms()
    queue.move_to(2)
    assert [unit.queue_offset for unit in await queue.due_units()] == [2]


# ---- time -----------------------------------------------------------------------------------------------------------


async def test_refusals_double_the_backoff_up_to_a_bound(autojump_clock: Jumping, waiting: Waiting) -> None:
    waiting.send(b"a")
    queue = waiting.queue()
    waits_s = []
    for _ in range(8):
        queue.back_off()
        assert not queue.may_be_due()
        waits_s.append(queue.wait_s(waiting.clock.timestamp_ms()))
    assert waits_s == pytest.approx([RETRY_SECONDS_MIN * 2**turn for turn in range(6)] + [RETRY_SECONDS_MAX] * 2)
    queue.end_backoff()
    queue.back_off()
    assert queue.wait_s(waiting.clock.timestamp_ms()) == pytest.approx(RETRY_SECONDS_MIN)
    await trio.sleep(RETRY_SECONDS_MIN)
    assert queue.may_be_due()


async def test_a_pause_does_not_count_as_a_refusal(autojump_clock: Jumping, waiting: Waiting) -> None:
    waiting.send(b"a")
    queue = waiting.queue()
    queue.pause()
    assert not queue.may_be_due()
    await trio.sleep(RETRY_SECONDS_MAX)
    assert queue.may_be_due()
    queue.back_off()
    assert queue.wait_s(waiting.clock.timestamp_ms()) == pytest.approx(RETRY_SECONDS_MIN)
