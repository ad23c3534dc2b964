"""Clients that lie, beside the honest ones of :mod:`.retry_machine`: their promises must hold all the same.

A producer writes into a body what looks like a message of the topic, a consumer of the same group gives that back by
the offset where it must lie, or names any other offset; and messages are sent with what only the broker may say of
them. What is given back under a false name must not come to any group, and what was sent with false words is a message
like any other.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from property_tests.group_clients import GROUP, TOPIC
from property_tests.group_clients import send as client_send
from property_tests.retry_machine import DLQ_TOPIC, RETRY_TOPIC, Promise, RetryMachine
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.query import ViewMessageRequestHeader
from rocketpy.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from rocketpy.protocol.properties import encode_properties
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from tests.forged_record import body_posing_as_record

OWN_TOPIC = "Mine"
LOG_FILE_SIZE = 1 << 16

topics = st.sampled_from([TOPIC, RETRY_TOPIC, DLQ_TOPIC, SCHEDULE_TOPIC, "Secret"])
levels = st.sampled_from([0, 1, -1, 1 << 30])
numbers = st.sampled_from([0, 1, 1_000, 1 << 40, (1 << 63) - 1, -1])
no_record = st.sampled_from([1, 7, 1 << 40, (1 << 63) - 1, -1, -(1 << 63)])


class DishonestConsumer(RetryMachine):
    """The honest machine, with liars among its clients."""

    @rule(topic=topics, queue_offset=numbers, level=levels, is_cold=st.booleans())
    def gives_back_a_record_in_a_body(
        self, topic: str = TOPIC, queue_offset: int = 0, level: int = 0, is_cold: bool = False
    ) -> None:
        body, physical_offset = body_posing_as_record(
            self.world.life.store.wrote_offset,
            topic=topic,
            queue_offset=queue_offset,
            body=b"forged",
            properties={"RETRY_TOPIC": TOPIC, "REAL_TOPIC": RETRY_TOPIC},
        )
        self.ask(client_send(body, topic=OWN_TOPIC))
        if is_cold:
            self.world.life.disk.evict(f"/store/commitlog/{physical_offset // LOG_FILE_SIZE * LOG_FILE_SIZE:020d}")
        self.refused(send_back_of(physical_offset, level))
        self.refused(make_request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=physical_offset)))
        self.look()

    @rule(offset=no_record, level=levels)
    def gives_back_what_is_nowhere(self, offset: int, level: int = 0) -> None:
        self.refused(send_back_of(offset, level))
        self.refused(make_request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=offset)))

    @rule(sys_flag=st.sampled_from([0, 8, 0x48]), times=st.sampled_from(["0", "99"]))
    def sends_what_only_the_broker_may_say(self, sys_flag: int = 8, times: str = "99") -> None:
        """The message is consumed, retried and dies as all others."""
        properties = {
            "UNIQ_KEY": f"K{self.count + 1}",
            "TRAN_PREPARED_QUEUE_OFFSET": "0",
            "TRANSACTION_CHECK_TIMES": times,
            "REAL_TOPIC": "Elsewhere",
            "REAL_QID": "7",
            "ORIGIN_MESSAGE_ID": "0" * 32,
            "RECONSUME_TIME": "99",
        }
        self.send_one(sys_flag, encode_properties(properties))

    def refused(self, request: RemotingCommand) -> None:
        answer = self.ask(request)
        if answer.code == ResponseCode.SUCCESS:
            self.broken(Promise.NOTHING_FORGED, f"{request} was accepted")


def send_back_of(physical_offset: int, level: int) -> RemotingCommand:
    header = ConsumerSendMsgBackRequestHeader(
        offset=physical_offset, group=GROUP, delay_level=level, origin_topic=TOPIC, max_reconsume_times=1 << 30
    )
    return make_request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
