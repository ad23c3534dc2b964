"""Delayed messages are delivered when they are due: once, in order, whatever happens on the way."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing

from rocketpy.broker.delay.level_queue import MESSAGES_PER_TURN
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.delay.delayed import (
    SYNC,
    DelayedMessages,
    TrioWallClock,
    noted_offsets,
    open_delayed,
    text_of,
    write_text,
)

Jumping = trio.testing.MockClock
DEAD_LETTERS = "rmq_sys_DELAY_DEAD_LETTER"


async def test_a_message_is_delivered_on_time_to_its_own_queue(
    autojump_clock: Jumping, delayed: DelayedMessages
) -> None:
    sent_s = trio.current_time()
    result = delayed.send(
        1, b"body", topic="Own", queue_id=3, TAGS="t", KEYS="k", UNIQ_KEY="u", WAIT="true", sys_flag=8
    )
    assert (result.topic, result.queue_id, result.queue_offset) == ("SCHEDULE_TOPIC_XXXX", 0, 0)
    await trio.sleep(0.999)
    assert delayed.bodies("Own", 3) == []
    await trio.sleep(0.002)
    (message,) = delayed.messages("Own", 3)
    assert delayed.at_s("Own", 3) == [pytest.approx(sent_s + 1)]
    assert message.body == b"body"
    sent = {"DELAY": "1", "TAGS": "t", "KEYS": "k", "UNIQ_KEY": "u", "WAIT": "true"}
    assert message.properties == {**sent, "REAL_TOPIC": "Own", "REAL_QID": "3"}
    assert (message.flag, message.born_timestamp, message.reconsume_times) == (3, 12, 2)
    assert message.sys_flag == 8, "that of a committed transaction"
    assert message.born_host == "10.0.0.1:50000"
    assert message.prepared_transaction_offset == ~result.physical_offset
    assert delayed.woken_count == 1


async def test_levels_do_not_wait_for_each_other(autojump_clock: Jumping) -> None:
    async with open_delayed(levels="1s 5s 10s 3m") as delayed:
        begin_s = trio.current_time()
        for level in (4, 3, 2, 1):
            delayed.send(level, b"%d" % level)
        await trio.sleep(181)
        assert delayed.bodies() == [b"1", b"2", b"3", b"4"]
        assert delayed.at_s() == pytest.approx([begin_s + 1, begin_s + 5, begin_s + 10, begin_s + 180])


async def test_a_message_for_an_earlier_moment_wakes_the_sleeper(
    autojump_clock: Jumping, delayed: DelayedMessages
) -> None:
    delayed.send(4, b"late")
    await trio.sleep(100.3)
    sent_s = trio.current_time()
    delayed.send(1, b"early")
    await trio.sleep(1.01)
    assert delayed.at_s() == [pytest.approx(sent_s + 1, abs=0.002)]


async def test_many_messages_of_one_moment_come_in_order(autojump_clock: Jumping, delayed: DelayedMessages) -> None:
    bodies = [b"%d" % number for number in range(5 * MESSAGES_PER_TURN + 7)]
    for body in bodies:
        delayed.send(2, body)
    await trio.sleep(5.1)
    assert delayed.bodies() == bodies
    assert delayed.service.statistics().delivered_count == len(bodies)


async def test_a_sleeping_service_does_next_to_nothing(autojump_clock: Jumping) -> None:
    """However many messages wait, between two of them there is a look at the clock per second and nothing else."""
    async with open_delayed(levels="1h") as delayed:
        for number in range(1000):
            delayed.send(1, b"%d" % number)
        await trio.testing.wait_all_tasks_blocked()
        instrument = CountsSteps()
        trio.lowlevel.add_instrument(instrument)
        await trio.sleep(100)
        trio.lowlevel.remove_instrument(instrument)
        assert instrument.steps_of["ScheduleMessageService.run"] <= 110


class CountsSteps(trio.abc.Instrument):
    """Counts how often each task ran."""

    def __init__(self) -> None:
        self.steps_of: dict[str, int] = {}

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        name = task.name.rpartition("delivery.")[2]
        self.steps_of[name] = self.steps_of.get(name, 0) + 1


# ---- ends and starts ------------------------------------------------------------------------------------------------


async def test_what_waits_survives_a_clean_shutdown(autojump_clock: Jumping) -> None:
    disk = SimDisk()
    async with open_delayed(disk) as delayed:
        delayed.send(1, b"a")
        delayed.send(2, b"b")
        await trio.sleep(2)
    assert noted_offsets(disk) == {1: 1}
    async with open_delayed(disk) as delayed:
        assert delayed.service.statistics().already_delivered_count == 0
        await trio.sleep(10)
        assert delayed.bodies() == [b"a", b"b"]


async def test_what_was_delivered_and_not_noted_is_not_delivered_again(autojump_clock: Jumping) -> None:
    disk = SimDisk()
    async with open_delayed(disk, orderly=False) as delayed:
        for number in range(40):
            delayed.send(1, b"%d" % number)
        delayed.send(2, b"later")
        await trio.sleep(1.5)
        assert len(delayed.bodies()) == 40
    assert noted_offsets(disk) == {}
    async with open_delayed(disk, orderly=False) as delayed:
        await trio.sleep(10)
        assert delayed.bodies() == [*(b"%d" % number for number in range(40)), b"later"]
        assert delayed.service.statistics().already_delivered_count == 40


async def test_progress_is_noted_every_interval(autojump_clock: Jumping) -> None:
    disk = SimDisk()
    async with open_delayed(disk, orderly=False, flush_delay_offset_interval=3_000) as delayed:
        delayed.send(1, b"a")
        await trio.sleep(2.9)
        assert noted_offsets(disk) == {}
        await trio.sleep(0.2)
        assert noted_offsets(disk) == {1: 1}


async def test_due_while_the_broker_was_down_is_delivered_at_once(autojump_clock: Jumping) -> None:
    disk = SimDisk()
    async with open_delayed(disk) as delayed:
        delayed.send(4, b"a")
    await trio.sleep(7_200)
    async with open_delayed(disk) as delayed:
        await trio.sleep(0.01)
        assert delayed.bodies() == [b"a"]


async def test_the_file_of_java_is_taken_and_java_delivered_last(autojump_clock: Jumping) -> None:
    """Java's file has no physical offset: only the offsets are known."""
    disk = SimDisk()
    async with open_delayed(disk, orderly=False) as delayed:
        for body in (b"a", b"b", b"c"):
            delayed.send(2, body)
    write_text(disk, '{\n\t"offsetTable":{2:2\n\t}\n}')
    async with open_delayed(disk) as delayed:
        await trio.sleep(6)
        assert delayed.bodies() == [b"c"]
        assert "physicalOffset" in text_of(disk)


