"""The rules of transactions and the model they are held against: a list of messages, each with what became of it.

*A half message is delivered exactly if it was committed, never after a rollback, and checked while its end is unknown.*
The broker is a whole one, on a simulated disk; clients are two producers of one group. A step is what a producer, an
operator, time, the machine or the disk can do; a dishonest producer is in :mod:`.dishonest_producer`. What the model
cannot know (the power went before an answer came) it reads off the next life once, and from then on it must stay so.

::

                        end(commit)
    send_half --> OPEN -------------> COMMITTED     delivered once
                  ^ |   end(rollback)
                  | |---------------> ROLLED_BACK   never delivered
                  | |   CHECK_MAX rounds of checks
                  | |---------------> GIVEN_UP      in the topic for operators
                  | |   power goes        |
                  | +---------------> ABSENT        if it was not durable
                  |                       |
                  +---- operator_resumes -+ (of GIVEN_UP)

    a round of checks   every INTERVAL_SECONDS in time_passes: an online producer is asked about each that is OPEN
    producers           producer_comes_online, producer_goes_offline
    the broker          restart, kill, lose_power, die_in_a_round: it starts again at once; log_is_flushed
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import Enum
from functools import partial

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from property_tests.group_clients import send as client_send
from property_tests.hunts import PromiseBroken, broken_unless_done, living
from property_tests.power_loss import NOTHING, chosen
from property_tests.small_broker import ASYNC, SYNC, small_broker
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
    SendMessageResponseHeader,
)
from rocketpy.protocol.message_id import decode_offset_msg_id
from rocketpy.protocol.properties import encode_properties
from rocketpy.protocol.stored_message import decode_message
from rocketpy.protocol.sysflag import TRANSACTION_COMMIT_TYPE, TRANSACTION_NOT_TYPE, TRANSACTION_ROLLBACK_TYPE
from rocketpy.protocol.topic_name import TRANS_CHECK_MAX_TIME_TOPIC
from rocketpy.store.config import FlushDiskType
from rocketpy.testing.broker_world import BrokerWorld, Client
from rocketpy.testing.sim.disk import ProcessDied
from rocketpy.testing.store_world import LifeEnded

TOPIC, GROUP, CHECK_MAX = "T", "P", 3
INTERVAL_SECONDS, TIMEOUT_SECONDS, IMMUNITY_SECONDS = 10, 2, 50
HEARTBEAT_SECONDS = 30
COMMIT, ROLLBACK, UNKNOWN = TRANSACTION_COMMIT_TYPE, TRANSACTION_ROLLBACK_TYPE, TRANSACTION_NOT_TYPE

hows = st.sampled_from([COMMIT, COMMIT, ROLLBACK, UNKNOWN])
survivors = st.one_of(st.none(), st.none(), st.integers(-2, 255))


class Promise(Enum):
    """What the broker promises about transactions."""

    DELIVERED = "what was committed is delivered"
    NOT_DELIVERED = "what was not committed is not delivered"
    ONCE = "nothing is delivered twice"
    CHECKED = "what is open is asked about, or given up after so many checks"
    LEFT_ALONE = "what is over is not asked about any more"
    GIVEN_UP = "what is given up was open long enough, and is there for operators"
    ANSWERED = "an end is accepted exactly if it is the one that counts"
    NOTHING_FORGED = "nothing is delivered that was not sent, and no transaction is open that was never begun"
    LIVES = "nothing that a client sends ends the broker"


class State(Enum):
    """What a transaction can be."""

    ABSENT = "absent"  # the half message went with the power
    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    GIVEN_UP = "given up"


States = frozenset[State]
ABSENT, OPEN, GIVEN_UP = frozenset([State.ABSENT]), frozenset([State.OPEN]), frozenset([State.GIVEN_UP])


@attrs.define(eq=False)
class Transaction:
    """One message, and what its producer knows of it.

    ``possible`` is one state but for the time after a loss of power, until something has been seen that tells.
    """

    body: bytes
    since: float  # model time from which on it is due to be asked about
    possible: States = OPEN
    past: States = ABSENT  # what it may have been since the disk last had everything
    records: list[tuple[int, int]] = attrs.field(factory=list)  # queue and physical offsets in the producer's answers
    durable_records: int = 0  # of which the disk has so many: the offsets of the others may be reused
    given_up_count: int = 0

    @property
    def is_open(self) -> bool:
        return self.possible == OPEN

    def becomes(self, possible: States) -> None:
        self.past |= self.possible
        self.possible = possible


class TransactionMachine(RuleBasedStateMachine):
    """One broker through its lives."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.transactions: dict[bytes, Transaction] = {}
        self.foreign: set[bytes] = set()  # bodies that a dishonest producer has sent: nothing is promised about them
        self.producers: list[Client] = []
        self.world = _world(ASYNC, 512)
        self.is_broken = False

    def teardown(self) -> None:
        """In the end everything is asked about once more, in a life that begins with a kill."""
        try:
            if not self.is_broken and self.world.is_open:
                self.kill()
                self.time_passes(23)
        finally:
            self.world.life.kill()

    @initialize(flush=st.sampled_from([SYNC, ASYNC]), sector_size=st.sampled_from([64, 512]))
    def first_start(self, flush: FlushDiskType, sector_size: int = 512) -> None:
        self.world = _world(flush, sector_size)
        self.start()

    # ---- what producers do ----------------------------------------------------------------------------------------

    @rule(immune_seconds=st.sampled_from([0, 0, IMMUNITY_SECONDS]), survives=survivors, and_flush=st.booleans())
    def send_half(self, immune_seconds: int = 0, survives: int | None = None, and_flush: bool = False) -> None:
        """Send a half message; the power may go in that moment, or the log may just have been flushed."""
        self.count += 1
        body = b"%d" % self.count
        properties = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": f"K{self.count}"}
        if immune_seconds:
            properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] = str(immune_seconds)
        request = client_send(
            body,
            topic=TOPIC,
            sys_flag=4,
            born_timestamp_ms=self.world.life.clock.timestamp_ms(),
            properties=encode_properties(properties),
        )
        transaction = self.transactions[body] = Transaction(body, self.now + immune_seconds)
        answer = self.ask(request, settle=survives is None)
        if answer is not None:
            assert answer.code == ResponseCode.SUCCESS, answer
            header = read_header(answer, SendMessageResponseHeader)
            transaction.records.append((header.queue_offset, decode_offset_msg_id(header.msg_id)[1]))
        self.then(survives)
        if and_flush:
            self.log_is_flushed()

    @precondition(lambda self: self.known())
    @rule(choice=st.integers(0, 9), record=st.integers(0, 9), how=hows, oneway=st.booleans(), survives=survivors)
    def end(
        self,
        choice: int = 0,
        how: int = COMMIT,
        record: int = -1,
        oneway: bool = False,
        survives: int | None = None,
    ) -> None:
        """A producer ends a transaction, named by any record of it that it knows, in time or late."""
        known = self.known()
        transaction = known[-1 - choice % len(known)]
        queue_offset, physical_offset = transaction.records[record % len(transaction.records)]
        header = EndTransactionRequestHeader(
            producer_group=GROUP,
            tran_state_table_offset=queue_offset,
            commit_log_offset=physical_offset,
            commit_or_rollback=how,
            from_transaction_check=record != 0,
            msg_id="K",
        )
        request = make_request(RequestCode.END_TRANSACTION, header, oneway=oneway)
        answer = self.ask(request, settle=survives is None)
        if how != UNKNOWN:
            wanted = State.COMMITTED if how == COMMIT else State.ROLLED_BACK
            self.has_ended(transaction, wanted, None if answer is None else answer.code)
        self.then(survives)

    def has_ended(self, transaction: Transaction, wanted: State, code: int | None) -> None:
        possible = transaction.possible
        if code is None:  # it was asked for oneway, or the answer went with the power
            transaction.becomes(frozenset(wanted if state is State.OPEN else state for state in possible))
        elif code == ResponseCode.SUCCESS:
            if possible.isdisjoint((State.OPEN, wanted)):
                self.broken(Promise.ANSWERED, f"{transaction} was ended a second time")
            transaction.becomes(frozenset([wanted]))
        else:
            if possible == OPEN:
                self.broken(Promise.ANSWERED, f"{transaction} is open and cannot be ended: {code}")
            transaction.possible -= OPEN

    @rule(index=st.integers(0, 1))
    def producer_goes_offline(self, index: int = 0) -> None:
        if index < len(self.producers):
            self.producers.pop(index).close()

    @precondition(lambda self: len(self.producers) < 2)
    @rule()
    def producer_comes_online(self) -> None:
        self.producers.append(self.world.connect())
        self.heartbeat()

    def heartbeat(self) -> None:
        for client in self.producers:
            body = encode_body(HeartbeatData(client_id=client.connection.peer, producer_data_set=[ProducerData(GROUP)]))
            answer = client.ask(make_request(RequestCode.HEART_BEAT, body=body))
            assert answer is not None
            assert answer.code == ResponseCode.SUCCESS

    # ---- operators, time, death -----------------------------------------------------------------------------------

    @precondition(lambda self: any(each.possible == GIVEN_UP for each in self.transactions.values()))
    @rule(choice=st.integers(0, 9))
    def operator_resumes(self, choice: int = 0) -> None:
        """What was given up is checked again from the beginning."""
        given_up = [each for each in self.transactions.values() if each.possible == GIVEN_UP]
        transaction = given_up[choice % len(given_up)]
        (message, *_) = [each for each in self.world.messages(TRANS_CHECK_MAX_TIME_TOPIC, 0)
                         if each.body == transaction.body]  # fmt: skip
        header = ResumeCheckHalfMessageRequestHeader(message.offset_msg_id)
        answer = self.ask(make_request(RequestCode.RESUME_CHECK_HALF_MESSAGE, header))
        if answer is None or answer.code != ResponseCode.SUCCESS:
            self.broken(Promise.GIVEN_UP, f"{transaction} cannot be resumed: {answer}")
        transaction.becomes(OPEN)
        transaction.since = self.now
        self.then(None)

    @rule(seconds=st.sampled_from([1, 3, 11, 11, 23, 60]))
    def time_passes(self, seconds: int = 11) -> None:
        """Check rounds come and go, one in every interval of a life."""
        due = [
            each
            for each in self.transactions.values()
            if each.is_open and max(self.now, each.since + TIMEOUT_SECONDS) + INTERVAL_SECONDS + 2 < self.now + seconds
        ]
        for _ in range(0, seconds, HEARTBEAT_SECONDS):
            self.heartbeat()
            passing = min(HEARTBEAT_SECONDS, seconds)
            seconds -= passing
            if not self.living(partial(self.world.pass_time, passing)):
                return
        asked = self.take_checks()
        self.look()
        for each in due if self.producers else ():
            if each.is_open and not asked[each.body]:
                self.broken(Promise.CHECKED, f"{each} was not asked about")

    @rule()
    def log_is_flushed(self) -> None:
        if self.living(lambda: self.world.life.ask(lambda store: store.flush())):
            self.durable()

    @rule()
    def restart(self) -> None:
        if self.living(self.world.stop):
            self.durable()
            self.start()

    @rule()
    def kill(self) -> None:
        self.world.kill()
        self.start()

    @rule(survives=st.integers(-2, 255))
    def lose_power(self, survives: int = NOTHING) -> None:
        """The machine goes down; of what was not synced the disk has nothing, everything or some."""
        self.world.lose_power(chosen(survives))
        for each in self.transactions.values():
            each.possible |= each.past
            del each.records[each.durable_records :]
        self.start()

    @rule(
        calls=st.one_of(st.none(), st.integers(1, 60)),
        seconds=st.sampled_from([11, 13, 23]),
        survives=st.one_of(st.none(), st.just(NOTHING), st.integers(-2, 255)),
    )
    def die_in_a_round(self, calls: int | None, seconds: int = 13, survives: int | None = None) -> None:
        """The process dies after a round, or in some change of the disk in it, and the machine perhaps with it."""
        self.dies_with_power = survives
        if calls is not None:
            self.world.life.disk.die_at_call(calls)
        life = self.life_count
        self.time_passes(seconds)
        if self.life_count == life:
            if survives is None:
                self.kill()
            else:
                self.lose_power(survives)
        self.dies_with_power = None

    life_count = 0
    dies_with_power: int | None = None

    @property
    def now(self) -> float:
        return self.world.life.clock.timestamp_ms() / 1000

    # ---- the model ------------------------------------------------------------------------------------------------

    def broken(self, promise: Promise, what: str) -> None:
        self.is_broken = True
        raise PromiseBroken(promise, what)

    def known(self) -> list[Transaction]:
        """Transactions of which the producer can name a record."""
        return [each for each in self.transactions.values() if each.records]

    def ask(self, request: RemotingCommand, *, settle: bool = True) -> RemotingCommand | None:
        """Ask over a connection that is in no group; None when there is no answer."""
        with living(self.broken, Promise.LIVES):
            return self.world.connect().ask(request, settle=settle)

    def then(self, survives: int | None) -> None:
        """A producer was answered, or else the power goes before that."""
        if survives is not None:
            self.lose_power(survives)
        elif self.world.settings.store.is_sync_flush:
            self.durable()

    def living(self, step: Callable[[], object]) -> bool:
        """Do what may be the broker's last; False when it was, because a death was arranged."""
        with broken_unless_done(self):
            try:
                with living(self.broken, Promise.LIVES):
                    step()
            except LifeEnded as ended:
                if not isinstance(ended.cause, ProcessDied):
                    raise
                if self.dies_with_power is None:
                    self.start()
                else:
                    self.lose_power(self.dies_with_power)
                return False
        return True

    def start(self) -> None:
        self.producers.clear()
        self.life_count += 1
        with living(self.broken, Promise.LIVES):
            self.world.begin()
            self.world.pass_time(0)
        self.producer_comes_online()
        self.look()

    def durable(self) -> None:
        """The disk has everything: nothing older can come back."""
        for each in self.transactions.values():
            each.past, each.durable_records = each.possible, len(each.records)

    def take_checks(self) -> Counter[bytes]:
        """Take the questions that came; each names a record that can be ended."""
        asked: Counter[bytes] = Counter()
        for request in [request for producer in self.producers for request in producer.requests()]:
            if request.code == RequestCode.CHECK_TRANSACTION_STATE:
                header = read_header(request, CheckTransactionStateRequestHeader)
                assert request.body is not None
                body = decode_message(request.body).body
                if body in self.foreign:
                    continue
                transaction = self.transactions[body]
                if State.OPEN not in transaction.possible:
                    self.broken(Promise.LEFT_ALONE, f"{transaction} was asked about")
                transaction.possible = OPEN
                transaction.records.append((header.tran_state_table_offset, header.commit_log_offset))
                asked[transaction.body] += 1
        return asked

    def look(self) -> None:
        """Hold what consumers and operators see against the model."""
        given_up = Counter(message.body for message in self.world.messages(TRANS_CHECK_MAX_TIME_TOPIC, 0))
        delivered = Counter(message.body for message in self.world.messages(TOPIC, 0))
        if forged := delivered.keys() - self.transactions.keys() - self.foreign:
            self.broken(Promise.NOTHING_FORGED, f"{forged} were delivered")
        for each in self.transactions.values():
            self.look_at_given_up(each, given_up[each.body])
            if delivered[each.body] > 1:
                self.broken(Promise.ONCE, f"{each} was delivered {delivered[each.body]} times")
            if delivered[each.body]:
                if State.COMMITTED not in each.possible:
                    self.broken(Promise.NOT_DELIVERED, f"{each} was delivered")
                each.possible = frozenset([State.COMMITTED])
            else:
                each.possible -= {State.COMMITTED}
                if not each.possible:
                    self.broken(Promise.DELIVERED, f"{each} was committed and is not delivered")

    def look_at_given_up(self, transaction: Transaction, count: int) -> None:
        if count > transaction.given_up_count:
            age = self.now - transaction.since
            if State.OPEN not in transaction.possible or age < CHECK_MAX * INTERVAL_SECONDS:
                self.broken(Promise.GIVEN_UP, f"{transaction} was given up after {age} s")
            transaction.becomes(GIVEN_UP)
        elif count < transaction.given_up_count or not count:
            transaction.possible -= GIVEN_UP
            if not transaction.possible:
                self.broken(Promise.GIVEN_UP, f"{transaction} was given up and is nowhere")
        transaction.given_up_count = count


def _world(flush: FlushDiskType, sector_size: int) -> BrokerWorld:
    return small_broker(
        flush,
        sector_size=sector_size,
        broker={
            "flush_consumer_offset_interval": 1_500,  # never in the moment of a round
            "transaction_check_max": CHECK_MAX,
            "transaction_check_interval": INTERVAL_SECONDS * 1000,
            "transaction_time_out": TIMEOUT_SECONDS * 1000,
        },
        store={"flush_commit_log_thorough_interval": 30_000, "flush_delay_offset_interval": 300_000},
    )
