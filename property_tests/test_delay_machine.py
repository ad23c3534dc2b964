"""What is promised of delayed messages, held against every order of events: see ``delay_machine.py``.

The machine itself, and the deliberate bugs that it must find: one that finds none of them proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import settings

from property_tests.delay_machine import NEVER_DELIVERED, DelayMachine, Promise
from property_tests.hunts import Bug, Function, MachineTests
from property_tests.power_loss import NOTHING
from property_tests.small_broker import ASYNC, SYNC
from rocketpy.broker.delay import delivery as schedule_message
from rocketpy.broker.delay.dead_letter import DelayDeadLetters
from rocketpy.broker.delay.delivery import ScheduleMessageService
from rocketpy.broker.delay.due_time import DueTimes
from rocketpy.broker.delay.level_queue import MESSAGES_PER_TURN, LevelQueue
from rocketpy.broker.delay.offsets import DelayProgress
from rocketpy.broker.delay.progress import DelayProgressService
from rocketpy.store.queue.multi_dispatch import MultiDispatch

TestDelay = DelayMachine.TestCase
TestDelay.settings = settings(max_examples=settings.default.max_examples, stateful_step_count=30)

# ---- what must be so ------------------------------------------------------------------------------------------------


def a_kill_right_after_a_delivery(state: DelayMachine) -> None:
    state.first_start(flush=ASYNC)
    state.send(level=1, count=40)
    state.time_passes(1_001)
    state.kill()
    state.start()
    state.time_passes(12_000)


def power_that_goes_between_a_delivery_and_its_flush(state: DelayMachine) -> None:
    state.first_start(flush=ASYNC)
    state.send(level=1)
    state.send(level=2)
    state.time_passes(2_999)
    for _ in range(3):
        state.time_passes(1)
        state.lose_power(survives=NOTHING)
        state.start()


def a_death_in_any_change_of_the_disk_while_messages_are_delivered(state: DelayMachine) -> None:
    state.first_start(flush=SYNC)
    for call in range(1, 25):
        state.send(level=1, count=2)
        state.time_passes(900)
        state.die_soon(call=call)
        state.time_passes(2_500)
        state.kill()
        state.start()


def a_disk_that_fills_while_messages_are_due(state: DelayMachine) -> None:
    """More of them than the files have room for that are made already."""
    state.first_start(flush=SYNC, sector_size=512)
    for _ in range(8):
        state.send(count=40, level=2)
    state.disk_fills(has_room=False)
    state.time_passes(12_000)
    state.time_passes(600)
    state.disk_fills(has_room=True)
    state.time_passes(6_000)


def a_clock_that_is_set_back_between_two_messages(state: DelayMachine) -> None:
    state.first_start(flush=ASYNC)
    state.send(level=3)
    state.clock_is_set(hours=-1)
    state.send(level=3)
    state.time_passes(400)
    state.clock_is_set(hours=-24)
    state.time_passes(12_000)


def stamps_of_two_clocks_in_one_queue(state: DelayMachine) -> None:
    """The first records of a log file are never older than any before: theirs is the clock from before it was set."""
    state.first_start(flush=SYNC, sector_size=64)
    state.send(count=1, level=1)
    state.kill()
    state.clock_is_set(hours=-24)
    state.start()
    state.send(count=40, level=1)
    state.time_passes(12_000)
    state.send(count=40, level=1)
    state.clock_is_set(hours=-24)


def a_note_that_the_last_life_wrote_and_did_not_sync(state: DelayMachine) -> None:
    """A start finds the file in memory, delivers, and then the power takes the file and leaves the copy."""
    state.first_start(flush=SYNC, sector_size=512)
    state.send(count=1, level=1)
    state.send_at_once()
    state.clock_is_set(hours=1)
    state.kill()
    for call in range(15, 30):
        state.start_and_die(call=call)
        state.kill()
    state.start()
    state.lose_power(survives=0)
    state.start()


def a_note_just_before_the_flush(state: DelayMachine) -> None:
    """Only a slow disk lets the note come between a delivery and the flush of the log: too seldom to wait for."""
    state.first_start(flush=ASYNC, sector_size=512)
    for turn in range(24):
        state.time_passes(900)
        state.send(count=1, level=1)  # is due shortly before the note, which comes two seconds after the start
        state.time_passes(550)
        state.send(count=1, level=1)  # keeps the flush of the log busy until then
        state.disk_is_slow(milliseconds=300)
        state.time_passes(1_000 + 40 * turn)
        state.lose_power(survives=NOTHING)
        state.disk_is_slow(milliseconds=0)
        state.start()


def a_limit_that_is_lowered_while_messages_wait(state: DelayMachine) -> None:
    """The first and the last are too large for the next life, and what comes between them is not."""
    state.first_start(flush=SYNC)
    state.send_large(level=1)
    state.send(level=1, count=2)
    state.send_large(level=1)
    state.send_large(level=2)
    state.limit_changes(is_low=True)
    state.kill()
    state.start()
    state.time_passes(1_600)
    state.kill()
    state.limit_changes(is_low=False)
    state.start()
    state.time_passes(12_000)


def a_topic_that_is_deleted_while_messages_name_it(state: DelayMachine) -> None:
    state.first_start(flush=ASYNC)
    for level in (1, 2):
        state.send_naming(level=level)
        state.send(level=level)
    state.named_topic(is_there=False)
    state.time_passes(1_600)
    state.named_topic(is_there=True)
    state.kill()
    state.start()
    state.time_passes(12_000)


def names_that_no_message_may_have(state: DelayMachine) -> None:
    state.first_start(flush=ASYNC)
    for names in NEVER_DELIVERED:
        state.send_what_is_never_delivered(level=1, names=names)
    state.send(level=1)
    state.time_passes(1_600)


def a_file_that_begins_within_a_burst_after_the_clock_was_set_back(state: DelayMachine) -> None:
    """Its messages have the time of the clock before, and one delay is all that they wait."""
    state.first_start(flush=SYNC, sector_size=64)
    state.send(count=40, level=1)
    state.clock_is_set(hours=-24)
    state.time_passes(1_000)
    state.clock_is_set(hours=-24)
    state.send(count=40, level=2)
    state.time_passes(3_400)
    state.time_passes(500)


# ---- deliberate bugs ------------------------------------------------------------------------------------------------


def _forgets_what_the_log_says(skip: Function) -> Function:
    async def skipped(self: Any) -> None:
        pass

    return skipped


def _notes_before_the_log_is_durable(note: Function) -> Function:
    async def noted(self: Any) -> None:
        self._offsets.note(DelayProgress(dict(self._offsets.offset_table), self._store.wrote_offset))
        await self._persist()

    return noted


def _skips_what_is_refused(deliver_one: Function) -> Function:
    def delivered(*arguments: Any) -> bool:
        deliver_one(*arguments)
        return True

    return delivered


def _treats_every_refusal_as_temporary(_: Function) -> Any:
    return frozenset()


def _drops_what_is_never_delivered(keep: Function) -> Function:
    def kept(self: Any, *_: Any) -> bool:
        return True

    return kept


def _makes_dead_letters_without_saying_of_what(put: Function) -> Function:
    def without(self: Any, message: Any, physical_offset: int, why: str) -> Any:
        return put(self, message, ~0, why)  # as the offset of what was never prepared

    return without


def _takes_whatever_is_to_wait(refusal: Function) -> Function:
    def refused(self: Any, properties: bytes) -> None:
        return None

    return refused


def _trusts_the_clock_as_java_does(due_ms: Function) -> Function:
    def due(self: Any, queue_offset: int, unit_ms: int, now_ms: int) -> int:
        return now_ms if unit_ms > now_ms + self._delay_ms else unit_ms

    return due


def _goes_on_after_the_newest(skip: Function) -> Function:
    """Takes for delivered whatever stands before a message that was."""

    async def skipped(self: Any, queue: Any, delivered: set[int]) -> None:
        queue.move_to(self._store.max_offset_in_queue("SCHEDULE_TOPIC_XXXX", queue.queue_id))

    return skipped


def _is_early(due_ms: Function) -> Function:
    async def earlier(self: Any, unit: Any) -> int:
        return int(await due_ms(self, unit)) - 600

    return earlier


PLANTED: Mapping[str, Bug] = {
    "forget what the log says": Bug(
        ScheduleMessageService,
        "_skip_delivered",
        _forgets_what_the_log_says,
        (Promise.ONCE,),
        a_kill_right_after_a_delivery,
        is_common=False,
    ),
    "note before the log is durable": Bug(
        DelayProgressService,
        "_note",
        _notes_before_the_log_is_durable,
        (Promise.NOTHING_LOST,),
        a_note_just_before_the_flush,
        is_common=False,
    ),
    "skip what is refused": Bug(
        ScheduleMessageService,
        "_deliver_one",
        _skips_what_is_refused,
        (Promise.NOTHING_LOST, Promise.ON_TIME),
        a_disk_that_fills_while_messages_are_due,
        is_common=False,
    ),
    "a level waits for what never passes": Bug(
        schedule_message,
        "FINAL_STATUSES",
        _treats_every_refusal_as_temporary,
        (Promise.ON_TIME, Promise.NOTHING_LOST),
        a_limit_that_is_lowered_while_messages_wait,
        is_common=False,
    ),
    "drop what is never delivered": Bug(
        ScheduleMessageService,
        "_keep",
        _drops_what_is_never_delivered,
        (Promise.ON_TIME, Promise.NOTHING_LOST),
        a_topic_that_is_deleted_while_messages_name_it,
        is_common=False,
    ),
    "dead letters of nothing": Bug(
        DelayDeadLetters,
        "put",
        _makes_dead_letters_without_saying_of_what,
        (Promise.ONCE,),
        a_limit_that_is_lowered_while_messages_wait,
        is_common=False,
    ),
    "take whatever is to wait": Bug(
        MultiDispatch,
        "refusal_of_waiting",
        _takes_whatever_is_to_wait,
        (Promise.REFUSED_AT_ONCE,),
        names_that_no_message_may_have,
    ),
    "trust the clock": Bug(
        DueTimes,
        "due_ms",
        _trusts_the_clock_as_java_does,
        (Promise.NEVER_EARLY,),
        a_clock_that_is_set_back_between_two_messages,
    ),
    "skip what was not delivered": Bug(
        ScheduleMessageService,
        "_skip",
        _goes_on_after_the_newest,
        (Promise.NOTHING_LOST, Promise.ON_TIME),
        a_death_in_any_change_of_the_disk_while_messages_are_delivered,
        is_common=False,
    ),
    "early": Bug(
        LevelQueue,
        "_due_ms",
        _is_early,
        (Promise.NEVER_EARLY,),
        power_that_goes_between_a_delivery_and_its_flush,
    ),
}


class TestScripts(MachineTests):
    machine, bugs = DelayMachine, PLANTED
    more_scripts = (
        stamps_of_two_clocks_in_one_queue,
        a_note_that_the_last_life_wrote_and_did_not_sync,
        a_file_that_begins_within_a_burst_after_the_clock_was_set_back,
    )


def test_turns_are_short() -> None:
    """What the machine sends at once is more than one turn delivers."""
    assert MESSAGES_PER_TURN < 40
