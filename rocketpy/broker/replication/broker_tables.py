"""Requests for the tables of another broker of the same name: what a slave asks its master, and a master its slaves.

An answer is decoded and checked as a whole. One that is malformed, or that no broker gives, is refused with a
RemoteProtocolError, and nothing is taken from it. Its size is bounded by the longest frame; large ones are decoded in a
worker thread.

Compatibility: ``BrokerOuterAPI`` (4.9.8). RocketMQ's slave asks for topics at its master's port - 2, the VIP port; the
main port answers too, and there is always one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs

from rocketpy.broker.delay.offsets import DelayProgress, decode_delay_progress
from rocketpy.broker.metadata.deleted_topics import DELETED_TOPICS_MAX
from rocketpy.broker.metadata.offsets import decode_offset_table, offsets_in, split_key
from rocketpy.broker.metadata.topics import PERM_BITS, QUEUE_NUMS_MAX
from rocketpy.broker.replication.signed_requests import Requests
from rocketpy.errors import BrokerError, RemoteProtocolError, RequestError
from rocketpy.protocol import fastjson
from rocketpy.protocol.bodies.codec import decode_peer_body
from rocketpy.protocol.bodies.group import SubscriptionGroupWrapper
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.bodies.topic import ReplicatedTopics
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.offset import (
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
    UpdateConsumerOffsetResponseHeader,
)
from rocketpy.protocol.headers.queue_bounds import GetMaxOffsetRequestHeader, GetMaxOffsetResponseHeader
from rocketpy.protocol.topic_name import may_be_in_table, topic_name_fault
from rocketpy.runner import ON_LOOP_BYTES_MAX, RunBlocking, run_decoder
from rocketpy.store.ha.log_mark import LogMark

REQUEST_SECONDS = 3.0
"""Time for one answer, connecting included; RocketMQ's 3000 ms."""

_INT64 = range(-(1 << 63), 1 << 63)
_INT32 = range(1 << 31)

BodyT = TypeVar("BodyT")
HeaderT = TypeVar("HeaderT")


@attrs.frozen
class MasterState:
    """Figures of a running broker; None where it does not tell them."""

    run: int | None  # its bootTimestamp, which is another one after each start
    log_end: int | None  # a physical offset


@attrs.frozen
class SlaveOffsets:
    """Consumer offsets of a slave, by ``topic@group`` and queue id."""

    table: dict[str, dict[int, int]]  # all
    committed: dict[str, dict[int, int]]  # those that clients have committed to it; none of a slave of RocketMQ


@attrs.define(eq=False)
class BrokerTables:
    """Asks other brokers.

    Every method raises RemotingError without an answer, BrokerError for a refusal, and RemoteProtocolError for an
    answer that is not taken.
    """

    _client: Requests
    _run_blocking: RunBlocking

    async def groups(self, address: str) -> SubscriptionGroupWrapper:
        """Return all consumer groups (201)."""
        return await self._table(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, _decode_groups)

    async def topics(self, address: str) -> ReplicatedTopics:
        """Return all topics, and those that were deleted (21)."""
        return await self._table(address, RequestCode.GET_ALL_TOPIC_CONFIG, _decode_topics)

    async def consumer_offsets(self, address: str) -> dict[str, dict[int, int]]:
        """Return all consumer offsets (43) by ``topic@group`` and queue id, less negative ones, which are none,
        and those that are no group's."""
        return await self._table(address, RequestCode.GET_ALL_CONSUMER_OFFSET, _decode_offsets)

    async def slave_offsets(self, address: str) -> SlaveOffsets:
        """Return all consumer offsets of a slave (43)."""
        return await self._table(address, RequestCode.GET_ALL_CONSUMER_OFFSET, _decode_slave_offsets)

    async def delay_offsets(self, address: str) -> DelayProgress:
        """Return the next queue offset of each delay level (45)."""
        return await self._table(address, RequestCode.GET_ALL_DELAY_OFFSET, _decode_delay_offsets)

    async def state(self, address: str) -> MasterState:
        """Return when the broker was started, and where its log ends (28)."""
        answer = await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        table = decode_peer_body(answer.body, KVTable, bytes_max=ON_LOOP_BYTES_MAX).table
        return MasterState(_figure(table.get("bootTimestamp")), _figure(table.get("commitLogMaxOffset")))

    async def consumer_offset(self, address: str, group: str, topic: str, queue_id: int) -> int:
        """Return a group's offset (14), -1 for none."""
        header = QueryConsumerOffsetRequestHeader(consumer_group=group, topic=topic, queue_id=queue_id)
        try:
            answer = await self._ask(address, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except BrokerError as refusal:
            if refusal.response_code == ResponseCode.QUERY_NOT_FOUND:
                return -1
            raise
        return _header_of(answer, QueryConsumerOffsetResponseHeader).offset

    async def max_offset(self, address: str, topic: str, queue_id: int) -> int:
        """Return the end of a queue (30), 0 for one that does not exist."""
        header = GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
        return _header_of(
            await self._ask(address, RequestCode.GET_MAX_OFFSET, header), GetMaxOffsetResponseHeader
        ).offset

    async def commit(
        self, address: str, group: str, topic: str, queue_id: int, consumer_offset: int, *, ago_ms: int | None
    ) -> bool:
        """Bring a group's offset home (15), which a client has committed here so long ago; return whether it counts.

        A master of rocketpy does not take one that a reset has revoked.
        """
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=group,
            topic=topic,
            queue_id=queue_id,
            commit_offset=consumer_offset,
            is_brought_home=True,
            committed_ago=ago_ms,
        )
        answer = await self._ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)
        return not _header_of(answer, UpdateConsumerOffsetResponseHeader).is_revoked

    # ---- private --------------------------------------------------------------------------------------------------

    async def _table(self, address: str, code: RequestCode, decode: Callable[[bytes], BodyT]) -> BodyT:
        body = (await self._ask(address, code)).body
        if not body:
            raise RemoteProtocolError(f"{code.name}: expected a body, found none")
        return await run_decoder(decode, body, self._run_blocking)

    async def _ask(self, address: str, code: RequestCode, header: object | None = None) -> RemotingCommand:
        request = make_request(code, header)
        answer = await self._client.request(address, request, REQUEST_SECONDS)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark, address)
        return answer