async def test_what_another_broker_has_delivered_into_this_log_is_not_delivered_again(autojump_clock: Jumping) -> None:
    """A slave has the log, and may be promoted before it has taken its master's progress; and be killed soon after."""
    disk = SimDisk()
    async with open_delayed(disk, orderly=False) as delayed:
        delayed.send(2, b"later")
        for number in range(40):
            delayed.send(1, b"%d" % number)
        await trio.sleep(1.5)
        assert len(delayed.bodies()) == 40
    write_text(disk, json.dumps({"offsetTable": {}}))
    async with open_delayed(disk, orderly=False) as delayed:
        await trio.sleep(6)
        assert delayed.bodies() == [*(b"%d" % number for number in range(40)), b"later"]
    async with open_delayed(disk, orderly=False) as delayed:
        await trio.sleep(10)
        assert len(delayed.bodies()) == 41


@pytest.mark.parametrize(("noted", "delivered"), [(50, 0), (3, 0), (1, 2)])
async def test_an_offset_outside_of_its_queue_is_corrected(autojump_clock: Jumping, noted: int, delivered: int) -> None:
    disk = SimDisk()
    async with open_delayed(disk, orderly=False) as delayed:
        for body in (b"a", b"b", b"c"):
            delayed.send(3, body)
    write_text(disk, json.dumps({"offsetTable": {"3": noted}}))
    async with open_delayed(disk) as delayed:
        delayed.send(3, b"new")
        await trio.sleep(11)
        assert len(delayed.bodies()) == delivered + 1
        assert delayed.service.runtime_info() == {
            "scheduleMessageDeadLetterCount": "0",
            "scheduleMessageLostCount": "0",
            "scheduleMessageOffset_3": "4,4",
        }


