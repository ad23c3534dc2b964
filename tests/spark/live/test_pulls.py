"""Pulls of one piece: everything once and in order, whatever the broker answers, with several in flight."""

from __future__ import annotations

import random

import attrs
import pytest

from rocketpy.errors import BrokerError, ClientError, RemoteProtocolError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.pull import PullMessageResponseHeader
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.spark.live.access import ClusterAccess
from rocketpy.spark.live.parts import QueueSpan
from rocketpy.spark.live.pulls import (
    PULLS_IN_FLIGHT_MAX,
    REMOVED_REMARK,
    TRY_MORE_AFTER,
    LaggingReplicaError,
    PieceReader,
    Stride,
)
from rocketpy.spark.live.remoting import BlockingRemotingClient
from rocketpy.spark.live.settings import PullSettings
from rocketpy.spark.live.subscription import Expression
from tests.spark.live.fake_cluster import Answer, FakeBroker, served

QUEUE = MessageQueue("T", "b", 0)
SETTINGS = PullSettings(access=ClusterAccess(name_servers=()), batch_size=1024)


def read(
    answer: Answer, start: int, end: int, *, settings: PullSettings = SETTINGS, is_slave: bool = False
) -> list[int]:
    """Return the queue offsets of what was read, and check that the position is always past them."""
    offsets: list[int] = []
    with served(answer) as address, BlockingRemotingClient(address, timeout_s=60) as client:
        reader = PieceReader(client, QueueSpan(QUEUE, start, end), settings, position=start, is_slave=is_slave)
        for body in reader.bodies():
            offsets += [message.queue_offset for message in decode_messages(body)]
            assert reader.position > offsets[-1]
        assert reader.position >= end
    return offsets


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 1024])
def test_a_piece_is_read_once_and_in_order(batch_size: int) -> None:
    broker = FakeBroker({0: (5, 200)})
    settings = attrs.evolve(SETTINGS, batch_size=batch_size)
    assert read(broker.answer, 7, 150, settings=settings) == list(range(7, 150))
    assert all(pull.max_msg_nums <= batch_size for pull in broker.pulls)


@pytest.mark.parametrize("seed", range(5))
def test_answers_of_any_length_leave_no_gap_and_no_double(seed: int) -> None:
    lengths = random.Random(seed)
    broker = FakeBroker({0: (0, 1000)}, messages_max=lambda _: lengths.randint(1, 40))
    assert read(broker.answer, 3, 997) == list(range(3, 997))


def test_pulls_of_the_next_offsets_are_sent_before_the_answer_is_there() -> None:
    """The broker answers none of the pulls after the first before as many have arrived as may be in flight."""
    broker = FakeBroker({0: (0, 1000)}, messages_max=lambda _: 4)
    kept: list[bytes] = []

    def answer(request: RemotingCommand) -> bytes:
        frame = encode_frame(broker.answer(request))
        if not 1 < len(broker.pulls) <= 1 + PULLS_IN_FLIGHT_MAX:
            return frame
        kept.append(frame)
        return b"".join(reversed(kept)) if len(kept) == PULLS_IN_FLIGHT_MAX else b""

    assert read(answer, 0, 300) == list(range(300))
    assert len(kept) == PULLS_IN_FLIGHT_MAX


def test_an_answer_without_messages_that_goes_on_is_followed() -> None:
    """At the end of a ConsumeQueue file a broker answers without messages and with the offset to continue at."""
    broker = FakeBroker({0: (0, 30)}, empty_answers_at={3, 29})
    assert read(broker.answer, 0, 30) == [each for each in range(30) if each not in {3, 29}]


@pytest.mark.parametrize(("jumps", "is_idle"), [({}, True), ({9: 60}, False)])
def test_a_reader_that_jumped_past_its_end_leaves_answers_behind(jumps: dict[int, int], is_idle: bool) -> None:
    """Then the connection is not for the next piece: their bodies would be kept as long as it lives."""
    with (
        served(FakeBroker({0: (0, 60)}, jumps=jumps).answer) as address,
        BlockingRemotingClient(address, timeout_s=60) as client,
    ):
        reader = PieceReader(client, QueueSpan(QUEUE, 0, 50), SETTINGS, position=0, is_slave=False)
        assert list(reader.bodies())
        assert reader.is_idle == is_idle


@pytest.mark.parametrize("to", [10, 13, 14, 29, 30, 45])
def test_a_jump_over_pulls_in_flight_repeats_nothing(to: int) -> None:
    broker = FakeBroker({0: (0, 60)}, jumps={9: to})
    assert read(broker.answer, 0, 50) == [*range(9), *range(to, 50)]


def test_a_broker_that_chooses_messages_is_followed_beyond_the_piece() -> None:
    broker = FakeBroker({0: (0, 100)})
    settings = attrs.evolve(SETTINGS, expression=Expression("TAG", "even", frozenset({"even"})))
    offsets = read(broker.answer, 10, 51, settings=settings)
    assert [each for each in offsets if each < 51] == list(range(10, 51, 2))
    assert broker.pulls[0].expression_type == "TAG"
    assert broker.pulls[0].sys_flag == 4


def test_a_broker_that_never_goes_on_is_an_error_and_not_a_loop() -> None:
    broker = FakeBroker({0: (0, 10)}, is_stuck=True)
    with pytest.raises(
        ClientError, match=r"no progress at topic T broker b queue 0 offset 0, broker .* has offsets 0 to 9"
    ):
        read(broker.answer, 0, 10)


