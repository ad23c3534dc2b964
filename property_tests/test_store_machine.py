"""What a store promises, held against every order of events that Hypothesis can think of: see ``store_machine.py``.

Three things: the machine itself, by its profile; scripts that it has found once, replayed through its own rules; and
the deliberate bugs of ``planted_bugs.py``, each of which one of the scripts must show, and some of them chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from property_tests.crash.test_planted_bugs import FOUND_ABOUT_THE_NOTE
from property_tests.hunts import SCHEDULES, Hunt, Hunters, hunted, play
from property_tests.planted_bugs import PLANTED
from property_tests.store_machine import ASYNC, NOTHING, SYNC, StoreMachine, is_closed, is_open, some
from rocketpy.testing.store_model import Invariant, InvariantBroken

TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=2 * settings.default.max_examples)  # the heart of the matter


# ---- what it has found once -----------------------------------------------------------------------------------------

Script = Callable[[StoreMachine], None]


def a_queue_whose_first_file_went_with_the_power(state: StoreMachine) -> None:
    state.first_start(flush=SYNC, pages=1, sector_size=64)
    state.fill_file(left=0)
    state.end_burst()
    state.lose_power(survives=some(0))
    state.start()
    state.fill_file(left=0)


def a_sync_that_fails_in_the_very_last_act_of_a_stop(state: StoreMachine) -> None:
    state.first_start(flush=SYNC, pages=1, sector_size=64)
    state.disk_call_fails(call=3, method="sync_directory")
    state.stop()
    state.start()


def messages_that_only_a_recovery_knows_under_async_flush(state: StoreMachine) -> None:
    state.first_start(flush=ASYNC, pages=3)
    state.put(("T", 0), 100, and_end=True)
    state.kill()
    state.start()
    state.lose_power(survives=NOTHING)
    state.start()


def an_abort_file_that_is_removed_after_a_kill(state: StoreMachine) -> None:
    state.first_start(flush=SYNC)
    state.put(("T", 0), 0)
    state.flush()
    state.kill()
    state.abort_file_is_removed()
    state.start()
    state.lose_power(survives=NOTHING)
    state.start()


def an_index_that_is_deleted_after_a_stop(state: StoreMachine) -> None:
    state.first_start(flush=SYNC)
    state.put(("T", 0), 0, "a")
    state.stop()
    state.index_is_deleted()
    state.start()
    state.search_by_key(("T", 0), "a")


def everything_that_says_how_it_ended_is_lost(state: StoreMachine) -> None:
    state.first_start(flush=SYNC)
    state.put_batch(("T", 1), [100, 10])
    state.fill_file(left=0)
    state.flush()
    state.kill()
    state.queues_are_deleted(topic="/T/1")
    state.abort_file_is_removed()
    state.checkpoint_is_lost()
    state.start()


def a_recovery_that_died_before_it_synced_what_it_cut(state: StoreMachine) -> None:
    state.first_start(flush=ASYNC, pages=2)
    state.put_batch(("T", 0), [100, 100], and_end=True)
    state.put_batch(("T", 0), [500, 10, 100], and_end=True)
    for call in range(1, 20):
        state.lose_power(survives=some(12))
        state.start_and_die(call=call)
        if state.world.is_open:
            return
        state.start()
        state.lose_power(survives=some(call))
        state.start()
        state.put_batch(("T", 0), [500, 10, 100], and_end=True)


def a_burst_that_died_when_it_had_reserved_many_queue_files(state: StoreMachine) -> None:
    state.first_start(flush=SYNC, pages=3, sector_size=64, units=3)
    state.put_batch(("T", 0), [0])
    state.time_passes(milliseconds=6000)
    state.die_soon(call=13)
    state.fill_file(left=0)
    state.start()
    state.fill_file(left=0)
    state.crash_and_start(survives=None)


def two_recoveries_that_died_before_a_file_was_gone_for_good(state: StoreMachine) -> None:
    state.first_start(flush=ASYNC, pages=3, sector_size=64, one_size=None, units=10)
    state.fill_file(left=0)
    state.lose_power(survives=some(2))
    state.start_and_die(call=7)
    state.start_and_die(call=12)
    state.lose_power(survives=some(0))
    state.start()


def a_death_in_a_thorough_flush(state: StoreMachine, call: int) -> None:
    """If it comes between checkpoint and queues, what is in memory only may pass for durable, and go with the power."""
    batch = [10] * 5
    state.first_start(flush=ASYNC, units=3)
    state.put_batch(("T", 0), batch, and_end=True)
    state.time_passes(milliseconds=6_000)
    state.put_batch(("T", 0), batch, and_end=True)
    state.die_soon(call=call)
    state.time_passes(milliseconds=6_000)
    if state.world.is_open:
        state.kill()
    state.start()
    state.put_batch(("T", 0), batch, and_end=True)
    state.time_passes(milliseconds=6_000)
    state.crash_and_start(survives=NOTHING)


def units_that_came_back(state: StoreMachine, survives: int, call: int) -> None:
    """Units are on the disk and their records are not; recovery clears them, and dies before that is durable.

    Others of the same sizes then get the offsets, with other tags.
    """
    state.first_start(flush=SYNC, pages=1, units=30)
    state.put(("T", 0), 10, and_end=True)
    state.time_passes(milliseconds=6_000)
    state.put(("T", 0), 10, and_end=True)
    state.lose_power(survives=some(survives))
    state.start_and_die(call=call)
    if not state.world.is_open:
        state.start()
    state.put(("T", 0), 10, and_end=True)
    state.flush()
    state.crash_and_start(survives=NOTHING)


def units_of_another_copy_that_came_back(state: StoreMachine, call: int) -> None:
    """The same after a clean stop: the queue has units after its end, which the start clears, and dies in that.

    For the next start the queue ends as the stop has noted.
    """
    state.first_start(flush=SYNC, pages=1, units=30)
    state.put(("T", 0), 10, and_end=True)
    state.stop()
    state.queue_is_longer(("T", 0), 10, count=2)
    state.start_and_die(call=call)
    if not state.world.is_open:
        state.start()
    state.put(("T", 0), 10, and_end=True)
    state.flush()
    state.crash_and_start(survives=NOTHING)


def a_recovery_that_found_some_files(state: StoreMachine) -> None:
    """What it has found is served, and so it must be durable: in each file."""
    state.first_start(flush=ASYNC, pages=1)
    for _ in range(3):
        state.fill_file(left=0)
    state.put(("T", 0), 10, and_end=True)
    state.crash_and_start(survives=None)
    state.crash_and_start(survives=NOTHING)


def a_death_after_a_failed_sync(state: StoreMachine, call: int) -> None:
    """Recovery writes again what the failed sync may have lost. If it dies in that, the next one must do it."""
    state.first_start(flush=ASYNC, pages=3)
    state.fill_file(left=20)
    state.time_passes(milliseconds=20)  # until the next file is made
    state.disk_call_fails(method="sync", call=1)
    state.time_passes(milliseconds=600)
    if state.world.is_open:
        return
    state.start_and_die(call=call)
    if not state.world.is_open:
        state.start()
    state.crash_and_start(survives=NOTHING)


def a_sparse_log_on_a_disk_that_fills_up(state: StoreMachine) -> None:
    state.first_start(flush=SYNC, pages=3)
    state.put(("T", 0), 10, and_end=True)
    state.kill()
    state.log_becomes_sparse()
    state.disk_fills_up(pages=1)
    state.start()
    for _ in range(8):
        state.put(("T", 0), 1000, and_end=True)
    state.read_everything()


def files_that_came_back(state: StoreMachine, survives: int, call: int) -> None:
    """Recovery removes files of the log one after the other. None may come back after one that is cut, or gone."""
    state.first_start(flush=ASYNC, pages=1)
    for _ in range(3):
        state.fill_file(left=0)
    state.lose_power(survives=some(survives))
    state.start_and_die(call=call)
    state.lose_power(survives=some(survives + call))
    state.start()


def a_kill_in_a_burst_of_the_index(state: StoreMachine, call: int) -> None:
    """The note names the index file; the slots of the next burst are there, and its entries or its header are not."""
    state.first_start(flush=ASYNC)
    state.put_batch(("T", 0), [10] * 3, "a", and_end=True)
    state.time_passes(milliseconds=6_000)
    state.put_batch(("T", 0), [10] * 3, "a", and_end=True)
    state.die_soon(call=call)
    state.time_passes(milliseconds=20)
    if state.world.is_open:
        state.kill()
    state.start()
    state.search_by_key(("T", 0), "a")


def a_note_of_an_earlier_life(state: StoreMachine) -> None:
    """Also one that is damaged, or lost: nothing but time depends on it."""
    state.first_start(flush=ASYNC)
    for step in (state.note_is_older, state.note_is_older, partial(state.note_is_damaged, 20), state.note_is_lost):
        state.put_batch(("T", 0), [10] * 3, "a", and_end=True)
        state.time_passes(milliseconds=6_000)
        state.put(("T", 0), 10, "a", and_end=True)
        state.kill()
        step()
        state.start()
        state.search_by_key(("T", 0), "a")
        state.read_everything()


def an_answer_while_the_disk_still_syncs(state: StoreMachine) -> None:
    state.first_start(flush=SYNC)
    state.put(("T", 0), 10, and_end=True)
    state.flush()
    state.disk_is_slow(milliseconds=15)
    state.put(("T", 0), 10, and_end=True)
    state.time_passes(milliseconds=1)
    state.crash_and_start(survives=NOTHING)


def a_kill_after_a_roll_over(state: StoreMachine) -> None:
    state.first_start(flush=SYNC, pages=1)
    state.fill_file(left=20)
    state.put(("T", 0), 10, and_end=True)
    state.crash_and_start(survives=None)


def power_that_leaves_a_part_of_a_body(state: StoreMachine) -> None:
    state.first_start(flush=ASYNC, sector_size=64)
    state.put(("T", 0), 500, and_end=True)
    state.crash_and_start(survives=some(1))


def power_that_takes_a_record_and_leaves_the_next(state: StoreMachine) -> None:
    """Then one of the same size comes where the first was."""
    state.first_start(flush=ASYNC, sector_size=64)
    for _ in range(2):
        state.put(("T", 0), 100, and_end=True)
    state.crash_and_start(survives=some(17))
    state.put(("T", 0), 100, and_end=True)
    state.crash_and_start(survives=None)


def power_that_goes_again_and_again(state: StoreMachine) -> None:
    """Sooner or later it leaves units of records that it has taken."""
    state.first_start(flush=ASYNC, sector_size=64, units=3)
    for seed in range(8):
        state.put_batch(("T", 0), [100, 500], and_end=True)
        state.crash_and_start(survives=some(seed))


def syncs_that_fail(state: StoreMachine) -> None:
    """What a sync that fails has written is for the disk to choose."""
    state.first_start(flush=SYNC)
    for _ in range(6):
        state.put(("T", 0), 10, and_end=True)
        state.disk_call_fails(method="sync", call=1)
        state.time_passes(milliseconds=1)
        state.lose_power(survives=NOTHING)
        state.start()


def a_record_that_names_another_queue_when_that_is_deleted(state: StoreMachine) -> None:
    state.first_start(flush=SYNC)
    state.put(("T", 0), 10, and_end=True)
    state.put_naming(("T", 0), 10, offset=0, and_end=True)
    state.kill()
    state.queues_are_deleted(topic="/T")
    state.start()


def a_kill_before_units_that_were_made_again_are_durable(state: StoreMachine) -> None:
    state.first_start(flush=SYNC, pages=3, units=3)
    state.put_batch(("T", 0), [10] * 4, and_end=True)
    state.stop()
    state.queues_are_deleted(topic=f"/T/0/{0:020d}")
    state.start()
    state.kill()
    state.start()
    state.put_batch(("T", 0), [10] * 4, and_end=True)
    state.put_batch(("T", 0), [10] * 4, and_end=True)
    state.time_passes(milliseconds=6_000)
    state.lose_power(survives=some(0))
    state.start()


UNITS_THAT_CAME_BACK: list[Script] = [
    partial(units_that_came_back, survives=survives, call=call) for survives in range(2, 5) for call in range(4, 8)
]
UNITS_OF_ANOTHER_COPY: list[Script] = [
    partial(units_of_another_copy_that_came_back, call=call) for call in range(1, 11)
]
DEATHS_AFTER_A_FAILED_SYNC: list[Script] = [partial(a_death_after_a_failed_sync, call=call) for call in range(3, 9)]
FILES_THAT_CAME_BACK: list[Script] = [
    partial(files_that_came_back, survives=survives, call=call) for survives in range(2) for call in range(13, 20, 2)
]
DEATHS_IN_A_THOROUGH_FLUSH: list[Script] = [partial(a_death_in_a_thorough_flush, call=call) for call in range(1, 13)]

KILLS_IN_A_BURST_OF_THE_INDEX: list[Script] = [
    partial(a_kill_in_a_burst_of_the_index, call=call) for call in range(1, 5)
]


SCRIPTS: list[Script] = [
    two_recoveries_that_died_before_a_file_was_gone_for_good,
    a_recovery_that_died_before_it_synced_what_it_cut,
    a_burst_that_died_when_it_had_reserved_many_queue_files,
    everything_that_says_how_it_ended_is_lost,
    a_queue_whose_first_file_went_with_the_power,
    a_sync_that_fails_in_the_very_last_act_of_a_stop,
    messages_that_only_a_recovery_knows_under_async_flush,
    an_abort_file_that_is_removed_after_a_kill,
    an_index_that_is_deleted_after_a_stop,
    a_sparse_log_on_a_disk_that_fills_up,
    a_recovery_that_found_some_files,
    a_note_of_an_earlier_life,
    an_answer_while_the_disk_still_syncs,
    a_kill_after_a_roll_over,
    power_that_leaves_a_part_of_a_body,
    power_that_takes_a_record_and_leaves_the_next,
    power_that_goes_again_and_again,
    syncs_that_fail,
    a_record_that_names_another_queue_when_that_is_deleted,
    a_kill_before_units_that_were_made_again_are_durable,
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts(script: Script) -> None:
    play(StoreMachine, script)


def test_deaths_in_a_thorough_flush() -> None:
    for script in DEATHS_IN_A_THOROUGH_FLUSH:
        play(StoreMachine, script)


def test_kills_in_a_burst_of_the_index() -> None:
    for script in KILLS_IN_A_BURST_OF_THE_INDEX:
        play(StoreMachine, script)


@pytest.mark.parametrize(
    "scripts", [UNITS_THAT_CAME_BACK, UNITS_OF_ANOTHER_COPY, DEATHS_AFTER_A_FAILED_SYNC, FILES_THAT_CAME_BACK]
)
def test_deaths_in_a_recovery(scripts: Sequence[Script]) -> None:
    """In one order of tasks: a recovery has only one task."""
    for script in scripts:
        play(StoreMachine, script, schedules=SCHEDULES[:1])


# ---- what it must find ----------------------------------------------------------------------------------------------

ABORT_FILE, ACKNOWLEDGED_IS_THERE = Invariant.ABORT_FILE, Invariant.ACKNOWLEDGED_IS_THERE
CUT_STAYS_CUT, NO_HOLE, NOTHING_INVENTED = Invariant.CUT_STAYS_CUT, Invariant.NO_HOLE, Invariant.NOTHING_INVENTED
FULL_DISK, TWICE_IS_ONCE = Invariant.FULL_DISK, Invariant.TWICE_IS_ONCE


one_queue = st.just(("T", 0))
two_queues = st.sampled_from([("T", 0), ("Topic", 0)])
put = {"queue": one_queue, "size": st.just(10), "and_end": st.just(True)}
anything = st.integers(0, 255).map(some)
HUNTS: Mapping[str, Hunt] = {
    "forget consume-queue truncation": Hunt(
        [NO_HOLE, ACKNOWLEDGED_IS_THERE, NOTHING_INVENTED],
        {
            "put_batch": {
                "queue": two_queues,
                "sizes": st.sampled_from([[10], [10] * 4]),
                "and_end": st.just(True),
            },
            "time_passes": {"milliseconds": st.just(6_000)},
            "crash_and_start": {"survives": anything},
        },
        {"flush": st.sampled_from([SYNC, ASYNC]), "sector_size": st.just(64), "units": st.just(3)},
    ),
    "leave the stale tail": Hunt(
        [CUT_STAYS_CUT, NOTHING_INVENTED],
        {"put": put, "crash_and_start": {"survives": anything}},
        {"flush": st.just(ASYNC), "sector_size": st.just(64)},
    ),
    "sync again after a failed sync": Hunt(
        [ACKNOWLEDGED_IS_THERE],
        {
            "put": put,
            "disk_call_fails": {"method": st.just("sync"), "call": st.just(1)},
            "time_passes": {"milliseconds": st.just(1)},
            "crash_and_start": {"survives": st.just(NOTHING)},
            "start": {},
        },
        {"flush": st.just(SYNC)},
    ),
    "trust what a record names": Hunt(
        [ACKNOWLEDGED_IS_THERE, NO_HOLE, NOTHING_INVENTED],
        {
            "put": put,
            "put_naming": {"queue": one_queue, "size": st.just(10), "offset": st.just(0), "and_end": st.just(True)},
            "queues_are_deleted": {"topic": st.just("/T")},
            "kill": {},
            "start": {},
        },
        {"flush": st.sampled_from([SYNC, ASYNC])},
    ),
}
"""Bugs that chance finds soon. Others that it would are found by ``crash/`` in every run; the rest take long."""

HUNTERS = Hunters(
    StoreMachine,
    InvariantBroken,
    hunted(examples=6_000, steps=50),
    dict.fromkeys(("start", "lose_power", "queues_are_deleted"), is_closed),
    is_open,
)


SHOWN: Mapping[str, tuple[Sequence[Script], Sequence[Invariant]]] = {
    "acknowledge before sync": ([an_answer_while_the_disk_still_syncs], [ACKNOWLEDGED_IS_THERE]),
    "skip a directory sync": ([an_answer_while_the_disk_still_syncs], [ACKNOWLEDGED_IS_THERE]),
    "write the checkpoint too early": (DEATHS_IN_A_THOROUGH_FLUSH, [ACKNOWLEDGED_IS_THERE, NO_HOLE]),
    "no CRC check": ([power_that_leaves_a_part_of_a_body], [NOTHING_INVENTED]),
    "forget consume-queue truncation": (
        [power_that_goes_again_and_again],
        [NO_HOLE, ACKNOWLEDGED_IS_THERE, NOTHING_INVENTED],
    ),
    "lose the abort file": ([a_kill_after_a_roll_over], [ABORT_FILE]),
    "off-by-one at roll over": ([a_kill_after_a_roll_over], [ACKNOWLEDGED_IS_THERE]),
    "leave the stale tail": ([power_that_takes_a_record_and_leaves_the_next], [CUT_STAYS_CUT, NOTHING_INVENTED]),
    "sync again after a failed sync": ([syncs_that_fail], [ACKNOWLEDGED_IS_THERE]),
    "leave the tail unreserved": ([a_sparse_log_on_a_disk_that_fills_up], [FULL_DISK]),
    "trust what a dead recovery has cleared": (UNITS_THAT_CAME_BACK, [ACKNOWLEDGED_IS_THERE, NOTHING_INVENTED]),
    "trust what a dead recovery has cleared after a stop": (
        UNITS_OF_ANOTHER_COPY,
        [ACKNOWLEDGED_IS_THERE, NOTHING_INVENTED],
    ),
    "take units that were made again for durable": (
        [a_kill_before_units_that_were_made_again_are_durable],
        [ACKNOWLEDGED_IS_THERE, NO_HOLE],
    ),
    "trust what a record names": (
        [a_record_that_names_another_queue_when_that_is_deleted],
        [ACKNOWLEDGED_IS_THERE, NO_HOLE, NOTHING_INVENTED],
    ),
    "forget what was removed from the log": (FILES_THAT_CAME_BACK, [ACKNOWLEDGED_IS_THERE, CUT_STAYS_CUT]),
    "sync the last file only": ([a_recovery_that_found_some_files], [ACKNOWLEDGED_IS_THERE, TWICE_IS_ONCE]),
    "forget a failed sync too early": (DEATHS_AFTER_A_FAILED_SYNC, [ACKNOWLEDGED_IS_THERE, TWICE_IS_ONCE]),
    "leave a torn burst of the index": (KILLS_IN_A_BURST_OF_THE_INDEX, [Invariant.KEYS_LEAD]),
}
"""The scripts that show a bug, and what is named."""


@pytest.mark.parametrize("name", SHOWN)
def test_each_planted_bug_is_found_by_its_script(name: str) -> None:
    """The right code passes all scripts, above."""
    scripts, invariants = SHOWN[name]
    with PLANTED[name].planted(), pytest.raises(InvariantBroken) as raised:
        for script in scripts:
            play(StoreMachine, script)
    assert raised.value.invariant in invariants


def test_no_planted_bug_is_left_out() -> None:
    """Most about the note take a rare disk in one of a few calls, which the enumeration goes through."""
    assert {*SHOWN, *FOUND_ABOUT_THE_NOTE} == {*PLANTED}


@pytest.mark.by_chance
@pytest.mark.parametrize("name", HUNTS)
def test_each_common_bug_is_found_by_chance(name: str) -> None:
    HUNTERS.find(name, PLANTED[name], HUNTS[name])


@pytest.mark.by_chance
def test_hunters_find_nothing_in_a_store_without_bugs() -> None:
    HUNTERS.find_nothing(HUNTS.values())
