"""For each of the seven sentences something that breaks it, and something next to it that does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
import pytest

from rocketpy.testing.store_model import Found, Invariant, InvariantBroken, Sent, StoreModel

SIZE = 100
LOG = [
    Sent("T", number % 2, number // 2, number * SIZE, b"body %d" % number, b"KEYS\x01k", flag=3, tags_code=7)
    for number in range(8)
]


def found(
    log: Iterable[Sent], *, queues: Mapping[tuple[str, int], Sequence[Sent]] | None = None, abort: bool = True
) -> Found:
    """What a recovery finds; the queues are those of the log if they are left out."""
    log = list(log)
    if queues is None:
        queues = {("T", queue_id): [each for each in log if each.queue_id == queue_id] for queue_id in (0, 1)}
    return Found(queues, log, abort_file_was_there=abort)


def opened() -> StoreModel:
    """A store that was opened for the first time, empty."""
    model = StoreModel()
    model.recovered(found([], abort=False))
    return model


def sent(count: int = len(LOG), *, written: int = 0, synced: int = 0) -> StoreModel:
    """A store that has accepted some messages and died without power loss."""
    model = opened()
    model.sent(LOG[:written])
    model.written()
    model.sent(LOG[written:count])
    model.synced(synced * SIZE)
    model.died(power_lost=False)
    return model


def broken(model: StoreModel, what: Found) -> InvariantBroken:
    with pytest.raises(InvariantBroken) as raised:
        model.recovered(what)
    return raised.value


# ---- acknowledged is there ----------------------------------------------------------------------------------------


def test_what_was_written_survives_a_kill() -> None:
    error = broken(sent(written=4), found(LOG[:3]))
    assert error.invariant is Invariant.ACKNOWLEDGED_IS_THERE
    assert error.messages == (LOG[3],)
    for count in range(4, 9):
        sent(written=4).recovered(found(LOG[:count]))


def test_what_was_written_may_be_lost_with_the_power() -> None:
    model = sent(written=4, synced=2)
    model.died(power_lost=True)
    assert broken(model, found(LOG[:1])).invariant is Invariant.ACKNOWLEDGED_IS_THERE
    model.recovered(found(LOG[:2]))


def test_what_is_still_in_a_pool_may_be_lost_with_the_process() -> None:
    model = opened()
    model.sent(LOG)
    model.written(6 * SIZE)
    model.written(4 * SIZE)
    model.died(power_lost=False)
    assert broken(model, found(LOG[:5])).invariant is Invariant.ACKNOWLEDGED_IS_THERE
    model.recovered(found(LOG[:6]))


def test_a_flush_is_about_what_lies_before_its_end() -> None:
    model = sent(written=8, synced=3)
    model.synced(2 * SIZE)  # an older flush, noticed late, takes nothing back
    model.died(power_lost=True)
    assert model.promised_count == 3
    model.recovered(found(LOG[:3]))


def test_it_is_in_its_queue_too() -> None:
    queues = {("T", 0): LOG[0::2], ("T", 1): LOG[1:7:2]}
    error = broken(sent(written=8), found(LOG, queues=queues))
    assert (error.invariant, error.messages) == (Invariant.ACKNOWLEDGED_IS_THERE, (LOG[7],))


@pytest.mark.parametrize(
    "other",
    [
        attrs.evolve(LOG[2], body=b"bodx 2"),
        attrs.evolve(LOG[2], properties=b"KEYS\x01l"),
        attrs.evolve(LOG[2], flag=4),
        attrs.evolve(LOG[2], tags_code=8),
        attrs.evolve(LOG[2], physical_offset=201),
    ],
)
def test_it_is_byte_identical(other: Sent) -> None:
    error = broken(sent(written=4), found([*LOG[:2], other, LOG[3]]))
    assert (error.invariant, error.messages) == (Invariant.ACKNOWLEDGED_IS_THERE, (LOG[2],))


def test_it_is_there_once() -> None:
    for log in ([*LOG, LOG[3]], [*LOG[:4], *LOG[3:7]]):
        error = broken(sent(8), found(log))
        assert (error.invariant, error.messages) == (Invariant.ACKNOWLEDGED_IS_THERE, (LOG[3],))
    queues = {("T", 0): LOG[0::2], ("T", 1): [*LOG[1::2], LOG[3]]}
    assert broken(sent(8), found(LOG, queues=queues)).invariant is Invariant.ACKNOWLEDGED_IS_THERE


def test_it_is_in_order() -> None:
    swapped = [LOG[1], LOG[0], *LOG[2:]]
    assert broken(sent(8, written=8), found(swapped)).invariant is Invariant.ACKNOWLEDGED_IS_THERE
    queues = {("T", 0): [LOG[2], LOG[0], *LOG[4::2]], ("T", 1): LOG[1::2]}
    assert broken(sent(8, written=8), found(LOG, queues=queues)).invariant is Invariant.ACKNOWLEDGED_IS_THERE


# ---- no hole ------------------------------------------------------------------------------------------------------


def test_the_log_has_no_hole() -> None:
    error = broken(sent(8), found([*LOG[:5], *LOG[6:]]))
    assert (error.invariant, error.messages) == (Invariant.NO_HOLE, (LOG[5],))
    sent(8).recovered(found(LOG[:5]))


def test_a_queue_has_no_hole() -> None:
    queues = {("T", 0): LOG[0::2], ("T", 1): [LOG[1], *LOG[5::2]]}
    error = broken(sent(8), found(LOG, queues=queues))
    assert (error.invariant, error.messages) == (Invariant.NO_HOLE, (LOG[3],))


@pytest.mark.parametrize("queue_offsets", [(1,), (0, 2), (0, 0)])
def test_a_store_that_gives_offsets_with_a_hole_is_found(queue_offsets: tuple[int, ...]) -> None:
    log = [Sent("T", 0, queue_offset, SIZE * at, b"x") for at, queue_offset in enumerate(queue_offsets)]
    model = opened()
    model.sent(log)
    error = broken(model, found(log))
    assert (error.invariant, error.messages) == (Invariant.NO_HOLE, (log[-1],))


# ---- nothing invented ---------------------------------------------------------------------------------------------


def test_a_message_that_was_never_sent_is_found() -> None:
    invented = attrs.evolve(LOG[6], body=b"")
    error = broken(sent(6), found([*LOG[:6], invented]))
    assert error.invariant is Invariant.NOTHING_INVENTED
    assert invented in error.messages
    sent(7).recovered(found(LOG[:7]))


def test_a_unit_without_a_record_is_found() -> None:
    queues = {("T", 0): LOG[0::2], ("T", 1): LOG[1::2]}
    error = broken(sent(8), found(LOG[:7], queues=queues))
    assert (error.invariant, error.messages) == (Invariant.NOTHING_INVENTED, (LOG[7],))


# ---- twice is once ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power_lost", [False, True])
def test_what_a_recovery_found_the_next_one_finds(power_lost: bool) -> None:
    model = sent(8)
    model.recovered(found(LOG[:5]))
    model.died(power_lost=power_lost)
    error = broken(model, found(LOG[:4]))
    assert (error.invariant, error.messages) == (Invariant.TWICE_IS_ONCE, (LOG[4],))
    model.recovered(found(LOG[:5]))
    assert model.promised_count == 5


def test_what_a_recovery_found_and_did_not_make_durable_may_be_lost_with_the_power() -> None:
    model = sent(8)
    model.recovered(attrs.evolve(found(LOG[:5]), durable_end=2 * SIZE))
    model.died(power_lost=False)
    assert model.promised_count == 5
    model.died(power_lost=True)
    assert broken(model, found(LOG[:1])).invariant is Invariant.TWICE_IS_ONCE
    model.recovered(found(LOG[:2]))


# ---- a clean stop loses nothing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("power_lost", [False, True])
def test_a_clean_stop_loses_nothing(power_lost: bool) -> None:
    model = sent(8)
    model.stopped()
    model.died(power_lost=power_lost)
    assert broken(model, found(LOG[:7], abort=False)).invariant is Invariant.CLEAN_STOP_LOSES_NOTHING
    model.recovered(found(LOG, abort=False))


# ---- the abort file -----------------------------------------------------------------------------------------------


def test_the_abort_file_is_there_after_a_crash() -> None:
    assert broken(sent(8), found(LOG, abort=False)).invariant is Invariant.ABORT_FILE
    sent(8).recovered(found(LOG, abort=True))


def test_the_abort_file_may_be_absent_before_the_first_open_and_after_a_clean_stop() -> None:
    opened()
    model = sent(8)
    model.stopped()
    model.recovered(found(LOG, abort=False))
    assert broken(model, found(LOG, abort=False)).invariant is Invariant.ABORT_FILE, "it is open again"
    model.stopped()
    model.recovered(found(LOG, abort=True))  # a stale one: that costs a scan, and nothing else


def test_a_removed_abort_file_is_not_missed() -> None:
    model = sent(8)
    model.abort_file_removed()
    model.recovered(found(LOG, abort=False))


# ---- what was cut stays cut ---------------------------------------------------------------------------------------


def test_what_was_cut_never_comes_back() -> None:
    model = sent(8)
    model.recovered(found(LOG[:5]))
    for back in (LOG[5], LOG[7]):
        error = broken(model, found([*LOG[:5], back]))
        assert error.invariant is Invariant.CUT_STAYS_CUT
        assert set(error.messages) == {back}
    queues = {("T", 0): LOG[0:5:2], ("T", 1): LOG[1:6:2]}
    assert broken(model, found(LOG[:5], queues=queues)).invariant is Invariant.CUT_STAYS_CUT


def test_what_was_cut_may_be_sent_again() -> None:
    model = sent(8)
    model.recovered(found(LOG[:5]))
    model.sent(LOG[5:6])
    model.written()
    model.recovered(found(LOG[:6]))
    assert broken(model, found(LOG)).invariant is Invariant.CUT_STAYS_CUT


# ---- what an open store shows -------------------------------------------------------------------------------------


def test_an_open_store_shows_everything_and_nothing_else() -> None:
    model = sent(8, written=8)
    model.shown(found(LOG).queues, LOG)
    for log, invariant in (
        (LOG[:7], Invariant.ACKNOWLEDGED_IS_THERE),
        ([*LOG, attrs.evolve(LOG[7], queue_offset=4)], Invariant.NOTHING_INVENTED),
    ):
        with pytest.raises(InvariantBroken) as raised:
            model.shown(found(log).queues, log)
        assert raised.value.invariant is invariant
    with pytest.raises(InvariantBroken):
        model.shown(found(LOG[:7]).queues, LOG)


# ---- retention ----------------------------------------------------------------------------------------------------


def test_what_has_expired_is_not_missed_and_not_wanted_back() -> None:
    model = sent(8, written=8)
    model.expired(3 * SIZE)
    assert broken(model, found(LOG)).invariant is Invariant.NOTHING_INVENTED
    assert broken(model, found(LOG[4:])).invariant is Invariant.ACKNOWLEDGED_IS_THERE
    model.recovered(found(LOG[3:]))


# ---- what an error says -------------------------------------------------------------------------------------------


def test_an_error_says_what_and_names_some_messages() -> None:
    text = str(broken(sent(8, written=8), found([])))
    assert text.startswith("ACKNOWLEDGED_IS_THERE: what was acknowledged as durable is there, once, in order, byte-i")
    assert text.count("Sent(") == 5
    assert "6 bytes b'body 0'" in text
    assert "and 3 more" in text


def test_every_invariant_is_a_sentence_of_the_promise() -> None:
    assert "; ".join(each.value for each in Invariant) == (
        "what was acknowledged as durable is there, once, in order, byte-identical; queue offsets have no hole; "
        "nothing was invented; recovering twice equals once; a clean stop loses nothing; the abort file is absent only "
        "before the first open and after a clean stop; what recovery cut never comes back; a full disk refuses "
        "messages and ends nothing; the index leads from a key to all messages that have it, and to no other"
    )
