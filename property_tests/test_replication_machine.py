"""What replication promises, held against every order of events that Hypothesis finds: see ``replication_machine.py``.

Three things: the machine itself, by its profile; scripts that it has found once, replayed through its own rules; and
the deliberate bugs of ``replication_bugs.py``, each of which it must find, by one of the scripts and by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import strategies as st

from property_tests.hunts import Hunt, Hunters, hunted, play
from property_tests.replication_bugs import PLANTED
from property_tests.replication_machine import ASYNC, SYNC, ReplicationMachine, has_master, has_pair
from rocketpy.testing.replication_model import Invariant, ReplicationBroken

TestReplication = ReplicationMachine.TestCase

Script = Callable[[ReplicationMachine], None]


# ---- what it has found once -----------------------------------------------------------------------------------------


def a_promotion_of_a_slave_that_began_with_the_last_file(state: ReplicationMachine) -> None:
    """Its log begins later than that of the other slave, which goes on with it."""
    state.first_start(sync=True, count=3, cuts=True, batch=60, flush=ASYNC, one_size=10)
    state.wipe("b")
    state.put_batch(("T", 1), [500])
    state.fill_file(left=8)
    state.put_delayed(level=2, waits=False)
    state.put(("T", 0), 10, tags="t")
    state.time_passes(6.0)
    state.all_faults_end()
    state.promote("b", end="stop")
    state.put(("Topic", 0), 10, tags="t")
    state.wipe("a")
    state.all_faults_end()


def a_record_that_a_master_sends_as_it_stops(state: ReplicationMachine) -> None:
    """The end of its last burst sends it, and nobody sees the master open with it."""
    state.first_start(sync=True, flush=SYNC, count=2, batch=60)
    state.put_delayed(level=1, waits=False)
    state.put_transactional(kind=4)
    state.stop("a")
    state.time_passes(0.001)


def a_file_that_was_just_begun_when_an_empty_slave_came(state: ReplicationMachine) -> None:
    state.first_start(flush=ASYNC, count=3, batch=300)
    state.fill_file(left=0)
    state.put_batch(("Topic", 0), [0])
    state.wipe("b")
    state.fill_file(left=20)
    state.disk_fills_up("b", pages=5)
    state.start("b")
    state.compare_units()
    state.disk_has_space_again("b")
    state.start_and_die("b", call=28)
    state.reset("a")
    state.put_batch(("Topic", 0), [0])
    state.compare_units()


def a_batch_that_begins_a_file_which_an_empty_slave_gets(state: ReplicationMachine) -> None:
    """The slave never gets the BLANK before it."""
    state.first_start(flush=SYNC, batch=60)
    state.put_batch(("Topic", 0), [1000, 10])
    state.fill_file(left=0)
    state.wipe("b")
    state.time_passes(1.5)
    state.start("b")
    state.put_batch(("T", 0), [1000, 10])
    state.time_passes(6.0)


def a_producer_that_waits_for_what_a_slave_had_before_it_came_back(state: ReplicationMachine) -> None:
    state.first_start(flush=ASYNC, batch=60)
    state.put_delayed(level=1, waits=False)
    state.end_burst()
    state.time_passes(1.5)
    state.kill("b", and_start=True)
    state.time_passes(6.0)
    state.wait_again()
    state.time_passes(6.0)


def a_second_master_whom_a_slave_still_follows(state: ReplicationMachine) -> None:
    """A slave takes the address of a new master when its connection to the old one has ended."""
    state.first_start(flush=SYNC, count=3, cuts=True, batch=60, one_size=10)
    state.promote("b", end="none")
    state.put(("T", 0), 10)
    state.time_passes(6.0)


def a_death_while_the_log_is_cut(state: ReplicationMachine, call: int = 5) -> None:
    state.first_start(flush=ASYNC, cuts=True, one_size=10)
    state.put(("T", 0), 10)
    state.time_passes(1.5)
    state.cut("b")
    state.put_batch(("T", 0), [10, 10])
    state.promote("b", end="kill")
    state.heal()
    state.put_batch(("T", 0), [10, 10, 10])
    state.start("a")
    state.die_soon("a", call=call)
    state.time_passes(6.0)


def a_slow_link_that_is_fast_again(state: ReplicationMachine) -> None:
    """What is still under way on it need not take minutes."""
    state.first_start(sync=True, flush=SYNC, batch=60)
    state.slow_down("b", way="to the slave", bytes_per_s=50.0)
    for _ in range(3):
        state.fill_file(left=20)
    state.time_passes(0.1)
    state.all_faults_end()


def a_blank_that_is_right_for_once(state: ReplicationMachine) -> None:
    """A BLANK of 8 bytes is no lie where 8 bytes are left of the file."""
    state.first_start(sync=True, flush=SYNC, batch=60)
    state.fill_file(left=8)
    state.time_passes(0.1)
    state.lie(which=0, lie="wrong BLANK")


def a_slave_that_missed_a_change_of_roles(state: ReplicationMachine) -> None:
    """It is about to connect to the old master, which comes back as a slave at once."""
    state.first_start(sync=True, flush=SYNC, count=3, batch=60)
    state.lie(which=1, lie="offset")
    state.fill_file(left=0)
    state.promote("b", end="stop")


def a_producer_that_waits_for_what_a_slave_had_before_it_lost_power(state: ReplicationMachine) -> None:
    state.first_start(sync=True, flush=SYNC, count=3, batch=60)
    state.put(("T", 1), 10)
    state.put(("Topic", 0), 10)
    state.lie(which=1, lie="offset")
    state.wait_again()
    state.lose_power("b", and_start=True)


def a_producer_that_is_answered_as_a_slave_loses_power(state: ReplicationMachine) -> None:
    """The slave has acknowledged the record long ago, and the burst ends only now."""
    state.first_start(sync=True, flush=SYNC, batch=60)
    state.put_batch(("T", 0), [0], and_end=False)
    state.forge(report="huge", is_new=False)
    state.put_batch(("T", 0), [0], and_end=False)
    state.wipe("b")


def a_master_that_dies_of_its_burst_as_all_faults_end(state: ReplicationMachine) -> None:
    state.first_start(sync=True, flush=SYNC, batch=60)
    state.disk_call_fails("a", "write", call=2)
    state.fill_file(left=8)


def messages_that_a_slave_gets(state: ReplicationMachine) -> None:
    """Of each kind, up to one that begins another file."""
    state.first_start(flush=SYNC)
    state.put(("T", 0), 10, key="k")
    state.time_passes(0.1)
    state.put_batch(("T", 0), [10, 10])
    state.time_passes(1.5)
    state.compare_units()
    state.search("T")
    state.fill_file(left=20)
    state.put(("T", 0), 10)
    state.time_passes(1.5)


def a_slave_that_hears_nothing_more(state: ReplicationMachine) -> None:
    """Its reports still come, at first, and a producer waits until its time is over."""
    state.first_start(flush=SYNC, batch=60)
    state.cut("b", way="to the slave")
    state.put(("T", 0), 10)
    for _ in range(2):
        state.time_passes(6.0)


def a_slave_that_is_gone(state: ReplicationMachine) -> None:
    state.first_start(flush=SYNC, batch=60)
    state.put(("T", 0), 10)
    state.time_passes(1.5)
    state.kill("b")
    state.time_passes(6.0)
    state.put(("T", 0), 10)
    state.time_passes(6.0)


def a_peer_that_reports_what_it_was_never_sent(state: ReplicationMachine) -> None:
    state.first_start(flush=SYNC, batch=60)
    state.put(("T", 0), 10)
    state.forge("huge")
    state.forge("beyond")


def a_write_that_fails_on_a_slave(state: ReplicationMachine) -> None:
    """One of some, in each of which the slave stores a part of what it does for a record."""
    state.first_start(flush=SYNC)
    for call in range(1, 4):
        state.put(("T", 0), 10)
        state.time_passes(1.5)
        state.disk_call_fails("b", "write", call=call)
        state.put(("T", 0), 500)
        state.time_passes(1.5)
        state.compare_units()
        state.start("b")


def an_old_master_with_messages_that_no_slave_has(state: ReplicationMachine) -> None:
    state.first_start(flush=ASYNC, cuts=True, one_size=10)
    state.put(("T", 0), 10)
    state.time_passes(1.5)
    state.cut("b")
    state.put(("T", 0), 10)
    state.promote("b", end="kill")
    state.heal()
    state.put(("T", 0), 10)
    state.start("a")
    state.time_passes(6.0)


def a_record_that_names_another_offset(state: ReplicationMachine) -> None:
    state.first_start(flush=SYNC, batch=60)
    state.put(("T", 0), 10)
    state.time_passes(0.1)
    state.lie(which=0, lie="physical offset")


def a_master_that_loses_what_its_slave_has(state: ReplicationMachine) -> None:
    state.first_start(flush=ASYNC, batch=60)
    state.put(("T", 0), 10)
    state.time_passes(0.1)
    state.lose_power("a", and_start=True)
    state.time_passes(6.0)


def a_slave_that_acknowledges_before_the_call_that_sends_returns(state: ReplicationMachine) -> None:
    """The end of the burst sends four frames, a task the next one, which ends a record."""
    state.first_start(sync=True, flush=SYNC, batch=300)
    state.sends_return_late("b", way="to the slave")
    state.time_passes(1.5)
    for _ in range(8):
        state.put(("T", 0), 100, and_end=False)
    state.end_burst()
    state.time_passes(1.5)


SCRIPTS: Sequence[Script] = [
    a_slave_that_acknowledges_before_the_call_that_sends_returns,
    a_record_that_a_master_sends_as_it_stops,
    a_promotion_of_a_slave_that_began_with_the_last_file,
    a_file_that_was_just_begun_when_an_empty_slave_came,
    a_batch_that_begins_a_file_which_an_empty_slave_gets,
    a_producer_that_waits_for_what_a_slave_had_before_it_came_back,
    a_second_master_whom_a_slave_still_follows,
    a_death_while_the_log_is_cut,
    a_slow_link_that_is_fast_again,
    a_blank_that_is_right_for_once,
    a_slave_that_missed_a_change_of_roles,
    a_producer_that_waits_for_what_a_slave_had_before_it_lost_power,
    a_producer_that_is_answered_as_a_slave_loses_power,
    a_master_that_dies_of_its_burst_as_all_faults_end,
    messages_that_a_slave_gets,
    a_slave_that_hears_nothing_more,
    a_slave_that_is_gone,
    a_peer_that_reports_what_it_was_never_sent,
    a_write_that_fails_on_a_slave,
    an_old_master_with_messages_that_no_slave_has,
    a_record_that_names_another_offset,
    a_master_that_loses_what_its_slave_has,
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts(script: Script) -> None:
    play(ReplicationMachine, script)


# ---- what it must find ----------------------------------------------------------------------------------------------

ON_A_SLAVE, STATUS_IS_TRUE = Invariant.ACKNOWLEDGED_IS_ON_A_SLAVE, Invariant.STATUS_IS_TRUE
NO_CLAIM_ABOVE_SENT, SLAVE_IS_A_PIECE = Invariant.NO_CLAIM_ABOVE_SENT, Invariant.SLAVE_IS_A_PIECE
EQUAL_OR_ALARM, PROGRESS_OR_ALARM = Invariant.EQUAL_OR_ALARM, Invariant.PROGRESS_OR_ALARM
CONNECTION_STAYS = Invariant.CONNECTION_STAYS


the_slave, the_master = {"name": st.just("b")}, {"name": st.just("a")}
put = {"queue": st.just(("T", 0)), "size": st.sampled_from([10, 500])}
put_batch = {"queue": st.just(("T", 0)), "some": st.just([10, 10])}
a_moment = {"seconds": st.sampled_from([0.1, 1.5])}
a_while = {"seconds": st.sampled_from([1.5, 6.0])}
kill = the_slave | {"and_start": st.booleans()}
HUNTS: Mapping[str, Hunt] = {
    "acknowledge what was sent": Hunt(
        [ON_A_SLAVE],
        {"put": put, "time_passes": a_moment, "cut": the_slave | {"way": st.just("to the slave")}, "heal": {}},
    ),
    "believe the first report": Hunt(
        [NO_CLAIM_ABOVE_SENT, ON_A_SLAVE],
        {"put": put, "time_passes": a_moment, "forge": {"report": st.sampled_from(["huge", "negative", "request"])}},
    ),
    "believe any report": Hunt(
        [NO_CLAIM_ABOVE_SENT, ON_A_SLAVE],
        {"put": put, "time_passes": a_moment, "forge": {"report": st.sampled_from(["huge", "back", "beyond"])}},
    ),
    "note what was sent": Hunt(
        [CONNECTION_STAYS, PROGRESS_OR_ALARM, STATUS_IS_TRUE],
        {
            "put_batch": {"queue": st.just(("T", 0)), "some": st.just([10] * 12)},  # five frames of the batch below
            "sends_return_late": the_slave | {"way": st.just("to the slave")},
            "time_passes": {"seconds": st.just(1.5)},
        },
        {"batch": st.just(300)},
    ),
    "remember slaves": Hunt(
        [STATUS_IS_TRUE, ON_A_SLAVE],
        {"put": put, "wait_again": {}, "time_passes": a_while, "kill": the_slave, "wipe": the_slave},
    ),
    "override the status": Hunt(
        [ON_A_SLAVE], {"put": put, "time_passes": a_while, "kill": kill, "cut": the_slave, "heal": {}}
    ),
    "see no slave": Hunt([STATUS_IS_TRUE], {"put": put, "time_passes": a_while, "kill": kill}),
    "answer too late": Hunt([STATUS_IS_TRUE], {"put": put, "time_passes": a_while, "cut": the_slave}),
    "give up too early": Hunt([STATUS_IS_TRUE], {"put": put, "time_passes": a_while, "cut": the_slave}),
    "send what is not written": Hunt(
        [NO_CLAIM_ABOVE_SENT, PROGRESS_OR_ALARM, CONNECTION_STAYS], {"put": put, "time_passes": a_moment}
    ),
    "acknowledge before storing": Hunt([ON_A_SLAVE], {"put": put, "time_passes": a_moment}),
    "go on after a failed write": Hunt(
        [Invariant.ENDS_WITH_A_RECORD, PROGRESS_OR_ALARM, ON_A_SLAVE, SLAVE_IS_A_PIECE, Invariant.UNITS_ARE_EQUAL],
        {
            "put": put,
            "time_passes": a_moment,
            "disk_call_fails": the_slave | {"method": st.just("write"), "call": st.integers(1, 3)},
            "compare_units": {},
        },
    ),
    "lose a unit": Hunt(
        [Invariant.UNITS_ARE_EQUAL], {"put_batch": put_batch, "time_passes": a_moment, "compare_units": {}}
    ),
    "forget the keys": Hunt(
        [Invariant.KEYS_ARE_FOUND],
        {"put": put | {"key": st.just("k")}, "time_passes": a_moment, "search": {"topic": st.just("T")}},
    ),
    "close files a byte short": Hunt(
        [SLAVE_IS_A_PIECE, Invariant.ENDS_WITH_A_RECORD, CONNECTION_STAYS],
        {"put": put | {"size": st.just(1000)}, "fill_file": {"left": st.just(20)}, "time_passes": a_moment},
    ),
    "compare nothing": Hunt(
        [SLAVE_IS_A_PIECE, EQUAL_OR_ALARM, ON_A_SLAVE],
        {"put": put, "time_passes": a_while, "cut": the_slave, "heal": {}, "promote": the_slave, "start": the_master},
        {"one_size": st.just(10)},
    ),
    "keep the tail": Hunt(
        [Invariant.CUT_STAYS_CUT],
        {"put": put, "time_passes": a_while, "cut": the_slave, "heal": {}, "promote": the_slave, "start": the_master},
        {"cuts": st.just(True)},
    ),
    "check no offset": Hunt(
        [SLAVE_IS_A_PIECE],
        {"put": put, "time_passes": a_moment, "lie": {"which": st.just(0), "lie": st.just("physical offset")}},
    ),
    "store what is not whole": Hunt(
        [
            Invariant.ENDS_WITH_A_RECORD,
            SLAVE_IS_A_PIECE,
            Invariant.UNITS_ARE_EQUAL,
            PROGRESS_OR_ALARM,
            CONNECTION_STAYS,
        ],
        {"put": put, "time_passes": a_moment},
        {"batch": st.just(60)},
    ),
    "stay silent": Hunt(
        [PROGRESS_OR_ALARM, EQUAL_OR_ALARM],
        {"put": put, "time_passes": {"seconds": st.just(0.1)}, "lose_power": the_master | {"and_start": st.just(True)}},
        {"flush": st.just(ASYNC)},
    ),
}
HUNTERS = Hunters(
    ReplicationMachine,
    ReplicationBroken,
    hunted(examples=300, steps=25),
    {**dict.fromkeys(("put", "put_batch", "fill_file", "wait_again", "forge"), has_master), "lie": has_pair},
)


SHOWN: Mapping[str, Script] = {
    "acknowledge what was sent": a_slave_that_hears_nothing_more,
    "believe the first report": a_peer_that_reports_what_it_was_never_sent,
    "believe any report": a_peer_that_reports_what_it_was_never_sent,
    "note what was sent": a_slave_that_acknowledges_before_the_call_that_sends_returns,
    "remember slaves": a_slave_that_is_gone,
    "override the status": a_slave_that_hears_nothing_more,
    "see no slave": messages_that_a_slave_gets,
    "answer too late": a_slave_that_hears_nothing_more,
    "give up too early": a_slave_that_hears_nothing_more,
    "send what is not written": messages_that_a_slave_gets,
    "acknowledge before storing": messages_that_a_slave_gets,
    "go on after a failed write": a_write_that_fails_on_a_slave,
    "lose a unit": messages_that_a_slave_gets,
    "forget the keys": messages_that_a_slave_gets,
    "close files a byte short": messages_that_a_slave_gets,
    "compare nothing": an_old_master_with_messages_that_no_slave_has,
    "keep the tail": an_old_master_with_messages_that_no_slave_has,
    "check no offset": a_record_that_names_another_offset,
    "store what is not whole": a_slave_that_is_gone,
    "stay silent": a_master_that_loses_what_its_slave_has,
}
"""The script that shows a bug. It breaks one of the invariants that the hunt for the bug names."""


def test_no_planted_bug_is_left_out() -> None:
    assert HUNTS.keys() == SHOWN.keys() == PLANTED.keys()
    assert {*SHOWN.values()} <= {*SCRIPTS}


@pytest.mark.parametrize("name", SHOWN)
def test_each_planted_bug_is_found_by_its_script(name: str) -> None:
    with PLANTED[name].planted(), pytest.raises(ReplicationBroken) as raised:
        play(ReplicationMachine, SHOWN[name])
    assert raised.value.invariant in HUNTS[name].invariants


@pytest.mark.by_chance
@pytest.mark.parametrize("name", HUNTS)
def test_each_planted_bug_is_found_by_chance(name: str) -> None:
    HUNTERS.find(name, PLANTED[name], HUNTS[name])


@pytest.mark.by_chance
def test_hunters_find_nothing_in_stores_without_bugs() -> None:
    HUNTERS.find_nothing(HUNTS.values())
