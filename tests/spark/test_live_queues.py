"""Queues of a live cluster: what is planned is read once and in order, or it is an error."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator

import attrs
import pytest

from rocketpy.errors import BrokerError, ClientError, RemotingConnectError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.frame import FrameReader, decode_command, encode_frame
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.namesrv import GetRouteInfoRequestHeader
from rocketpy.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketpy.protocol.headers.queue_bounds import (
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
)
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import encode_message
from rocketpy.spark.live_queues import QueueRange, plan_queue_ranges, read_queue_range
from rocketpy.spark.options.read import ReadOptions

NEVER_ANSWERS_WITH_MORE_THAN = 3  # messages per pull: every queue takes several


@attrs.define
class FakeCluster:
    """A nameserver and a broker in one, with one topic ``T``: per queue its minimum, its maximum and holes to jump."""

    queues: dict[int, tuple[int, int]]
    address: str = ""
    perm: int = 6
    broker_ids: tuple[int, ...] = (0,)
    empty_answers_at: set[int] = attrs.field(factory=set)  # one PULL_RETRY_IMMEDIATELY without messages each
    is_stuck: bool = False

    def answer(self, request: RemotingCommand) -> RemotingCommand:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return self._route(request)
        if request.code == RequestCode.GET_MIN_OFFSET:
            queue_id = read_header(request, GetMinOffsetRequestHeader).queue_id
            return make_response(request, header=GetMinOffsetResponseHeader(offset=self.queues[queue_id][0]))
        if request.code == RequestCode.GET_MAX_OFFSET:
            queue_id = read_header(request, GetMaxOffsetRequestHeader).queue_id
            return make_response(request, header=GetMaxOffsetResponseHeader(offset=self.queues[queue_id][1]))
        assert request.code == RequestCode.PULL_MESSAGE
        return self._pull(request)

    def _route(self, request: RemotingCommand) -> RemotingCommand:
        if read_header(request, GetRouteInfoRequestHeader).topic != "T":
            return make_response(request, ResponseCode.TOPIC_NOT_EXIST, "no route")
        size = len(self.queues)
        route = TopicRouteData(
            queue_datas=[
                QueueData(
                    broker_name="b", read_queue_nums=size, write_queue_nums=size, perm=self.perm, topic_sys_flag=0
                )
            ],
            broker_datas=[
                BrokerData(cluster="c", broker_name="b", broker_addrs=dict.fromkeys(self.broker_ids, self.address))
            ],
        )
        return make_response(request, body=encode_body(route))

    def _pull(self, request: RemotingCommand) -> RemotingCommand:
        header = read_header(request, PullMessageRequestHeader)
        least, most = self.queues[header.queue_id]
        start = header.queue_offset
        if start < least:
            return self._answer_pull(request, ResponseCode.PULL_OFFSET_MOVED, least, least, most)
        if self.is_stuck or start >= most:
            return self._answer_pull(request, ResponseCode.PULL_NOT_FOUND, start, least, most)
        if start in self.empty_answers_at:
            return self._answer_pull(request, ResponseCode.PULL_RETRY_IMMEDIATELY, start + 1, least, most)
        end = min(start + min(header.max_msg_nums, NEVER_ANSWERS_WITH_MORE_THAN), most)
        body = b"".join(record(header.queue_id, offset) for offset in range(start, end))
        return self._answer_pull(request, ResponseCode.SUCCESS, end, least, most, body)

    @staticmethod
    def _answer_pull(
        request: RemotingCommand, code: ResponseCode, next_offset: int, least: int, most: int, body: bytes | None = None
    ) -> RemotingCommand:
        header = PullMessageResponseHeader(
            suggest_which_broker_id=0, next_begin_offset=next_offset, min_offset=least, max_offset=most
        )
        return make_response(request, code, header=header, body=body)


def record(queue_id: int, queue_offset: int) -> bytes:
    return encode_message(
        MessageExt(
            topic="T",
            body=f"{queue_id}/{queue_offset}".encode(),
            properties={},
            queue_id=queue_id,
            queue_offset=queue_offset,
            physical_offset=queue_id * 1_000_000 + queue_offset,
            born_timestamp=1,
            born_host="10.0.0.1:5000",
            store_timestamp=2,
            store_host="10.0.0.2:10911",
        )
    )


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    fake = FakeCluster(queues={0: (0, 10), 1: (5, 12), 2: (7, 7)})

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            reader = FrameReader()
            while received := self.request.recv(65536):
                reader.receive(received)
                while (frame := reader.next_frame()) is not None:
                    self.request.sendall(encode_frame(fake.answer(decode_command(*frame))))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        fake.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield fake
        server.shutdown()
        thread.join(10)


def options(cluster: FakeCluster, **changes: object) -> ReadOptions:
    return attrs.evolve(ReadOptions(name_servers=(cluster.address,), topics=("T",), request_timeout_s=60), **changes)


def read_all(cluster: FakeCluster, **changes: object) -> list[tuple[int, int]]:
    chosen = options(cluster, **changes)
    parts = plan_queue_ranges(chosen)
    messages = [message for part in parts for message in read_queue_range(part, chosen)]
    assert all(message.broker_name == "b" for message in messages)
    assert [message.body.decode() for message in messages] == [f"{m.queue_id}/{m.queue_offset}" for m in messages]
    return [(message.queue_id, message.queue_offset) for message in messages]


EVERYTHING = [(0, offset) for offset in range(10)] + [(1, offset) for offset in range(5, 12)]


def test_one_range_for_each_queue_that_holds_messages(cluster: FakeCluster) -> None:
    assert plan_queue_ranges(options(cluster)) == [
        QueueRange("T", "b", cluster.address, 0, 0, 10),
        QueueRange("T", "b", cluster.address, 1, 5, 12),
    ]
    assert read_all(cluster) == EVERYTHING


@pytest.mark.parametrize("min_partitions", [3, 5, 17, 1000])
def test_ranges_are_split_on_demand_and_still_cover_everything_once(cluster: FakeCluster, min_partitions: int) -> None:
    parts = plan_queue_ranges(options(cluster, min_partitions=min_partitions))
    assert len(parts) >= min(min_partitions, len(EVERYTHING))
    assert read_all(cluster, min_partitions=min_partitions) == EVERYTHING


def test_messages_that_arrive_after_planning_are_not_part_of_the_read(cluster: FakeCluster) -> None:
    parts = plan_queue_ranges(options(cluster))
    cluster.queues[0] = (0, 1000)
    messages = list(read_queue_range(parts[0], options(cluster)))
    assert [message.queue_offset for message in messages] == list(range(10))


def test_an_empty_answer_that_moves_on_is_followed(cluster: FakeCluster) -> None:
    """At the end of a ConsumeQueue file a broker answers without messages and with the offset to go on at."""
    cluster.empty_answers_at = {3, 11}
    assert read_all(cluster) == [each for each in EVERYTHING if each not in {(0, 3), (1, 11)}]


def test_a_broker_that_never_moves_on_is_an_error_and_not_a_loop(cluster: FakeCluster) -> None:
    cluster.is_stuck = True
    with pytest.raises(ClientError, match="no progress at topic T broker b queue 0 offset 0"):
        read_all(cluster)


def test_messages_deleted_after_planning_are_an_error_that_names_the_option(cluster: FakeCluster) -> None:
    parts = plan_queue_ranges(options(cluster))
    cluster.queues[0] = (4, 10)
    with pytest.raises(ClientError, match=r"topic T broker b queue 0 offset 0 .* goes on at 4.*failOnDataLoss=false"):
        list(read_queue_range(parts[0], options(cluster)))


def test_deleted_messages_may_be_missing_if_the_user_says_so(cluster: FakeCluster) -> None:
    chosen = options(cluster, fail_on_data_loss=False)
    parts = plan_queue_ranges(chosen)
    cluster.queues[0] = (4, 10)
    assert [message.queue_offset for message in read_queue_range(parts[0], chosen)] == [4, 5, 6, 7, 8, 9]
    cluster.queues[0] = (100, 110)
    assert list(read_queue_range(parts[0], chosen)) == []


def test_an_unknown_topic_is_the_nameservers_refusal(cluster: FakeCluster) -> None:
    with pytest.raises(BrokerError, match="no route") as caught:
        plan_queue_ranges(options(cluster, topics=("U",)))
    assert caught.value.response_code == ResponseCode.TOPIC_NOT_EXIST


def test_the_next_nameserver_is_asked_when_one_is_down(cluster: FakeCluster) -> None:
    assert len(plan_queue_ranges(options(cluster, name_servers=("127.0.0.1:1", cluster.address)))) == 2
    with pytest.raises(RemotingConnectError, match=r"127\.0\.0\.1:1"):
        plan_queue_ranges(options(cluster, name_servers=("127.0.0.1:1",)))


def test_queues_without_read_permission_are_left_out(cluster: FakeCluster) -> None:
    cluster.perm = 2
    assert plan_queue_ranges(options(cluster)) == []


def test_a_broker_without_a_master_is_named(cluster: FakeCluster) -> None:
    """A slave may lag: reading it would silently return less."""
    cluster.broker_ids = (1,)
    with pytest.raises(ClientError, match="broker b of topic T has no master"):
        plan_queue_ranges(options(cluster))
