"""What a broker promises about transactions, held against every order of events: see ``transaction_machine.py``.

The machine itself, by its profile, and deliberate bugs, each of which it must find by a script, and the common ones by
chance, because a machine that finds no planted bug proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import settings

from property_tests.dishonest_producer import DishonestProducer
from property_tests.hunts import Bug, Function, MachineTests, hunt
from property_tests.power_loss import NOTHING
from property_tests.small_broker import ASYNC, SYNC
from property_tests.transaction_machine import (
    IMMUNITY_SECONDS,
    INTERVAL_SECONDS,
    ROLLBACK,
    Promise,
    TransactionMachine,
)
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.broker.send import processor as send
from rocketpy.broker.send import properties as send_properties
from rocketpy.broker.send.put import PutMessageResult
from rocketpy.broker.transaction import check as transaction_check
from rocketpy.broker.transaction import replay, transactional_message
from rocketpy.broker.transaction.check import TransactionalMessageCheckService, Verdict
from rocketpy.broker.transaction.end import EndTransactionProcessor
from rocketpy.broker.transaction.half_message import origin_of
from rocketpy.broker.transaction.open_transactions import OpenTransactions
from rocketpy.broker.transaction.transactional_message import TransactionalMessageService
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import EndTransactionRequestHeader
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.read.message_reader import MessageReader
from rocketpy.store.results import PutMessageStatus

TestTransactions = DishonestProducer.TestCase
TestTransactions.settings = settings(  # virtual time is dear: each second is some wake-ups
    max_examples=settings.default.max_examples * 4 // 5 if settings.default else 40, stateful_step_count=30
)


def _ends_every_time(newest: Function) -> Function:
    """RocketMQ's own: every end that names a half message ends it, whether it was ended before or not."""

    def found(self: Any, half: Any) -> Any:
        self.catch_up()
        origin = origin_of(half)
        if self._transactions.newest(origin) is None:
            self._transactions._newest[origin] = half.queue_offset
        return self._transactions.newest(origin)

    return found


def _writes_offsets_at_once(persist: Function) -> Function:
    async def too_early(self: Any) -> None:
        self.before_write = None
        await persist(self)

    return too_early


def _forgets_copies(note_end: Function) -> Function:
    def noted(op: Any, ended: set[int], ended_up_to: dict[int, int]) -> None:
        note_end(attrs.evolve(op, origin=None), ended, ended_up_to)

    return noted


def _names_no_origin(copied: Function) -> Function:
    def copy(half: Any, **others: Any) -> Any:
        message = copied(half, **others)
        message.properties.pop("TRAN_PREPARED_QUEUE_OFFSET", None)
        return message

    return copy


def _writes_two_ops_in_three(put_op: Function) -> Function:
    def put(self: Any, origin: int, *, names_origin: bool = False) -> Any:
        self._put_count = getattr(self, "_put_count", 0) + 1
        if self._put_count % 3:
            return put_op(self, origin, names_origin=names_origin)
        return PutMessageResult(PutMessageStatus.PUT_OK, 0, 0, "", 0)

    return put


def _counts_every_turn(leave: Function) -> Function:
    """RocketMQ's own: each turn of an immune message appends a copy, and counts as a check."""

    def counted(self: Any, half: Any, immune_until_ms: int) -> Any:
        times = 1 + int(half.properties.get("TRANSACTION_CHECK_TIMES", 0))
        return Verdict.DONE if self._service.renew(half, check_times=times) else Verdict.ROUND_ENDS

    return counted


def _passes_over_what_is_open(first: Function) -> Function:
    """The offsets move to the end of the half queue, whatever is open."""

    async def moved(self: Any) -> None:
        kept, self._transactions = self._transactions, OpenTransactions()
        self._transactions.load({}, kept.known_end)
        await first(self)
        self._transactions = kept

    return moved


def _trusts_what_looks_like_a_record(look: Function) -> Function:
    """RocketMQ's own: whatever lies at an offset is a message."""
    return MessageReader.look_message


def _takes_numbers_for_half_messages(process: Function) -> Function:
    """Bounded, so that the machine comes to an end; the broker would not."""

    def caught_up(self: Any, connection: Any, request: Any) -> Any:
        header = read_header(request, EndTransactionRequestHeader)
        self._transactions.catch_up(min(header.tran_state_table_offset + 1, 5_000))
        return process(self, connection, request)

    return caught_up


def _takes_nothing_away(take_away: Function) -> Function:
    return lambda properties: None


def _takes_every_flag(flags: Any) -> Any:
    return -1


def _stops_at_damage(readable: Function) -> Function:
    return lambda records, topic=None: decode_messages(records, decompress=False)


# ---- scripts that lead there: the right code passes them, the wrong one does not ------------------------------------


def commits_twice(state: TransactionMachine) -> None:
    state.first_start(flush=SYNC)
    state.send_half()
    state.end()
    state.end()
    state.look()


def loses_what_was_not_synced_after_a_round(state: TransactionMachine) -> None:
    state.first_start(flush=ASYNC)
    state.send_half(and_flush=True)
    state.die_in_a_round(calls=None, seconds=13, survives=NOTHING)
    state.time_passes(23)


def dies_after_a_round(state: TransactionMachine) -> None:
    state.first_start(flush=SYNC)
    state.send_half()
    state.die_in_a_round(calls=None, seconds=13)
    state.time_passes(23)