def _decode_groups(body: bytes) -> SubscriptionGroupWrapper:
    wrapper = decode_peer_body(body, SubscriptionGroupWrapper)
    for name, group in wrapper.subscription_group_table.items():
        if not name.strip() or name != group.group_name:
            raise RemoteProtocolError(f"group {name[:64]!r}: expected a name and its settings, found {group}")
        _check(group.retry_queue_nums, QUEUE_NUMS_MAX, f"group {name}: retryQueueNums")
        _check(group.broker_id, _INT64[-1], f"group {name}: brokerId")
        _check(group.which_broker_when_consume_slowly, _INT64[-1], f"group {name}: whichBrokerWhenConsumeSlowly")
    return wrapper


def marks_of(topics: ReplicatedTopics) -> dict[str, LogMark]:
    """Return the marks of deleted topics; RemoteProtocolError if one cannot be a mark."""
    deleted = topics.deleted_topics
    if len(deleted) > DELETED_TOPICS_MAX:
        raise RemoteProtocolError(f"deletedTopics: expected at most {DELETED_TOPICS_MAX}, found {len(deleted)}")
    return {
        topic: LogMark.checked(mark.offset, mark.size, mark.digest, f"deletedTopics: {topic[:128]}")
        for topic, mark in deleted.items()
    }


def _decode_topics(body: bytes) -> ReplicatedTopics:
    wrapper = decode_peer_body(body, ReplicatedTopics)
    for name in wrapper.deleted_topics:
        fault = topic_name_fault(name)
        if fault is not None:
            raise RemoteProtocolError(f"deletedTopics: {name[:64]!r}: {fault}")
    marks_of(wrapper)
    for name, topic in wrapper.topic_config_table.items():
        if not may_be_in_table(name) or name != topic.topic_name:
            raise RemoteProtocolError(f"topic {name[:64]!r}: expected a name and its settings, found {topic}")
        _check(topic.read_queue_nums, QUEUE_NUMS_MAX, f"topic {name}: readQueueNums")
        _check(topic.write_queue_nums, QUEUE_NUMS_MAX, f"topic {name}: writeQueueNums")
        _check(topic.perm, PERM_BITS, f"topic {name}: perm")
    return wrapper


def _decode_slave_offsets(body: bytes) -> SlaveOffsets:
    content = fastjson.loads_integer_keys(body)
    table = _offsets_of(content)
    committed = content.get("committedOffsets") if isinstance(content, dict) else None
    return SlaveOffsets(table, {} if committed is None else offsets_in(committed, "committedOffsets"))


def _decode_offsets(body: bytes) -> dict[str, dict[int, int]]:
    return _offsets_of(fastjson.loads_integer_keys(body))


def _offsets_of(content: object) -> dict[str, dict[int, int]]:
    table = decode_offset_table(content)
    for key, offsets in list(table.items()):
        if not all(split_key(key)):  # any client may commit that; it is no group's, and not a reason to take nothing
            del table[key]
            continue
        if not all(queue_id in _INT32 and offset in _INT64 for queue_id, offset in offsets.items()):
            raise RemoteProtocolError(f"offsetTable: expected queue ids and offsets of {key[:64]!r}, found others")
        if min(offsets.values(), default=0) < 0:
            table[key] = {queue_id: offset for queue_id, offset in offsets.items() if offset >= 0}
    return table


def _decode_delay_offsets(body: bytes) -> DelayProgress:
    return DelayProgress(decode_delay_progress(fastjson.loads_integer_keys(body)).offsets)


def _check(value: int, value_max: int, what: str) -> None:
    if not 0 <= value <= value_max:
        raise RemoteProtocolError(f"{what}: expected 0 to {value_max}, found {value}")


def _figure(text: str | None) -> int | None:
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) < 20
    return int(text or "") if is_number else None


def _header_of(answer: RemotingCommand, header_class: type[HeaderT]) -> HeaderT:
    try:
        return read_header(answer, header_class)
    except RequestError as failure:
        raise RemoteProtocolError(failure.remark) from failure
