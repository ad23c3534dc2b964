"""A cluster of plain tables with real sockets, for the tests of the client and the command line.

It does what those tests need of a nameserver and of brokers, no more: records in lists, progress in a dict. Tests read
its tables and script it: ``refuse`` answers a code with an error, ``be_silent`` does not answer it, and every request
is kept in ``requests``. ``spoil`` replaces answers: by another answer, by bytes that need not be one, or by silence.

Its network is that of the machine, or a simulated one, whose clock may be Trio's virtual one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from rocketpy.errors import RequestError
from rocketpy.protocol.batch import decode_batch_body
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.group import GetConsumerListByGroupResponseBody
from rocketpy.protocol.bodies.heartbeat import HeartbeatData
from rocketpy.protocol.bodies.lock import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rocketpy.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicList, TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request, make_response
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.client import (
    GetConsumerListByGroupRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
    UnregisterClientRequestHeader,
)
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.namesrv import GetRouteInfoRequestHeader
from rocketpy.protocol.headers.offset import (
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketpy.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketpy.protocol.headers.queue_bounds import (
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
)
from rocketpy.protocol.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from rocketpy.protocol.headers.topic import CreateTopicRequestHeader
from rocketpy.protocol.host import encode_host
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.message_id import encode_offset_msg_id
from rocketpy.protocol.properties import decode_properties
from rocketpy.protocol.selector.tag import TagFilter, parse_tag_expression
from rocketpy.protocol.stored_message import encode_message
from rocketpy.protocol.sysflag import PULL_SUSPEND_FLAG
from rocketpy.remoting.config import NettyServerConfig
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import DEFERRED, Deferred
from rocketpy.remoting.dispatch import Dispatcher, Processor
from rocketpy.remoting.network import Network, SocketNetwork
from rocketpy.remoting.server import RemotingServer
from rocketpy.testing.sim.network import SimNetwork

STORE_TIMESTAMP = 1_700_000_000_000
"""The first message of a broker is stored now; each later one a second after the one before."""

MESSAGES_AT_ONCE_MAX = 32

Spoil = Callable[[Connection, RemotingCommand, RemotingCommand], RemotingCommand | bytes | None]
"""Takes the connection, a request and the right answer; returns what is sent instead, None for nothing."""


class Scripted:
    """A server whose processors can misbehave on request."""

    def __init__(self) -> None:
        self.requests: list[RemotingCommand] = []
        self.peers: list[Connection] = []
        """Every connection that has asked something, in order; ours to ask back."""
        self.dispatcher = Dispatcher()
        self.server: RemotingServer | None = None
        self.address = ""
        self.spoil: Spoil | None = None
        """Replaces the answers, but those to pulls that were held."""
        self._refusals: dict[int, tuple[int, str]] = {}
        self._silent: set[int] = set()
        self._processors: dict[int, Processor] = {}

    def refuse(self, code: int, response_code: int, remark: str = "no") -> None:
        """Answer requests of this code with an error from now on."""
        self._refusals[code] = (response_code, remark)

    def be_silent(self, code: int) -> None:
        """Do not answer requests of this code from now on."""
        self._silent.add(code)

    def behave(self) -> None:
        """Answer as a broker should from now on."""
        self.spoil = None
        self._refusals.clear()
        self._silent.clear()

    def asked(self, code: int) -> list[RemotingCommand]:
        """The requests of this code, in order."""
        return [each for each in self.requests if each.code == code]

    @property
    def known_codes(self) -> Collection[int]:
        """The codes that have a processor."""
        return self._processors.keys()

    def register(self, code: int, processor: Processor) -> None:
        """Serve a code, as far as the script allows; a second processor of a code takes the place of the first."""
        if code not in self._processors:
            self.dispatcher.register(code, self._serve)
        self._processors[code] = processor

    def answer(self, code: int, body: bytes | None = None, *, header: object = None) -> None:
        """Serve a code: answer with a header and a body, or with nothing but success."""
        self.register(code, lambda connection, request: make_response(request, header=header, body=body))

    async def run(self, network: Network | None = None, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until cancelled, on a port that the network chooses."""
        network = network or SocketNetwork()
        host = "127.0.0.1" if isinstance(network, SocketNetwork) else network.local_address()
        listeners = await network.listen(host, 0)
        self.server = RemotingServer(listeners=listeners, dispatcher=self.dispatcher, config=NettyServerConfig())
        self.address = f"{host}:{self.server.port}"
        await self.server.run(task_status=task_status)

    def _serve(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred | None:
        self.requests.append(request)
        if connection not in self.peers:
            self.peers.append(connection)
        if request.code in self._silent:
            return DEFERRED
        if request.code in self._refusals:
            raise RequestError(*self._refusals[request.code])
        answer = self._processors[request.code](connection, request)
        if self.spoil is None or not isinstance(answer, RemotingCommand):
            return answer
        spoiled = self.spoil(connection, request, answer)
        if isinstance(spoiled, bytes):
            connection.reply_frame(spoiled)
            return None
        return spoiled


class FakeNameServer(Scripted):
    """Routes and clusters, as the tests put them."""

    def __init__(self) -> None:
        super().__init__()
        self.routes: dict[str, TopicRouteData] = {}
        self.cluster_info = ClusterInfo()
        self.register(RequestCode.GET_ROUTEINFO_BY_TOPIC, self._route)
        self.register(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, self._topics)
        self.register(RequestCode.GET_BROKER_CLUSTER_INFO, self._cluster)

    def _route(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        route = self.routes.get(read_header(request, GetRouteInfoRequestHeader).topic)
        if route is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, "No topic route info in name server for the topic")
        return make_response(request, body=encode_body(route, standard=True))

    def _topics(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return make_response(request, body=encode_body(TopicList(topic_list=list(self.routes))))

    def _cluster(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return make_response(request, body=encode_body(self.cluster_info))


@attrs.frozen
class _HeldPull:
    connection: Connection
    request: RemotingCommand
    header: PullMessageRequestHeader


class FakeBroker(Scripted):
    """Queues and progress of one broker."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.queues: dict[tuple[str, int], list[MessageExt]] = defaultdict(list)
        self.min_offsets: dict[tuple[str, int], int] = {}
        self.progress: dict[tuple[str, str, int], int] = {}
        self.heartbeats: list[HeartbeatData] = []
        self.created: list[CreateTopicRequestHeader] = []
        self._members: dict[str, dict[str, None]] = defaultdict(dict)
        """Client ids by consumer group, in the order in which they came."""
        self.suggested_broker_id = 0
        self.other_members: list[str] = []
        """Client ids of every group that no heartbeat has named."""
        self.locks: dict[MessageQueue, str] = {}
        """The client id that holds each locked queue."""
        self.sent_back: list[ConsumerSendMsgBackRequestHeader] = []
        self.waiting: list[_HeldPull] = []
        """The pulls that are held."""
        self.stored_as = int(ResponseCode.SUCCESS)
        """The code that sends are answered with once they are stored."""
        for code, processor in (
            (RequestCode.SEND_MESSAGE_V2, self._send),
            (RequestCode.SEND_BATCH_MESSAGE, self._send),
            (RequestCode.PULL_MESSAGE, self._pull),
            (RequestCode.GET_MAX_OFFSET, self._max_offset),
            (RequestCode.GET_MIN_OFFSET, self._min_offset),
            (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, self._search_offset),
            (RequestCode.QUERY_CONSUMER_OFFSET, self._query_progress),
            (RequestCode.UPDATE_CONSUMER_OFFSET, self._update_progress),
            (RequestCode.HEART_BEAT, self._heartbeat),
            (RequestCode.UNREGISTER_CLIENT, self._unregister),
            (RequestCode.UPDATE_AND_CREATE_TOPIC, self._create_topic),
            (RequestCode.GET_CONSUMER_LIST_BY_GROUP, self._consumer_list),
            (RequestCode.LOCK_BATCH_MQ, self._lock),
            (RequestCode.UNLOCK_BATCH_MQ, self._unlock),
            (RequestCode.CONSUMER_SEND_MSG_BACK, self._send_back),
            (RequestCode.CHECK_CLIENT_CONFIG, self._check_config),
        ):
            self.register(code, processor)

    def put(self, topic: str, queue_id: int, body: bytes, properties: dict[str, str] | None = None) -> MessageExt:
        """Store a message as if a client had sent it, and answer the pulls that wait for it."""
        queue = self.queues[topic, queue_id]
        count = sum(map(len, self.queues.values()))
        message = MessageExt(
            topic=topic,
            body=body,
            properties=properties or {},
            queue_id=queue_id,
            queue_offset=len(queue),
            physical_offset=1000 * count,
            store_timestamp=STORE_TIMESTAMP + 1000 * count,
            store_host=self.address or "127.0.0.1:1",
        )
        queue.append(message)
        for each in [w for w in self.waiting if (w.header.topic, w.header.queue_id) == (topic, queue_id)]:
            self.waiting.remove(each)
            each.connection.reply_deferred(encode_frame(self._answer_pull(each.request, each.header)))
        if self.server is not None:
            self.server.flush_replies()
        return message

    def let_join(self, group: str, *client_ids: str) -> None:
        """Let a group have other members, and notify the client that has asked first."""
        self.other_members = list(client_ids)
        header = NotifyConsumerIdsChangedRequestHeader(group)
        self.peers[0].oneway(make_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, oneway=True))

    def bodies(self, topic: str) -> list[bytes]:
        """The bodies of a topic, queue by queue."""
        return [each.body for key in sorted(self.queues) if key[0] == topic for each in self.queues[key]]

    def messages(self, topic: str) -> list[MessageExt]:
        """The messages of a topic, queue by queue."""
        return [each for key in sorted(self.queues) if key[0] == topic for each in self.queues[key]]

    # ---- processors -----------------------------------------------------------------------------------------------

    def _send(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = read_header(request, SendMessageRequestHeaderV2)
        body = request.body or b""
        if header.batch:
            stored = [
                self.put(header.topic, header.queue_id, item.body, decode_properties(item.properties.decode()))
                for item in decode_batch_body(body)
            ]
        else:
            stored = [self.put(header.topic, header.queue_id, body, decode_properties(header.properties or ""))]
            stored[0].sys_flag = header.sys_flag
        host = encode_host(self.address)
        answer = make_response(
            request,
            self.stored_as,
            header=SendMessageResponseHeader(
                msg_id=",".join(encode_offset_msg_id(host, each.physical_offset) for each in stored),
                queue_id=header.queue_id,
                queue_offset=stored[0].queue_offset,
            ),
        )
        assert answer.ext_fields is not None
        answer.ext_fields |= {"MSG_REGION": "Region1", "TRACE_ON": "true"}
        return answer

    def _pull(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred:
        header = read_header(request, PullMessageRequestHeader)
        answer = self._answer_pull(request, header)
        if answer.code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & PULL_SUSPEND_FLAG:
            self.waiting.append(_HeldPull(connection, request, header))
            return DEFERRED
        return answer

    def _answer_pull(self, request: RemotingCommand, header: PullMessageRequestHeader) -> RemotingCommand:
        queue = self.queues[header.topic, header.queue_id]
        low, high, begin = self._min(header.topic, header.queue_id), len(queue), header.queue_offset
        window = queue[begin : begin + MESSAGES_AT_ONCE_MAX]
        wanted = TagFilter(parse_tag_expression(header.topic, header.subscription))
        found = [each for each in window if wanted.is_matched_by_consume_queue(tags_code(each.tags))]
        if begin < low or begin > high:
            code, following = ResponseCode.PULL_OFFSET_MOVED, low if begin < low else high
        elif begin == high:
            code, following = ResponseCode.PULL_NOT_FOUND, begin
        else:
            code = ResponseCode.SUCCESS if found else ResponseCode.PULL_RETRY_IMMEDIATELY
            following = begin + len(window)
        return make_response(
            request,
            code,
            header=PullMessageResponseHeader(
                suggest_which_broker_id=self.suggested_broker_id,
                next_begin_offset=following,
                min_offset=low,
                max_offset=high,
            ),
            body=b"".join(map(encode_message, found)) if code == ResponseCode.SUCCESS else None,
        )

    def _min(self, topic: str, queue_id: int) -> int:
        return self.min_offsets.get((topic, queue_id), 0)

    def _max_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = read_header(request, GetMaxOffsetRequestHeader)
        found = len(self.queues[header.topic, header.queue_id])
        return make_response(request, header=GetMaxOffsetResponseHeader(found))

    def _min_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = read_header(request, GetMaxOffsetRequestHeader)
        return make_response(request, header=GetMinOffsetResponseHeader(self._min(header.topic, header.queue_id)))

    def _search_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """The nearest message, as RocketMQ: of several of one time not the first."""
        header = read_header(request, SearchOffsetRequestHeader)
        queue = self.queues[header.topic, header.queue_id]
        nearest = min(reversed(queue), key=lambda each: abs(each.store_timestamp - header.timestamp), default=None)
        return make_response(request, header=SearchOffsetResponseHeader(nearest.queue_offset if nearest else 0))

    def _query_progress(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = read_header(request, QueryConsumerOffsetRequestHeader)
        found = self.progress.get((header.consumer_group, header.topic, header.queue_id))
        if found is None:
            raise RequestError(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")
        return make_response(request, header=QueryConsumerOffsetResponseHeader(found))

    def _update_progress(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = read_header(request, UpdateConsumerOffsetRequestHeader)
        self.progress[header.consumer_group, header.topic, header.queue_id] = header.commit_offset
        return make_response(request)

    def _heartbeat(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        heartbeat = decode_body(request.body, HeartbeatData)
        self.heartbeats.append(heartbeat)
        for each in heartbeat.consumer_data_set:
            self._members[each.group_name][heartbeat.client_id] = None
        return make_response(request)

    def _unregister(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = read_header(request, UnregisterClientRequestHeader)
        self._members[header.consumer_group or ""].pop(header.client_id, None)
        return make_response(request)

    def _check_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return make_response(request)

    def _consumer_list(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        group = read_header(request, GetConsumerListByGroupRequestHeader).consumer_group
        body = GetConsumerListByGroupResponseBody([*self._members[group], *self.other_members])
        return make_response(request, body=encode_body(body))

    def _lock(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        asked = decode_body(request.body, LockBatchRequestBody)
        held = [each for each in asked.mq_set if self.locks.setdefault(each, asked.client_id) == asked.client_id]
        return make_response(request, body=encode_body(LockBatchResponseBody(held)))

    def _unlock(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        asked = decode_body(request.body, UnlockBatchRequestBody)
        for each in asked.mq_set:
            if self.locks.get(each) == asked.client_id:
                del self.locks[each]
        return make_response(request)

    def _send_back(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        self.sent_back.append(read_header(request, ConsumerSendMsgBackRequestHeader))
        return make_response(request)

    def _create_topic(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        self.created.append(read_header(request, CreateTopicRequestHeader))
        return make_response(request)


@attrs.define(eq=False)
class FakeCluster:
    """One nameserver and its brokers."""

    name_server: FakeNameServer
    brokers: list[FakeBroker]

    @property
    def address(self) -> str:
        """Where clients begin."""
        return self.name_server.address

    @property
    def broker(self) -> FakeBroker:
        """The first broker."""
        return self.brokers[0]

    def add_topic(self, topic: str, queue_nums: int = 4, *, perm: int = 6) -> None:
        """Let the nameserver know a topic on every broker."""
        self.name_server.routes[topic] = self.route(queue_nums, perm=perm)

    def route(self, queue_nums: int, *, perm: int = 6, brokers: Sequence[FakeBroker] | None = None) -> TopicRouteData:
        """The route of a topic on (some of) the brokers."""
        chosen = self.brokers if brokers is None else brokers
        return TopicRouteData(
            queue_datas=[QueueData(each.name, queue_nums, queue_nums, perm) for each in chosen],
            broker_datas=[BrokerData("cluster", each.name, {0: each.address}) for each in chosen],
        )


@asynccontextmanager
async def open_fake_cluster(
    broker_names: Sequence[str] = ("broker-a",), *, network: SimNetwork | None = None
) -> AsyncIterator[FakeCluster]:
    """Start a nameserver and brokers that know nothing but the template topic, each on a host of its own."""
    cluster = FakeCluster(FakeNameServer(), [FakeBroker(name) for name in broker_names])
    async with trio.open_nursery() as nursery:
        for number, each in enumerate((cluster.name_server, *cluster.brokers)):
            await nursery.start(each.run, None if network is None else network.host(f"10.0.0.{number + 1}"))
        cluster.add_topic("TBW102", 8, perm=7)
        cluster.name_server.cluster_info = ClusterInfo(
            broker_addr_table={
                each.name: BrokerData("cluster", each.name, {0: each.address}) for each in cluster.brokers
            },
            cluster_addr_table={"cluster": list(broker_names)},
        )
        yield cluster
        nursery.cancel_scope.cancel()
