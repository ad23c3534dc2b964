"""A producer that lies, beside the honest ones of :mod:`.transaction_machine`: their promises must hold all the same.

It knows everything: where the log ends, how records look, which transactions there are and what their messages are
called. It writes records into bodies, names offsets that it was never given, says in flags and properties what only the
broker may say, and sends numbers without meaning. It may have transactions of its own: those are as good as any.
Between two rounds it may also find that a record on the disk is damaged, for which it is not to blame.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from property_tests.group_clients import send as client_send
from property_tests.transaction_machine import (
    COMMIT,
    GROUP,
    ROLLBACK,
    TOPIC,
    Promise,
    Transaction,
    TransactionMachine,
)
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.query import ViewMessageRequestHeader
from rocketpy.protocol.headers.send import (
    EndTransactionRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
    SendMessageResponseHeader,
)
from rocketpy.protocol.message_id import decode_offset_msg_id, encode_offset_msg_id
from rocketpy.protocol.properties import encode_properties
from rocketpy.protocol.topic_name import TRANS_HALF_TOPIC
from rocketpy.testing.store_world import STORE_HOST
from tests.forged_record import HEAD_SIZE, body_posing_as_record

OWN_TOPIC = "Mine"
LOG_FILE_SIZE = 1 << 16
FAR_OFF = [0, 1, 1_000, 1 << 40, (1 << 63) - 1, -1, -(1 << 63)]

far_off = st.sampled_from(FAR_OFF)
no_record = st.sampled_from([1, 7, 1 << 40, (1 << 63) - 1, -1, -(1 << 63)])
ends = st.sampled_from([COMMIT, ROLLBACK])


class DishonestProducer(TransactionMachine):
    """The honest machine, with a liar among its clients."""

    # ---- records in bodies ----------------------------------------------------------------------------------------

    @rule(
        choice=st.integers(0, 9),
        queue_offset=st.one_of(st.none(), far_off),
        how=ends,
        is_named=st.booleans(),
        is_cold=st.booleans(),
    )
    def ends_a_record_in_a_body(
        self,
        choice: int = 0,
        queue_offset: int | None = None,
        how: int = COMMIT,
        is_named: bool = False,
        is_cold: bool = False,
    ) -> None:
        """The record names an honest transaction, or an offset of the half queue that does not exist yet."""
        properties = {"REAL_TOPIC": TOPIC, "PGROUP": GROUP}
        known = self.known()
        if known:
            victim = known[-1 - choice % len(known)].records[0][0]
            if queue_offset is None:
                queue_offset = victim
            if is_named:
                properties["TRAN_PREPARED_QUEUE_OFFSET"] = str(victim)
        body, physical_offset = body_posing_as_record(
            self.world.life.store.wrote_offset,
            topic=TRANS_HALF_TOPIC,
            queue_offset=queue_offset or 0,
            body=b"forged",
            properties=properties,
        )
        self.ask(client_send(body, topic=OWN_TOPIC))
        if is_cold:
            self.make_cold(physical_offset)
        header = EndTransactionRequestHeader(
            producer_group=GROUP,
            tran_state_table_offset=queue_offset or 0,
            commit_log_offset=physical_offset,
            commit_or_rollback=how,
            from_transaction_check=False,
            msg_id="K",
        )
        answer = self.ask(make_request(RequestCode.END_TRANSACTION, header))
        if answer is None or answer.code == ResponseCode.SUCCESS:
            self.broken(Promise.NOTHING_FORGED, f"a record in a body was ended: {answer}")
        self.look()

    @rule(offset=no_record, queue_offset=far_off, how=ends)
    def names_offsets_that_lead_nowhere(self, offset: int, queue_offset: int = 0, how: int = COMMIT) -> None:
        header = EndTransactionRequestHeader(
            producer_group=GROUP,
            tran_state_table_offset=queue_offset,
            commit_log_offset=offset,
            commit_or_rollback=how,
            from_transaction_check=True,
            msg_id="K",
        )
        resume = ResumeCheckHalfMessageRequestHeader(encode_offset_msg_id(STORE_HOST, offset))
        for request in (
            make_request(RequestCode.END_TRANSACTION, header),
            make_request(RequestCode.RESUME_CHECK_HALF_MESSAGE, resume),
            make_request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=offset)),
        ):
            answer = self.ask(request)
            if answer is None or answer.code == ResponseCode.SUCCESS:
                self.broken(Promise.NOTHING_FORGED, f"{request} was accepted: {answer}")
        self.look()

    # ---- flags and properties -------------------------------------------------------------------------------------

    @precondition(lambda self: self.known())
    @rule(choice=st.integers(0, 9), sys_flag=st.sampled_from([0, 8, 9, 12, -8]))
    def says_that_a_transaction_was_committed(self, choice: int = 0, sys_flag: int = 8) -> None:
        """By an ordinary message with the flag, the name and the key of the one that a commit would deliver."""
        known = self.known()
        victim = known[-1 - choice % len(known)]
        self.count += 1
        body = b"claim-%d" % self.count
        self.foreign.add(body)
        properties = {
            "UNIQ_KEY": f"K{victim.body.decode()}",
            "TRAN_PREPARED_QUEUE_OFFSET": str(victim.records[0][0]),
            "REAL_TOPIC": TOPIC,
            "REAL_QID": "0",
            "PGROUP": GROUP,
        }
        self.ask(client_send(body, topic=TOPIC, sys_flag=sys_flag, properties=encode_properties(properties)))
        self.look()

    @precondition(lambda self: self.known())
    @rule(choice=st.integers(0, 9), times=st.sampled_from(["0", "99", "-1"]), how=ends)
    def has_a_transaction_that_says_it_is_another(self, choice: int = 0, times: str = "99", how: int = COMMIT) -> None:
        """A half message with the properties of a copy: it is one of its own, and ended as such."""
        known = self.known()
        victim = known[-1 - choice % len(known)]
        self.count += 1
        body = b"%d" % self.count
        properties = {
            "TRAN_MSG": "true",
            "PGROUP": GROUP,
            "UNIQ_KEY": f"K{self.count}",
            "TRAN_PREPARED_QUEUE_OFFSET": str(victim.records[0][0]),
            "TRANSACTION_CHECK_TIMES": times,
            "REAL_TOPIC": "Elsewhere",
            "REAL_QID": "7",
        }
        self.transactions[body] = Transaction(body, self.now)
        request = client_send(
            body,
            topic=TOPIC,
            sys_flag=12,
            born_timestamp_ms=self.world.life.clock.timestamp_ms(),
            properties=encode_properties(properties),
        )
        answer = self.ask(request)
        assert answer is not None
        header = read_header(answer, SendMessageResponseHeader)
        self.transactions[body].records.append((header.queue_offset, decode_offset_msg_id(header.msg_id)[1]))
        self.then(None)
        self.end(choice=0, how=how, record=0)
        self.look()

    # ---- damage ---------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([11, 13, 23]))
    def a_record_is_damaged_for_some_rounds(self, seconds: int = 13) -> None:
        """Its own half message, older than what the honest ones send next; they are asked about all the same."""
        self.count += 1
        body = b"damaged-%d" % self.count
        self.foreign.add(body)
        properties = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": f"K{self.count}"}
        born_timestamp_ms = self.world.life.clock.timestamp_ms()
        answer = self.ask(
            client_send(
                body, topic=TOPIC, born_timestamp_ms=born_timestamp_ms, properties=encode_properties(properties)
            )
        )
        assert answer is not None
        _, physical_offset = decode_offset_msg_id(read_header(answer, SendMessageResponseHeader).msg_id)
        path, position = self.place_of(physical_offset)
        size_at = position + HEAD_SIZE + len(body) + 1 + len(TRANS_HALF_TOPIC)
        life = self.life_count
        self.send_half()
        self.world.life.disk.flip_bit(path, size_at, 6)
        try:
            self.time_passes(seconds)
        finally:
            self.world.life.disk.flip_bit(path, size_at, 6)
        assert self.life_count == life, "nothing was arranged that ends it"

    # ---- private --------------------------------------------------------------------------------------------------

    def place_of(self, physical_offset: int) -> tuple[str, int]:
        """Return the file of the log and the position in it."""
        base = physical_offset // LOG_FILE_SIZE * LOG_FILE_SIZE
        return f"/store/commitlog/{base:020d}", physical_offset - base

    def make_cold(self, physical_offset: int) -> None:
        """Let a record be read by a task."""
        self.world.life.disk.evict(self.place_of(physical_offset)[0])