def test_messages_that_are_gone_are_an_error_that_names_the_option() -> None:
    broker = FakeBroker({0: (4, 10)})
    with pytest.raises(ClientError, match=r"topic T broker b queue 0 offset 0 .* goes on at 4.*failOnDataLoss=false"):
        read(broker.answer, 0, 10)


def test_messages_that_are_gone_may_be_missing_if_the_user_says_so() -> None:
    settings = attrs.evolve(SETTINGS, fail_on_data_loss=False)
    assert read(FakeBroker({0: (4, 10)}).answer, 0, 10, settings=settings) == [4, 5, 6, 7, 8, 9]
    assert read(FakeBroker({0: (90, 95)}).answer, 0, 10, settings=settings) == []
    assert read(FakeBroker({0: (0, 3)}).answer, 5, 10, settings=settings) == []  # created anew, shorter


def test_an_answer_that_says_that_messages_were_removed_is_believed() -> None:
    """It goes on behind them; with a choice of messages nothing else tells that they are missing."""

    def answer(request: RemotingCommand) -> RemotingCommand:
        made = broker.answer(request)
        return attrs.evolve(made, remark=REMOVED_REMARK) if made.code == ResponseCode.PULL_RETRY_IMMEDIATELY else made

    chooses = attrs.evolve(SETTINGS, expression=Expression("TAG", "even", frozenset({"even"})))
    broker = FakeBroker({0: (0, 10)}, jumps={0: 6})
    with pytest.raises(ClientError, match=r"offset 0 are no longer there, the broker goes on at 6: .*failOnDataLoss"):
        read(answer, 0, 10, settings=chooses)
    lenient = attrs.evolve(chooses, fail_on_data_loss=False)
    assert read(answer, 0, 10, settings=lenient) == [6, 8]
    with pytest.raises(LaggingReplicaError):
        read(answer, 0, 10, is_slave=True)


def test_messages_that_expire_while_they_are_read_are_noticed() -> None:
    broker = FakeBroker({0: (0, 500)}, messages_max=lambda _: 2)

    def answer(request: RemotingCommand) -> RemotingCommand:
        if len(broker.pulls) == 40:
            broker.queues[0] = (300, 500)
        return broker.answer(request)

    settings = attrs.evolve(SETTINGS, fail_on_data_loss=False)
    offsets = read(answer, 0, 500, settings=settings)
    assert offsets == sorted(set(offsets))
    assert offsets[-200:] == list(range(300, 500))
    assert offsets[:10] == list(range(10))


def test_a_deleted_topic_is_named_as_such() -> None:
    broker = FakeBroker({0: (0, 10)}, refusal=ResponseCode.TOPIC_NOT_EXIST)
    with pytest.raises(ClientError, match="topic T broker b queue 0 offset 0: the topic was deleted after the read"):
        read(broker.answer, 0, 10)


def test_a_slave_that_has_begun_with_later_messages_is_left() -> None:
    """It asks to try again, at the master."""

    def answer(request: RemotingCommand) -> RemotingCommand:
        header = PullMessageResponseHeader(suggest_which_broker_id=0, next_begin_offset=0, min_offset=4, max_offset=10)
        return make_response(request, ResponseCode.PULL_RETRY_IMMEDIATELY, "OFFSET_TOO_SMALL", header=header)

    with pytest.raises(LaggingReplicaError, match="of topic T broker b queue 0 only offsets 4 to 9"):
        read(answer, 0, 10, is_slave=True)


def test_a_slave_that_does_not_know_a_topic_yet_is_left() -> None:
    broker = FakeBroker({0: (0, 10)}, refusal=ResponseCode.TOPIC_NOT_EXIST)
    with pytest.raises(LaggingReplicaError, match="does not know topic T yet"):
        read(broker.answer, 0, 10, is_slave=True)


def test_any_other_refusal_says_what_was_pulled() -> None:
    broker = FakeBroker({0: (0, 10)}, refusal=ResponseCode.SYSTEM_BUSY)
    with pytest.raises(BrokerError, match="pull of topic T broker b queue 0 offset 0: refused"):
        read(broker.answer, 0, 10)


def test_an_answer_without_its_fields_names_the_address() -> None:
    with pytest.raises(RemoteProtocolError, match=r"127\.0\.0\.1:\d+: PullMessageResponseHeader"):
        read(lambda request: make_response(request), 0, 10)


def test_a_slave_that_lags_is_left() -> None:
    for queues in ({0: (0, 4)}, {0: (0, 0)}):
        with pytest.raises(LaggingReplicaError, match=r"queue 0|not yet"):
            read(FakeBroker(queues).answer, 0, 10, is_slave=True)
    with pytest.raises(LaggingReplicaError, match="not yet, or no longer"):
        read(FakeBroker({0: (0, 4)}).answer, 7, 10, is_slave=True)


def test_a_stride_is_what_the_broker_gives_and_now_and_then_a_try_with_more() -> None:
    stride = Stride(1024)
    assert stride.next_size() == 1024
    stride.note(1024, 32)
    assert stride.next_size() == 32
    for _ in range(TRY_MORE_AFTER):
        assert stride.next_size() == 32
        stride.note(32, 32)
    assert stride.next_size() == 64
    stride.note(64, 64)
    assert stride.size == 64
    stride.note(64, 10)
    assert stride.next_size() == 10


def test_tries_with_more_become_rare() -> None:
    stride = Stride(1024)
    stride.note(1024, 32)
    tries = 0
    for _ in range(1000):
        asked = stride.next_size()
        tries += asked > 32
        stride.note(asked, 32)
    assert 3 <= tries <= 6
