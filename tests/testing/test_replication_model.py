"""For each invariant something that breaks it, and something next to it that does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest

from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.replication_model import (
    TOLERANCE_SECONDS,
    Answer,
    Invariant,
    ReplicationBroken,
    ReplicationModel,
    Shown,
    Unit,
)

SIZE, FILE_SIZE = 10, 100
OK, TIMEOUT = PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_SLAVE_TIMEOUT
UNAVAILABLE = PutMessageStatus.SLAVE_NOT_AVAILABLE


def log(words: str, *, begin: int = 0, end: int | None = None) -> Shown:
    """A log with a record for each letter: the same letter at the same offset is the same record."""
    records = {begin + SIZE * number: letter.encode() * SIZE for number, letter in enumerate(words)}
    return Shown(records, begin, begin + SIZE * len(words) if end is None else end)


def pair(masters: str = "abcd", slaves: str = "ab") -> ReplicationModel:
    """A master and a slave, open."""
    model = ReplicationModel()
    model.opened("m", log(masters), is_master=True)
    model.opened("s", log(slaves), is_master=False)
    return model


def answer(status: PutMessageStatus, **changes: Any) -> Answer:
    """The answer to the producer of the second record, true for :func:`pair`."""
    usual = Answer(
        master="m",
        begin_offset=SIZE,
        end_offset=2 * SIZE,
        status=status,
        waited_s=0.5 if status is OK else 3.0,
        timeout_s=3.0,
        live_slaves=["s"],
        may_have_slave=True,
        surely_has_slave=False,
    )
    return attrs.evolve(usual, **changes)


def broken(event: Callable[[], None]) -> Invariant:
    with pytest.raises(ReplicationBroken) as raised:
        event()
    assert raised.value.invariant.value in str(raised.value)
    return raised.value.invariant


# ---- logs -----------------------------------------------------------------------------------------------------------


def test_a_slave_s_log_is_a_piece_of_a_history() -> None:
    model = pair()
    model.shows("s", log("abcd"))
    assert broken(lambda: model.shows("s", log("abcdx"))) is Invariant.SLAVE_IS_A_PIECE


def test_a_slave_may_begin_with_any_record_of_a_history() -> None:
    model = pair(slaves="")
    model.shows("s", log("cd", begin=2 * SIZE))
    model = pair(slaves="")
    assert broken(lambda: model.shows("s", log("cd", begin=SIZE))) is Invariant.SLAVE_IS_A_PIECE


def test_a_slave_s_log_is_of_one_history_only() -> None:
    model = pair("abxy", "ab")
    model.died("m", durable_end=2 * SIZE)
    model.opened("m", log("ab"), is_master=True)
    model.shows("m", log("abcde"))
    model.shows("s", log("abxy"))
    assert broken(lambda: model.shows("s", log("abxye"))) is Invariant.SLAVE_IS_A_PIECE


def test_a_promoted_slave_begins_a_history() -> None:
    model = pair(slaves="ab")
    model.died("s")
    model.opened("s", log("ab"), is_master=True)
    model.shows("s", log("abx"))
    model.died("m", durable_end=SIZE)
    model.opened("m", log("a"), is_master=False)
    model.shows("m", log("abx"))


def test_a_promoted_slave_without_the_first_files_goes_on_with_the_history() -> None:
    model = pair("abcd", "abcd")
    model.opened("t", log("cd", begin=2 * SIZE), is_master=False)
    model.died("t")
    model.opened("t", log("cd", begin=2 * SIZE), is_master=True)
    model.shows("t", log("cde", begin=2 * SIZE))
    model.shows("s", log("abcde"))


def test_what_a_master_wrote_while_it_died_belongs_to_its_history() -> None:
    model = pair("abcd", "abcd")
    model.died("m")
    model.opened("m", log("abcdx"), is_master=False)
    model.shows("s", log("abcdx"))


def test_what_a_master_sent_as_it_stopped_belongs_to_its_history() -> None:
    model = pair("abc", "abc")
    model.died("m")
    model.left("m", log("abcd").records)
    model.shows("s", log("abcd"))
    assert broken(lambda: model.shows("s", log("abcdx"))) is Invariant.SLAVE_IS_A_PIECE


def test_what_a_lost_machine_has_left_takes_nothing_from_its_history() -> None:
    model = pair("abcd", "abc")
    model.died("m", durable_end=SIZE)
    model.left("m", log("ax").records)
    model.shows("s", log("abcd"))


@pytest.mark.parametrize("shown", [log("abc", end=35), log("", end=SIZE)])
def test_a_log_ends_with_a_record(shown: Shown) -> None:
    assert broken(lambda: pair(slaves="").shows("s", shown)) is Invariant.ENDS_WITH_A_RECORD


def test_an_empty_log_may_begin_anywhere() -> None:
    pair(slaves="").shows("s", log("", begin=FILE_SIZE))


def test_an_open_store_loses_nothing() -> None:
    assert broken(lambda: pair(slaves="ab").shows("s", log("a"))) is Invariant.STORED_STAYS
    assert broken(lambda: pair(slaves="ab").shows("s", log("ac"))) is Invariant.STORED_STAYS


# ---- lives ----------------------------------------------------------------------------------------------------------


def test_a_kill_loses_nothing() -> None:
    model = pair(slaves="abc")
    model.died("s")
    assert broken(lambda: model.opened("s", log("ab"), is_master=False)) is Invariant.STORED_STAYS


def test_a_loss_of_power_loses_only_what_was_not_durable() -> None:
    model = pair(slaves="abc")
    model.died("s")
    model.died("s", durable_end=2 * SIZE)
    model.opened("s", log("ab"), is_master=False)
    model.died("s", durable_end=2 * SIZE)
    assert broken(lambda: model.opened("s", log("a"), is_master=False)) is Invariant.STORED_STAYS


def test_a_wiped_machine_has_nothing() -> None:
    model = pair()
    model.wiped("s")
    model.opened("s", log(""), is_master=False)


def test_what_was_cut_comes_back_from_a_master_only() -> None:
    model = pair("abcd", "abcd")
    model.died("m", durable_end=SIZE)
    model.opened("m", log("ab"), is_master=True)
    model.was_cut("s", 2 * SIZE)
    model.opened("s", log("ab"), is_master=False)
    assert broken(lambda: model.shows("s", log("abc"))) is Invariant.CUT_STAYS_CUT
    model.shows("m", log("abc"))
    model.shows("s", log("abc"))


def test_a_cut_takes_no_record_before_it() -> None:
    model = pair("abcd", "abcd")
    model.was_cut("s", 2 * SIZE)
    assert broken(lambda: model.opened("s", log("a"), is_master=False)) is Invariant.STORED_STAYS


# ---- what is acknowledged -------------------------------------------------------------------------------------------


def test_put_ok_needs_a_live_slave_with_the_record() -> None:
    pair().answered(answer(OK))
    assert broken(lambda: pair(slaves="a").answered(answer(OK))) is Invariant.ACKNOWLEDGED_IS_ON_A_SLAVE
    assert broken(lambda: pair().answered(answer(OK, live_slaves=[]))) is Invariant.ACKNOWLEDGED_IS_ON_A_SLAVE


def test_a_slave_may_have_died_between_storing_and_the_answer() -> None:
    model = pair(slaves="a")
    model.died("s")
    model.left("s", log("ab").records)
    model.answered(answer(OK))


def test_put_ok_needs_the_same_bytes() -> None:
    model = pair("axcd", "")
    model.died("m", durable_end=0)
    model.opened("m", log("abcd"), is_master=True)
    model.shows("s", log("ax"))
    assert broken(lambda: model.answered(answer(OK))) is Invariant.ACKNOWLEDGED_IS_ON_A_SLAVE


def test_put_ok_of_a_batch_needs_all_of_it() -> None:
    whole_batch = answer(OK, begin_offset=SIZE, end_offset=3 * SIZE)
    assert broken(lambda: pair(slaves="ab").answered(whole_batch)) is Invariant.ACKNOWLEDGED_IS_ON_A_SLAVE
    pair(slaves="abc").answered(whole_batch)


@pytest.mark.parametrize(("lost", "other"), [("m", "s"), ("s", "m")])
def test_what_was_acknowledged_survives_the_loss_of_either_machine(lost: str, other: str) -> None:
    model = pair()
    model.answered(answer(OK))
    model.wiped(lost)
    model.opened(lost, log(""), is_master=False)
    model.died(other)
    assert broken(lambda: model.opened(other, log("a"), is_master=True)) is Invariant.SURVIVES_ONE_MACHINE


def test_what_both_machines_have_lost_is_lost() -> None:
    model = pair()
    model.answered(answer(OK))
    model.died("m", durable_end=SIZE)
    model.died("s", durable_end=0)
    model.opened("m", log("a"), is_master=True)
    model.opened("s", log(""), is_master=False)


# ---- statuses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "false",
    [
        answer(OK, begin_offset=4 * SIZE, end_offset=5 * SIZE),
        answer(OK, waited_s=3.0 + 2 * TOLERANCE_SECONDS),
        answer(OK, durable_end=SIZE),
        answer(UNAVAILABLE, waited_s=0.0, surely_has_slave=True),
        answer(UNAVAILABLE, waited_s=0.0, begin_offset=4 * SIZE, end_offset=5 * SIZE),
        answer(TIMEOUT, waited_s=2.9),
        answer(TIMEOUT, waited_s=3.0 + 2 * TOLERANCE_SECONDS),
        answer(TIMEOUT, may_have_slave=False),
        answer(TIMEOUT, surely_has_slave=True),
    ],
)
def test_a_status_that_is_not_true(false: Answer) -> None:
    assert broken(lambda: pair().answered(false)) is Invariant.STATUS_IS_TRUE


@pytest.mark.parametrize(
    "true",
    [
        answer(OK, waited_s=0.0, surely_has_slave=True),
        answer(OK, waited_s=3.0 + TOLERANCE_SECONDS / 2),
        answer(OK, durable_end=2 * SIZE),
        answer(UNAVAILABLE, waited_s=0.0, may_have_slave=False),
        answer(UNAVAILABLE, waited_s=0.0),
        answer(TIMEOUT),
        answer(TIMEOUT, waited_s=3.0 + TOLERANCE_SECONDS / 2),
    ],
)
def test_a_status_that_is_true(true: Answer) -> None:
    pair().answered(true)


def test_a_producer_is_answered_in_time() -> None:
    pair().waits("m", waited_s=3.0, timeout_s=3.0)
    late = 3.0 + 2 * TOLERANCE_SECONDS
    assert broken(lambda: pair().waits("m", waited_s=late, timeout_s=3.0)) is Invariant.STATUS_IS_TRUE


@pytest.mark.parametrize(("acknowledged", "sent"), [(11, 10), (10, 41), (41, 41)])
def test_no_claim_above_what_was_sent(acknowledged: int, sent: int) -> None:
    pair().claims("m", acknowledged=10, sent=40, end_offset=40)
    claim = {"acknowledged": acknowledged, "sent": sent, "end_offset": 40}
    assert broken(lambda: pair().claims("m", **claim)) is Invariant.NO_CLAIM_ABOVE_SENT


# ---- queues ---------------------------------------------------------------------------------------------------------

T0 = ("T", 0)


def units(words: str, *, tags_code: int = 0) -> Mapping[tuple[str, int], Mapping[int, Unit]]:
    return {T0: {number: Unit(SIZE * number, SIZE, tags_code) for number, _ in enumerate(words)}}


def test_units_of_a_slave_are_the_master_s() -> None:
    model = pair(slaves="abc")
    model.units("m", units("abcd"))
    model.units("s", units("abc"))


@pytest.mark.parametrize("wrong", [units("ab"), units("abc", tags_code=1), {("T", 1): units("abc")[T0]}, units("abcd")])
def test_units_of_a_slave_that_are_not_the_master_s(wrong: Mapping[tuple[str, int], Mapping[int, Unit]]) -> None:
    model = pair(slaves="abc")
    model.units("m", units("abcd"))
    assert broken(lambda: model.units("s", wrong)) is Invariant.UNITS_ARE_EQUAL


def test_units_that_no_master_has_shown_are_not_judged() -> None:
    pair(slaves="abc").units("s", units("ab", tags_code=7))


def test_a_key_leads_to_the_same_records_on_a_slave() -> None:
    model = pair(slaves="abc")
    model.finds("m", "T", "k", [0, 2 * SIZE, 3 * SIZE])
    model.finds("s", "T", "k", [0, 2 * SIZE])
    model.finds("s", "T", "other", [])
    assert broken(lambda: model.finds("s", "T", "k", [0])) is Invariant.KEYS_ARE_FOUND


# ---- pairs ----------------------------------------------------------------------------------------------------------


def diverged() -> ReplicationModel:
    model = pair("abxy", "abx")
    model.died("m", durable_end=2 * SIZE)
    model.opened("m", log("abcd"), is_master=True)
    return model


def test_a_slave_that_follows_has_its_master_s_log() -> None:
    pair().follows("s", "m")
    assert broken(lambda: diverged().follows("s", "m")) is Invariant.EQUAL_OR_ALARM


def test_a_slave_that_follows_is_not_ahead() -> None:
    model = pair("abc", "abc")
    model.died("m", durable_end=0)
    model.opened("m", log("ab"), is_master=True)
    assert broken(lambda: model.follows("s", "m")) is Invariant.EQUAL_OR_ALARM


def test_what_the_master_has_deleted_is_not_compared() -> None:
    model = pair("abcd", "ab")
    model.wiped("m")
    model.opened("m", log("cd", begin=2 * SIZE), is_master=True)
    model.follows("s", "m")


def test_without_faults_a_slave_catches_up_or_shows_an_alarm() -> None:
    pair(slaves="abcd").calm("s", "m", alarm="", file_size=FILE_SIZE)
    diverged().calm("s", "m", alarm="logs differ", file_size=FILE_SIZE)
    behind = pair(slaves="ab")
    assert broken(lambda: behind.calm("s", "m", alarm="", file_size=FILE_SIZE)) is Invariant.PROGRESS_OR_ALARM


def test_an_alarm_has_a_reason() -> None:
    model = pair(slaves="ab")
    alarm = "the connection was reset"
    assert broken(lambda: model.calm("s", "m", alarm=alarm, file_size=FILE_SIZE)) is Invariant.PROGRESS_OR_ALARM


def test_an_empty_slave_of_a_master_with_an_empty_last_file_has_nothing_to_get() -> None:
    pair("abcdefghij", "").calm("s", "m", alarm="", file_size=FILE_SIZE)
    behind = pair("abcdefghijk", "")
    assert broken(lambda: behind.calm("s", "m", alarm="", file_size=FILE_SIZE)) is Invariant.PROGRESS_OR_ALARM


def test_without_faults_no_connection_ends() -> None:
    assert broken(lambda: pair().connects_again("s")) is Invariant.CONNECTION_STAYS
