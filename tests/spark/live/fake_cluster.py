"""A nameserver and brokers in one process, with one topic ``T``, that answer as a test wants."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs

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
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
)
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import encode_message

Answer = Callable[[RemotingCommand], "RemotingCommand | bytes | None"]


@contextmanager
def served(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve on loopback, each connection in a thread; ``None`` closes a connection. Yields the address."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if tls is None:
                self.serve(self.request)
                return
            try:
                connection = tls.wrap_socket(self.request, server_side=True)
            except OSError:  # the client does not trust this server
                return
            with connection:
                self.serve(connection)

        def serve(self, connection: socket.socket) -> None:
            reader = FrameReader()
            while received := connection.recv(65536):
                reader.receive(received)
                while (frame := reader.next_frame()) is not None:
                    reply = answer(decode_command(*frame))
                    if reply is None:
                        return
                    connection.sendall(reply if isinstance(reply, bytes) else encode_frame(reply))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(10)


def record(queue_id: int, queue_offset: int, store_timestamp: int = 2) -> bytes:
    """Return a record whose body names queue and offset."""
    return encode_message(
        MessageExt(
            topic="T",
            body=f"{queue_id}/{queue_offset}".encode(),
            properties={"TAGS": "even" if queue_offset % 2 == 0 else "odd"},
            queue_id=queue_id,
            queue_offset=queue_offset,
            physical_offset=queue_id * 1_000_000 + queue_offset,
            born_timestamp=1,
            born_host="10.0.0.1:5000",
            store_timestamp=store_timestamp,
            store_host="10.0.0.2:10911",
        )
    )


@attrs.define
class FakeBroker:
    """Queues of topic ``T`` on one broker: per queue its bounds, and when its messages were stored."""

    queues: dict[int, tuple[int, int]]
    messages_max: Callable[[int], int] = attrs.field(default=lambda _: 3)  # of one answer, by its first offset
    stored_at: Callable[[int], int] = attrs.field(default=lambda _: 2)
    nearest: Callable[[int], int] = attrs.field(default=lambda _: 0)  # what a search by time answers
    empty_answers_at: set[int] = attrs.field(factory=set)  # one PULL_RETRY_IMMEDIATELY without messages each
    jumps: dict[int, int] = attrs.field(factory=dict)  # an answer without messages that goes on there
    is_stuck: bool = False
    refusal: ResponseCode | None = None
    pulls: list[PullMessageRequestHeader] = attrs.field(factory=list)

    def answer(self, request: RemotingCommand) -> RemotingCommand:
        """Answer one request."""
        match request.code:
            case RequestCode.GET_MIN_OFFSET:
                queue_id = read_header(request, GetMinOffsetRequestHeader).queue_id
                return make_response(request, header=GetMinOffsetResponseHeader(offset=self.queues[queue_id][0]))
            case RequestCode.GET_MAX_OFFSET:
                queue_id = read_header(request, GetMaxOffsetRequestHeader).queue_id
                return make_response(request, header=GetMaxOffsetResponseHeader(offset=self.queues[queue_id][1]))
            case RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
                time = read_header(request, SearchOffsetRequestHeader).timestamp
                return make_response(request, header=SearchOffsetResponseHeader(self.nearest(time)))
        assert request.code == RequestCode.PULL_MESSAGE
        return self._pull(request)

    def _pull(self, request: RemotingCommand) -> RemotingCommand:
        header = read_header(request, PullMessageRequestHeader)
        self.pulls.append(header)
        if self.refusal is not None:
            return make_response(request, self.refusal, "refused")
        least, most = self.queues[header.queue_id]
        start = header.queue_offset
        if start < least or start > most:
            to = least if start < least else most
            return self._answered(request, ResponseCode.PULL_OFFSET_MOVED, to, least, most)
        if self.is_stuck or start == most:
            return self._answered(request, ResponseCode.PULL_NOT_FOUND, start, least, most)
        if start in self.empty_answers_at:
            return self._answered(request, ResponseCode.PULL_RETRY_IMMEDIATELY, start + 1, least, most)
        if start in self.jumps:
            return self._answered(request, ResponseCode.PULL_RETRY_IMMEDIATELY, self.jumps[start], least, most)
        wanted = {"even": [0], "odd": [1]}.get(header.subscription or "*", [0, 1])
        count = min(header.max_msg_nums, self.messages_max(start))
        body = b""
        while start < most and count and start not in self.empty_answers_at:
            if start % 2 in wanted:
                body += record(header.queue_id, start, self.stored_at(start))
                count -= 1
            start += 1
        return self._answered(request, ResponseCode.SUCCESS, start, least, most, body)

    @staticmethod
    def _answered(
        request: RemotingCommand, code: ResponseCode, next_offset: int, least: int, most: int, body: bytes | None = None
    ) -> RemotingCommand:
        header = PullMessageResponseHeader(
            suggest_which_broker_id=0, next_begin_offset=next_offset, min_offset=least, max_offset=most
        )
        return make_response(request, code, header=header, body=body)


@attrs.define
class FakeNameServer:
    """Knows topic ``T`` on broker ``b``."""

    addresses: dict[int, str]
    queues: int
    perm: int = 6

    def answer(self, request: RemotingCommand) -> RemotingCommand:
        """Answer a query for a route."""
        assert request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
        if read_header(request, GetRouteInfoRequestHeader).topic != "T":
            return make_response(request, ResponseCode.TOPIC_NOT_EXIST, "no route")
        queue_data = QueueData("b", self.queues, self.queues, self.perm, 0)
        route = TopicRouteData(
            queue_datas=[queue_data],
            broker_datas=[BrokerData(cluster="c", broker_name="b", broker_addrs=self.addresses)],
        )
        return make_response(request, body=encode_body(route))