async def test_what_was_deleted_with_its_topic_is_not_delivered(autojump_clock: Jumping) -> None:
    """It would bring back a queue of the topic, which nothing ever removes."""
    deleted_before = {"T": 1 << 40}

    def is_deleted(topic: str, physical_offset: int) -> bool:
        return physical_offset < deleted_before.get(topic, 0)

    async with open_delayed(is_deleted=is_deleted) as delayed:
        delayed.send(1, b"deleted")
        delayed.send(1, b"of another topic", topic="U")
        deleted_before["T"] = delayed.store.wrote_offset
        await trio.sleep(1.5)
        assert delayed.bodies("U") == [b"of another topic"]
        assert ("T", 0) not in delayed.store.queues()
        assert (delayed.service.statistics().deleted_count, delayed.service.statistics().delivered_count) == (1, 1)
        delayed.send(1, b"of the topic that was made again")
        await trio.sleep(1.5)
        assert delayed.bodies("T") == [b"of the topic that was made again"]
        assert delayed.service.statistics().dead_letter_count == 0


async def test_levels_that_are_not_set_any_more_are_delivered_too(autojump_clock: Jumping) -> None:
    disk = SimDisk()
    async with open_delayed(disk, levels="1s 5s 10s 3m") as delayed:
        delayed.send(4, b"three minutes")
        delayed.send(3, b"ten seconds")
    async with open_delayed(disk, levels="1s") as delayed:
        await trio.sleep(181)
        assert delayed.bodies() == [b"ten seconds", b"three minutes"]


# ---- obstacles ------------------------------------------------------------------------------------------------------


async def test_what_the_store_refuses_is_tried_until_it_is_taken(
    autojump_clock: Jumping, delayed: DelayedMessages
) -> None:
    for body in (b"a", b"b"):
        delayed.send(1, body)
    put, tries = delayed.store.put, []

    def refused(*arguments: object) -> tuple[PutMessageStatus, int, int]:
        tries.append(trio.current_time())
        return PutMessageStatus.SERVICE_NOT_AVAILABLE, -1, -1

    delayed.store.put = refused  # type: ignore[assignment]
    await trio.sleep(60)
    assert delayed.bodies() == []
    assert 10 < len(tries) < 30
    assert delayed.service.statistics().refused_count == len(tries)
    delayed.store.put = put
    await trio.sleep(5.1)
    assert delayed.bodies() == [b"a", b"b"]


# ---- what can never be delivered ------------------------------------------------------------------------------------


async def test_a_message_without_a_target_goes_to_the_dead_letters(
    autojump_clock: Jumping, delayed: DelayedMessages
) -> None:
    delayed.store.put_timed("SCHEDULE_TOPIC_XXXX", 0, b"x", b"DELAY\x011", 1_000, (), 0, 0, 0, b"\x0a\0\0\1\0\0\0\1", 0)
    delayed.send(1, b"next")
    await trio.sleep(1.1)
    assert delayed.bodies() == [b"next"]
    (dead,) = delayed.messages(DEAD_LETTERS)
    assert dead.body == b"x"
    assert dead.properties["DEAD_LETTER_REASON"].startswith("REAL_TOPIC is '', expected")
    assert delayed.service.statistics().dead_letter_count == 1


