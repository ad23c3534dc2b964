"""Other brokers as a RemotingClient meets them: scripted answers, failures, and the processors of a whole broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import trio

from rocketpy.errors import RemotingConnectError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.group import SubscriptionGroupWrapper
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.bodies.topic import TopicConfigSerializeWrapper
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.offset import (
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketpy.protocol.headers.queue_bounds import GetMaxOffsetRequestHeader, GetMaxOffsetResponseHeader

MASTER = "127.0.0.1:10911"

Answer = Callable[[RemotingCommand], Awaitable[RemotingCommand]]


def body_answer(body: bytes | None, code: int = ResponseCode.SUCCESS, remark: str | None = None) -> Answer:
    """Return a script that answers with a body."""

    async def answer(request: RemotingCommand) -> RemotingCommand:
        return make_response(request, code, remark, body=body)

    return answer


@attrs.define(eq=False)
class ScriptedBroker:
    """A broker with tables of plain values; ``scripts`` replace the answers of single codes.

    It is asked at one address, and any other is not reachable.
    """

    address: str = MASTER
    groups: SubscriptionGroupWrapper = attrs.field(factory=SubscriptionGroupWrapper)
    topics: TopicConfigSerializeWrapper = attrs.field(factory=TopicConfigSerializeWrapper)
    offsets: dict[str, dict[int, int]] = attrs.field(factory=dict)
    committed: dict[str, dict[int, int]] = attrs.field(factory=dict)
    delay_offsets: dict[int, int] = attrs.field(factory=dict)
    queue_ends: dict[tuple[str, int], int] = attrs.field(factory=dict)
    run: int = 1
    log_end: int = 0
    is_down: bool = False
    scripts: dict[int, Answer] = attrs.field(factory=dict)
    asked: list[RemotingCommand] = attrs.field(factory=list)

    @property
    def codes(self) -> list[int]:
        """The codes of all requests so far."""
        return [request.code for request in self.asked]

    async def request(self, address: str, request: RemotingCommand, timeout_s: float) -> RemotingCommand:
        """Answer as a RemotingClient that has sent the request."""
        await trio.lowlevel.checkpoint()
        if address != self.address or self.is_down:
            raise RemotingConnectError(f"{address}: refused")
        self.asked.append(request)
        script = self.scripts.get(request.code)
        return await script(request) if script is not None else self._answer(request)

    def _answer(self, request: RemotingCommand) -> RemotingCommand:
        if request.code == RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG:
            return make_response(request, body=encode_body(self.groups))
        if request.code == RequestCode.GET_ALL_TOPIC_CONFIG:
            return make_response(request, body=encode_body(self.topics))
        if request.code == RequestCode.GET_ALL_CONSUMER_OFFSET:
            parts = [_integer_keyed("committedOffsets", self.committed)] if self.committed else []
            parts.append(_integer_keyed("offsetTable", self.offsets))
            return make_response(request, body=b"{%b}" % b",".join(parts))
        if request.code == RequestCode.GET_ALL_DELAY_OFFSET:
            return make_response(request, body=b'{"offsetTable":%b}' % _bare(self.delay_offsets))
        if request.code == RequestCode.GET_BROKER_RUNTIME_INFO:
            figures = {"bootTimestamp": str(self.run), "commitLogMaxOffset": str(self.log_end)}
            return make_response(request, body=encode_body(KVTable(figures)))
        if request.code == RequestCode.GET_MAX_OFFSET:
            asked = read_header(request, GetMaxOffsetRequestHeader)
            end = self.queue_ends.get((asked.topic, asked.queue_id), 1 << 40)
            return make_response(request, header=GetMaxOffsetResponseHeader(end))
        return self._answer_about_a_group(request)

    def _answer_about_a_group(self, request: RemotingCommand) -> RemotingCommand:
        if request.code == RequestCode.QUERY_CONSUMER_OFFSET:
            query = read_header(request, QueryConsumerOffsetRequestHeader)
            offset = self.offsets.get(f"{query.topic}@{query.consumer_group}", {}).get(query.queue_id)
            if offset is None:
                return make_response(request, ResponseCode.QUERY_NOT_FOUND, "Not found")
            return make_response(request, header=QueryConsumerOffsetResponseHeader(offset))
        assert request.code == RequestCode.UPDATE_CONSUMER_OFFSET, request
        commit = read_header(request, UpdateConsumerOffsetRequestHeader)
        of_group = self.offsets.setdefault(f"{commit.topic}@{commit.consumer_group}", {})
        of_group[commit.queue_id] = commit.commit_offset
        return make_response(request)


def _integer_keyed(name: str, table: dict[str, dict[int, int]]) -> bytes:
    """Return a table as fastjson writes it, a member of an object."""
    entries = b",".join(b'"%b":%b' % (key.encode(), _bare(offsets)) for key, offsets in table.items())
    return b'"%b":{%b}' % (name.encode(), entries)


def _bare(offsets: dict[int, int]) -> bytes:
    return b"{%b}" % b",".join(b"%d:%d" % each for each in offsets.items())
