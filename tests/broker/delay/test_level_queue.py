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
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.runner import run_inline
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.delay.delayed import BORN_HOST, ROOT, STORE_HOST, TrioWallClock

Jumping = trio.testing.MockClock  # pytest-trio takes it only from a test's own arguments

LEVELS = DelayLevels.parse("1s 5s")
DISK_OFFSETS = f"{ROOT}/config/delayOffset.json"


class Waiting:
    """A store with messages that wait in level 1, and the queue of that level; nothing delivers them."""

    def __init__(self, store: MessageStore, clock: TrioWallClock) -> None:
        self.store = store
        self.clock = clock
        self.offsets = DelayOffsetManager(path=DISK_OFFSETS, disk=SimDisk(), run_blocking=run_inline)
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
    config = MessageStoreConfig(
        store_path_root_dir=ROOT,
        mapped_file_size_commit_log=1 << 20,
        mapped_file_size_consume_queue=20 * 300,
        max_message_size=1 << 18,
        max_hash_slot_num=100,
        max_index_num=1000,
    )
    async with open_message_store(
        config,
        disk=SimDisk(),
        clock=clock,
        run_blocking=run_inline,
        store_host=STORE_HOST,
        tags_code=LEVELS.tags_code,
        memory_bytes=1 << 40,
    ) as store:
        yield Waiting(store, clock)


# ---- position -------------------------------------------------------------------------------------------------------


async def test_a_queue_begins_at_its_offset_and_keeps_the_table_in_step(
    autojump_clock: Jumping, waiting: Waiting
) -> None:
    waiting.send(b"a", b"b", b"c")
    queue = waiting.queue(at=1)
    assert (queue.level, queue.queue_id, queue.queue_offset, queue.has_more()) == (1, 0, 1, True)
    queue.move_to(3)
    assert (queue.queue_offset, queue.has_more()) == (3, False)
    assert waiting.offsets.offset_table == {1: 3}
    assert waiting.queue(2).queue_offset == 0


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


async def test_an_offset_in_the_queue_stays(
    autojump_clock: Jumping, waiting: Waiting, caplog: pytest.LogCaptureFixture
) -> None:
    waiting.send(b"a", b"b")
    queue = waiting.queue(at=1)
    assert queue.correct(is_known=True) == 0
    assert queue.queue_offset == 1
    assert not caplog.records


# ---- messages -------------------------------------------------------------------------------------------------------


async def test_due_messages_are_returned_and_the_one_after_them_is_awaited(
    autojump_clock: Jumping, waiting: Waiting
) -> None:
    waiting.send(b"a", b"b")
    await trio.sleep(0.5)
    waiting.send(b"c")
    queue, begin_ms = waiting.queue(), waiting.clock.timestamp_ms()
    assert await queue.due_units() == []
    assert queue.due_ms == begin_ms + 500
    await trio.sleep(0.5)
    due = await queue.due_units()
    assert [unit.queue_offset for unit in due] == [0, 1]
    assert queue.due_ms == begin_ms + 1_000
    queue.move_to(2)
    await trio.sleep(0.5)
    assert [unit.queue_offset for unit in await queue.due_units()] == [2]
    assert queue.due_ms is None


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


async def test_units_name_their_records(autojump_clock: Jumping, waiting: Waiting) -> None:
    waiting.send(b"a", b"b")
    queue = waiting.queue()
    first, second = await queue.units(0)
    assert (first.queue_offset, first.physical_offset, first.size) == (0, 0, second.physical_offset)
    assert first.due_ms == waiting.clock.timestamp_ms() + 1_000
    assert await queue.units(1) == [second]
    assert await queue.units(2) == []


async def test_a_unit_with_the_hash_of_its_tags_is_due_by_its_record(autojump_clock: Jumping, waiting: Waiting) -> None:
    """Recovery by RocketMQ leaves such units."""
    code = waiting.store.put(SCHEDULE_TOPIC, 1, b"a", b"", -5, None, 0, 0, 12, BORN_HOST, 0, 0)
    assert code[0].name == "PUT_OK"
    waiting.store.end_burst()
    queue = waiting.queue(2)
    (unit,) = await queue.units(0)
    assert unit.due_ms is None
    assert await queue.due_units() == []
    assert queue.due_ms == waiting.clock.timestamp_ms() + 5_000


# ---- time -----------------------------------------------------------------------------------------------------------


async def test_a_queue_without_messages_waits_for_none(autojump_clock: Jumping, waiting: Waiting) -> None:
    queue = waiting.queue()
    assert not queue.may_be_due()
    assert queue.wait_s(waiting.clock.timestamp_ms()) is None
    queue.back_off()
    assert queue.wait_s(waiting.clock.timestamp_ms()) is None


async def test_the_wait_ends_when_the_next_message_is_due(autojump_clock: Jumping, waiting: Waiting) -> None:
    waiting.send(b"a")
    queue = waiting.queue()
    assert queue.may_be_due()  # nothing is known of the head
    await queue.due_units()
    assert not queue.may_be_due()
    await trio.sleep(0.25)
    assert queue.wait_s(waiting.clock.timestamp_ms()) == pytest.approx(0.75)
    await trio.sleep(0.75)
    assert queue.may_be_due()


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


async def test_a_due_message_in_a_backoff_waits_for_its_end(autojump_clock: Jumping, waiting: Waiting) -> None:
    waiting.send(b"a")
    queue = waiting.queue()
    await queue.due_units()
    await trio.sleep(1)
    queue.back_off(RETRY_SECONDS_MAX)
    assert not queue.may_be_due()
    assert queue.wait_s(waiting.clock.timestamp_ms()) == pytest.approx(RETRY_SECONDS_MAX)


async def test_a_clock_that_is_set_back_makes_waiting_messages_due_earlier(
    autojump_clock: Jumping, waiting: Waiting
) -> None:
    waiting.send(b"a")
    queue, due_ms = waiting.queue(), waiting.clock.timestamp_ms() + 1_000
    await queue.due_units()
    assert queue.due_ms == due_ms
    waiting.clock.set_by_ms -= 3_600_000
    queue.clock_set_back(3_600_000)
    assert queue.due_ms is None
    assert await queue.due_units() == []
    assert queue.due_ms == due_ms - 3_600_000