async def test_a_body_that_has_become_too_large_does_not_stop_its_level(
    autojump_clock: Jumping, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator has lowered maxMessageSize while it waited. RocketMQ delivers nothing of that level any more."""
    disk = SimDisk()
    async with open_delayed(disk) as delayed:
        large = delayed.send(2, b"l" * 5_000, TAGS="t", KEYS="k", UNIQ_KEY="u", sys_flag=8)
        delayed.send(2, b"small")
    async with open_delayed(disk, max_message_size=4_999) as delayed:
        await trio.sleep(5.1)
        assert delayed.bodies() == [b"small"]
        (dead,) = delayed.messages(DEAD_LETTERS)
        assert dead.body == b"l" * 5_000
        assert dead.properties == {
            "DELAY": "2", "TAGS": "t", "KEYS": "k", "UNIQ_KEY": "u", "REAL_TOPIC": "T", "REAL_QID": "0",
            "DEAD_LETTER_REASON": "MESSAGE_ILLEGAL",
        }  # fmt: skip
        assert (dead.sys_flag, dead.prepared_transaction_offset) == (8, ~large.physical_offset)
        assert (dead.flag, dead.born_timestamp, dead.born_host, dead.reconsume_times) == (3, 12, "10.0.0.1:50000", 2)
        assert delayed.service.runtime_info()["scheduleMessageDeadLetterCount"] == "1"
        assert delayed.made_topics == [DEAD_LETTERS]
    (line,) = [record.getMessage() for record in caplog.records if "cannot be delivered" in record.getMessage()]
    assert line == (
        f"the delayed message at {large.physical_offset} of the log, for 'T', cannot be delivered: MESSAGE_ILLEGAL; it "
        "is in rmq_sys_DELAY_DEAD_LETTER, the last of 1 since the start"
    )


async def test_queues_that_may_not_be_named_any_more(autojump_clock: Jumping) -> None:
    """Two reasons: the topic was deleted, and fewer light queues are allowed. The dead letter is in none of them."""
    disk = SimDisk()
    async with open_delayed(disk, enable_multi_dispatch=True) as delayed:
        delayed.send(1, b"a", INNER_MULTI_DISPATCH="Gone,%LMQ%x")
        delayed.send(1, b"b", INNER_MULTI_DISPATCH="%LMQ%x,%LMQ%y")
        delayed.send(1, b"c", INNER_MULTI_DISPATCH="%LMQ%x")
    async with open_delayed(
        disk,
        enable_multi_dispatch=True,
        max_lmq_consume_queue_num=1,
        may_be_named="%LMQ%x%LMQ%y".__contains__,
    ) as delayed:
        await trio.sleep(1.1)
        assert delayed.bodies() == delayed.bodies("%LMQ%x") == [b"c"]
        dead = delayed.messages(DEAD_LETTERS)
        assert [message.body for message in dead] == [b"a", b"b"]
        reasons = [message.properties["DEAD_LETTER_REASON"] for message in dead]
        assert reasons == ["MESSAGE_ILLEGAL", "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"]
        assert delayed.bodies("Gone") == delayed.bodies("%LMQ%y") == []


async def test_a_dead_letter_is_made_once_however_the_broker_ends(autojump_clock: Jumping) -> None:
    """And its topic is there in each life, although the table may have been lost with the first."""
    disk = SimDisk()
    async with open_delayed(disk, orderly=False) as delayed:
        for number in range(3):
            delayed.send(1, b"l" * 5_000)
            delayed.send(1, b"%d" % number)
    for life in range(3):
        async with open_delayed(disk, orderly=False, max_message_size=4_999) as delayed:
            await trio.sleep(1.1)
            assert delayed.bodies() == [b"0", b"1", b"2"]
            assert len(delayed.bodies(DEAD_LETTERS)) == 3
            assert len(delayed.made_topics) == (3 if life == 0 else 1)


@pytest.mark.parametrize("refuses", ["put", "put_kept"])
async def test_a_dead_letter_waits_for_what_passes(autojump_clock: Jumping, refuses: str) -> None:
    disk = SimDisk()
    async with open_delayed(disk) as delayed:
        delayed.send(1, b"l" * 5_000)
    async with open_delayed(disk, max_message_size=4_999) as delayed:
        put = getattr(delayed.store, refuses)
        setattr(delayed.store, refuses, lambda *_: (PutMessageStatus.SERVICE_NOT_AVAILABLE, -1, -1))
        await trio.sleep(20)
        assert delayed.bodies(DEAD_LETTERS) == []
        assert delayed.service.statistics().refused_count > 3
        setattr(delayed.store, refuses, put)
        await trio.sleep(5.1)
        assert delayed.bodies(DEAD_LETTERS) == [b"l" * 5_000]


async def test_what_not_even_a_dead_letter_can_hold_is_counted_and_passed(
    autojump_clock: Jumping, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimDisk()
    async with open_delayed(disk) as delayed:
        delayed.send(1, b"l" * 5_000)
        delayed.send(1, b"next")
    async with open_delayed(disk, max_message_size=4_999) as delayed:
        delayed.store.put_kept = lambda *_: (PutMessageStatus.MESSAGE_ILLEGAL, -1, -1)  # type: ignore[method-assign]
        await trio.sleep(1.1)
        assert delayed.bodies() == [b"next"]
        assert delayed.service.runtime_info()["scheduleMessageLostCount"] == "1"
    assert "MESSAGE_ILLEGAL, nor kept as a dead letter: MESSAGE_ILLEGAL" in caplog.text


async def test_units_with_the_hash_of_their_tags_are_not_taken_for_due(
    autojump_clock: Jumping, delayed: DelayedMessages
) -> None:
    """Java's recovery makes such units of delayed messages."""
    properties = b"DELAY\x012\x02TAGS\x01t\x02REAL_TOPIC\x01T\x02REAL_QID\x010"
    delayed.store.put(
        "SCHEDULE_TOPIC_XXXX", 1, b"x", properties, 116, (), 0, 0, 0, b"\x0a\0\0\1\0\0\0\1", 0
    )  # fmt: skip
    sent_s = trio.current_time()
    await trio.sleep(6)
    assert delayed.at_s() == [pytest.approx(sent_s + 5, abs=1.0)]
    assert delayed.at_s()[0] >= sent_s + 5


async def test_a_message_lost_from_the_log_is_skipped(autojump_clock: Jumping) -> None:
    disk = SimDisk()
    async with open_delayed(disk, orderly=False) as delayed:
        delayed.send(1, b"a" * 100)
        delayed.send(1, b"b")
        disk.flip_bit("/store/commitlog/00000000000000000000", 95)
        await trio.sleep(1.1)
        assert delayed.bodies() == [b"b"]
        assert delayed.service.statistics().lost_count == 1


async def test_expired_messages_are_skipped_and_counted(autojump_clock: Jumping) -> None:
    async with open_delayed(levels="10d", mapped_file_size_commit_log=4096) as delayed:
        for number in range(100):
            delayed.send(1, b"%d" % number)
        delayed.clock.set_by_ms += 73 * 3_600_000
        delayed.store.execute_delete_files_manually()
        await trio.sleep(75)
        assert delayed.store.min_physical_offset > 0
        delayed.clock.set_by_ms += 240 * 3_600_000
        await trio.sleep(5)
        delivered = len(delayed.bodies())
        assert 0 < delivered < 100
        assert delayed.bodies() == [b"%d" % number for number in range(100 - delivered, 100)]
        assert delayed.service.statistics().lost_count == 100 - delivered


async def test_cold_messages_are_read_in_a_worker(autojump_clock: Jumping) -> None:
    disk = SimDisk()
    async with open_delayed(disk, orderly=False) as delayed:
        for number in range(3):
            delayed.send(1, b"%d" % number)
        await trio.sleep(0.9)
        disk.evict("/store/commitlog/00000000000000000000")
        await trio.sleep(0.2)
        assert delayed.bodies() == [b"0", b"1", b"2"]


async def test_full_disk_when_the_file_is_to_be_written(autojump_clock: Jumping) -> None:
    """Without the file a crash would deliver again, so it comes first."""
    disk = SimDisk()
    async with open_delayed(disk, orderly=False) as delayed:
        delayed.send(1, b"a")
        disk.capacity_bytes = 0
        await trio.sleep(20)
        assert delayed.bodies() == []
        disk.capacity_bytes = 1 << 40
        await trio.sleep(6)
        assert delayed.bodies() == [b"a"]


async def test_without_descriptors_delivery_waits(autojump_clock: Jumping) -> None:
    """The units of a level cannot be read: nothing is lost, and nothing ends."""
    disk = SimDisk()
    async with open_delayed(disk, consume_queue_files_open_max=8) as delayed:
        delayed.send(1, b"late")
        for number in range(12):
            delayed.send(0, b"other", topic=f"Other{number}")  # so that the level's file is closed
        disk.run_out_of_descriptors(1, 100_000)
        await trio.sleep(10)
        disk.run_out_of_descriptors(1, 0)
        assert delayed.bodies() == []
        await trio.sleep(10)
        assert delayed.bodies() == [b"late"]


# ---- clocks that are set --------------------------------------------------------------------------------------------


async def test_a_clock_that_is_set_back_delays_nothing(autojump_clock: Jumping) -> None:
    async with open_delayed(levels="1s 5s 10s 3m") as delayed:
        begin_s = trio.current_time()
        delayed.send(4, b"before")
        await trio.sleep(60)
        delayed.clock.set_by_ms -= 3_600_000
        await trio.sleep(10)
        delayed.send(4, b"after")
        await trio.sleep(180 - 71)
        assert delayed.bodies() == []
        await trio.sleep(1.1)
        assert delayed.bodies() == [b"before"]
        await trio.sleep(69)
        assert delayed.bodies() == [b"before"]
        await trio.sleep(1.1)
        assert delayed.bodies() == [b"before", b"after"]
        assert trio.current_time() - begin_s < 255


async def test_a_message_right_after_the_clock_was_set_back_is_not_early(
    autojump_clock: Jumping, delayed: DelayedMessages
) -> None:
    """The clock was not checked in between."""
    delayed.send(4, b"before")
    await trio.sleep(10.5)
    delayed.clock.set_by_ms -= 3_600_000
    delayed.send(2, b"after")
    await trio.sleep(4.99)
    assert delayed.bodies() == []
    await trio.sleep(0.02)
    assert delayed.bodies() == [b"after"]


async def test_a_clock_that_is_set_forward_is_followed_within_a_second(
    autojump_clock: Jumping, delayed: DelayedMessages
) -> None:
    delayed.send(4, b"a")
    await trio.sleep(10)
    delayed.clock.set_by_ms += 3_600_000
    await trio.sleep(1.01)
    assert delayed.bodies() == [b"a"]


async def test_a_clock_that_was_set_back_while_the_broker_was_down(autojump_clock: Jumping) -> None:
    """They wait for their whole delay once more, and none for longer."""
    disk, clock = SimDisk(), TrioWallClock()
    async with open_delayed(disk, clock=clock) as delayed:
        delayed.send(3, b"a")
        await trio.sleep(2)
        delayed.send(3, b"b")
    clock.set_by_ms -= 86_400_000
    async with open_delayed(disk, clock=clock) as delayed:
        await trio.sleep(9.9)
        assert delayed.bodies() == []
        await trio.sleep(0.2)
        assert delayed.bodies() == [b"a", b"b"]


# ---- with everything else -------------------------------------------------------------------------------------------


async def test_extended_units(autojump_clock: Jumping) -> None:
    disk = SimDisk()
    async with open_delayed(disk, enable_consume_queue_ext=True) as delayed:
        delayed.send(1, b"a", TAGS="t")
        delayed.send(2, b"b", TAGS="t")
        await trio.sleep(1.1)
        assert delayed.bodies() == [b"a"]
    async with open_delayed(disk, enable_consume_queue_ext=True) as delayed:
        await trio.sleep(5)
        assert delayed.bodies() == [b"a", b"b"]


async def test_a_message_for_several_queues_is_early_in_none(autojump_clock: Jumping) -> None:
    async with open_delayed(enable_multi_dispatch=True) as delayed:
        delayed.send(1, b"a", INNER_MULTI_DISPATCH="%LMQ%x,Other")
        await trio.sleep(0.9)
        assert delayed.bodies("%LMQ%x") == delayed.bodies("Other") == []
        await trio.sleep(0.2)
        assert delayed.bodies("%LMQ%x") == delayed.bodies("Other") == delayed.bodies() == [b"a"]


async def test_under_sync_flush_each_delivery_becomes_durable(autojump_clock: Jumping) -> None:
    """It requests a flush of its own: a delivery during a sync needs the next one, and nothing else may cause it."""
    async with open_delayed(flush_disk_type=SYNC, levels="1s 2s") as delayed:
        delayed.send(1, b"a")
        delayed.send(2, b"b")
        for delivered in ([b"a"], [b"a", b"b"]):
            await trio.sleep(1.1)
            assert delayed.bodies() == delivered
            assert delayed.store.durable_offset == delayed.store.wrote_offset


async def test_deliveries_are_counted(autojump_clock: Jumping, delayed: DelayedMessages) -> None:
    delayed.send(1, b"a")
    await trio.sleep(1.1)
    stats = delayed.stats
    assert total(stats, "QUEUE_GET_NUMS", "SCHEDULE_TOPIC_XXXX@0@SCHEDULE_CONSUMER") == 1
    assert total(stats, "GROUP_GET_NUMS", "SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER") == 1
    assert total(stats, "TOPIC_PUT_NUMS", "T") == 1
    (message,) = delayed.messages()
    assert total(stats, "TOPIC_PUT_SIZE", "T") == message.store_size


def total(stats: object, name: str, key: str) -> int:
    item = stats.get_stats_item(name, key)  # type: ignore[attr-defined]
    assert item is not None, (name, key)
    return int(item.value)