def ends_by_the_first_record_and_dies_before_offsets_are_written(state: TransactionMachine) -> None:
    state.first_start(flush=ASYNC)
    state.send_half()
    state.time_passes(INTERVAL_SECONDS)  # the round has been, and the next write of the offsets not yet
    state.end(record=0, how=ROLLBACK)
    state.kill()
    state.time_passes(23)


def answers_a_check(state: TransactionMachine) -> None:
    state.first_start(flush=SYNC)
    state.send_half()
    state.time_passes(11)
    state.end(record=-1)
    state.look()


def rolls_back_and_dies(state: TransactionMachine) -> None:
    state.first_start(flush=SYNC)
    for _ in range(3):
        state.send_half()
        state.end(how=ROLLBACK)
    state.kill()
    state.time_passes(23)


def is_immune_for_long(state: TransactionMachine) -> None:
    state.first_start(flush=SYNC)
    state.send_half(immune_seconds=IMMUNITY_SECONDS)
    state.time_passes(60)


def ends_a_record_in_a_body(state: DishonestProducer) -> None:
    state.first_start(flush=SYNC)
    state.send_half()
    state.ends_a_record_in_a_body()
    state.ends_a_record_in_a_body(is_cold=True)


def names_a_number(state: DishonestProducer) -> None:
    state.first_start(flush=SYNC)
    state.names_offsets_that_lead_nowhere(offset=7, queue_offset=1_000)
    state.send_half()
    state.time_passes(23)


def says_that_its_half_message_is_another_s(state: DishonestProducer) -> None:
    state.first_start(flush=SYNC)
    state.send_half()
    state.has_a_transaction_that_says_it_is_another()
    state.time_passes(23)


def says_that_it_was_committed_and_the_broker_dies(state: DishonestProducer) -> None:
    state.first_start(flush=SYNC)
    state.send_half()
    state.says_that_a_transaction_was_committed()
    state.kill()
    state.time_passes(23)


def finds_a_damaged_record(state: DishonestProducer) -> None:
    state.first_start(flush=SYNC)
    state.a_record_is_damaged_for_some_rounds(23)


SCRIPTS: Sequence[Callable[[DishonestProducer], None]] = (
    commits_twice,
    loses_what_was_not_synced_after_a_round,
    dies_after_a_round,
    ends_by_the_first_record_and_dies_before_offsets_are_written,
    answers_a_check,
    rolls_back_and_dies,
    is_immune_for_long,
    ends_a_record_in_a_body,
    names_a_number,
    says_that_its_half_message_is_another_s,
    says_that_it_was_committed_and_the_broker_dies,
    finds_a_damaged_record,
)
SERVICE, CHECK = TransactionalMessageService, TransactionalMessageCheckService
PLANTED: Mapping[str, Bug] = {
    "a transaction ends as often as it is ended": Bug(
        SERVICE, "newest", _ends_every_time, (Promise.ONCE,), commits_twice
    ),
    "offsets are written before the copies are on disk": Bug(
        StoredTable,
        "persist",
        _writes_offsets_at_once,
        (Promise.CHECKED,),
        loses_what_was_not_synced_after_a_round,
        is_common=False,
    ),
    "offsets move past what is open": Bug(
        CHECK, "_move_on", _passes_over_what_is_open, (Promise.CHECKED,), dies_after_a_round, is_common=False
    ),
    "a new life forgets which copies an op is about": Bug(
        replay,
        "_note_end",
        _forgets_copies,
        (Promise.LEFT_ALONE,),
        ends_by_the_first_record_and_dies_before_offsets_are_written,
        is_common=False,
    ),
    "copies do not name their origin": Bug(
        transactional_message, "copied", _names_no_origin, (Promise.ANSWERED,), answers_a_check
    ),
    "one op in three is not written": Bug(
        SERVICE, "_put_op", _writes_two_ops_in_three, (Promise.LEFT_ALONE,), rolls_back_and_dies, is_common=False
    ),
    "turns of immune messages are counted": Bug(
        CHECK, "_leave", _counts_every_turn, (Promise.GIVEN_UP,), is_immune_for_long, is_common=False
    ),
    "a record in a body is trusted": Bug(
        MessageReader,
        "look_named_message",
        _trusts_what_looks_like_a_record,
        (Promise.NOTHING_FORGED,),
        ends_a_record_in_a_body,
    ),
    "half messages are counted up to what a request names": Bug(
        EndTransactionProcessor, "process_end", _takes_numbers_for_half_messages, (Promise.LIVES,), names_a_number
    ),
    "a client says which transaction a half message is of": Bug(
        send_properties,
        "remove_broker_only_properties",
        _takes_nothing_away,
        (Promise.LEFT_ALONE, Promise.CHECKED),
        says_that_its_half_message_is_another_s,
        is_common=False,
    ),
    "a client says that a message was committed": Bug(
        send,
        "CLIENT_SYS_FLAGS",
        _takes_every_flag,
        (Promise.CHECKED,),
        says_that_it_was_committed_and_the_broker_dies,
        is_common=False,
    ),
    "a damaged record ends the round": Bug(
        transaction_check, "readable_messages", _stops_at_damage, (Promise.CHECKED,), finds_a_damaged_record
    ),
}


class TestScripts(MachineTests):
    machine, bugs = DishonestProducer, PLANTED

    @pytest.mark.by_chance
    def test_each_common_bug_is_found_by_chance(self, common_bug: Bug) -> None:
        """In other ways than the script's, which may break another promise first."""
        hunt(self.machine, attrs.evolve(common_bug, promises=tuple(Promise)))
