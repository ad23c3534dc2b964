"""QUERY_CONSUME_QUEUE: the units of a queue as ``mqadmin queryCq`` shows them, with a group's filter results.

Compatibility: ``AdminBrokerProcessor.queryConsumeQueue`` (4.9.8). One response has at most UNITS_MAX
units, and a negative number is refused; in RocketMQ the end of a file is the only limit.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable

import attrs

from rocketpy.broker.acl.needs import STRICT_SUB_TOPIC_AND_GROUP
from rocketpy.broker.clients.consumers import ConsumerManager
from rocketpy.broker.request_body import check_range
from rocketpy.errors import RequestError
from rocketpy.protocol import fastjson
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.bodies.queue import ConsumeQueueData, QueryConsumeQueueResponseBody
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.query import QueryConsumeQueueRequestHeader
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.message_store import MessageStore
from rocketpy.store.queue.extension import CqExtUnit, is_ext_address
from rocketpy.store.results import ListedUnit, MessageFilter

UNITS_MAX = 4096
"""Bound of the units in one response, whatever count the request has."""

FilterOf = Callable[[str, SubscriptionData], "tuple[MessageFilter, str]"]
"""Returns a group's message filter for a subscription, and the broker's filter entry as pretty JSON."""


@attrs.define(eq=False, kw_only=True)
class AdminQueueProcessor:
    """Serves QUERY_CONSUME_QUEUE. One per broker."""

    _consumer_manager: ConsumerManager
    _store: MessageStore
    _filter_of: FilterOf

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request code."""
        dispatcher.register_task(
            RequestCode.QUERY_CONSUME_QUEUE, self.process_query_consume_queue, needs=STRICT_SUB_TOPIC_AND_GROUP
        )

    async def process_query_consume_queue(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return units of a queue from an index on, up to the end of their file, and a group's subscription."""
        header = read_header(request, QueryConsumeQueueRequestHeader)
        check_range(header, "queueId", header.queue_id, 0)
        if not header.topic.strip():
            raise RequestError(ResponseCode.SYSTEM_ERROR, "topic is blank, expected a topic of this broker")
        check_range(header, "index", header.index, 0)
        check_range(header, "count", header.count, 0)
        topic, queue_id = header.topic, header.queue_id
        count = min(header.count, UNITS_MAX)
        listing = await self._store.list_units(topic, queue_id, header.index, count)
        if listing is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        if not listing.min_offset <= header.index < listing.max_offset:
            return make_response(request, remark=f"Index {header.index} of {queue_id}@{topic} is not exist!")
        subscription, filter_text, message_filter = self._filter(header.consumer_group, topic)
        body = QueryConsumeQueueResponseBody(
            subscription_data=subscription,
            filter_data=filter_text,
            queue_data=[_shown(unit, message_filter) for unit in listing.units],
            max_queue_index=listing.max_offset,
            min_queue_index=listing.min_offset,
        )
        return make_response(request, body=encode_body(body))

    def _filter(
        self, group: str | None, topic: str
    ) -> tuple[SubscriptionData | None, str | None, MessageFilter | None]:
        """Return a group's subscription, its filter as text and its filter; None for each without a group."""
        if group is None:
            return None, None, None
        subscription = self._consumer_manager.find_subscription_data(group, topic)
        if subscription is None:
            return None, f"{group}@{topic} is not online!", None
        message_filter, text = self._filter_of(group, subscription)
        return subscription, text, message_filter


def _shown(unit: ListedUnit, message_filter: MessageFilter | None) -> ConsumeQueueData:
    """Return a unit as the tool prints it. As in RocketMQ, only units with an extension are filtered."""
    plain = ConsumeQueueData(physic_offset=unit.physical_offset, physic_size=unit.size, tags_code=unit.tags_code)
    if not is_ext_address(unit.tags_code):
        return plain
    if unit.ext is None:
        return ConsumeQueueData(
            physic_offset=unit.physical_offset,
            physic_size=unit.size,
            tags_code=unit.tags_code,
            msg=f"Cq extend not exist!addr: {unit.tags_code}",
        )
    matched = message_filter is not None and message_filter.is_matched_by_consume_queue(unit.ext.tags_code, unit.ext)
    return ConsumeQueueData(
        physic_offset=unit.physical_offset,
        physic_size=unit.size,
        tags_code=unit.tags_code,
        extend_data_json=_ext_json(unit.ext),
        bit_map=_bits(unit.ext.bit_map) if unit.ext.bit_map else None,
        eval=matched,
    )


def _ext_json(unit: CqExtUnit) -> str:
    """Encode an extension unit byte for byte as fastjson does: keys sorted by name, bytes in Base64."""
    fields: dict[str, object] = {}
    if unit.bit_map:
        fields["filterBitMap"] = b64encode(unit.bit_map).decode()
    fields |= {"msgStoreTime": unit.store_timestamp_ms, "size": unit.size, "tagsCode": unit.tags_code}
    return fastjson.dumps(fields)


def _bits(bit_map: bytes) -> str:
    """Return a bit map as RocketMQ prints it: the highest byte first, a newline after every eight bytes.

    >>> _bits(bytes([1, 128]))
    '1000000000000001\\n'
    """
    lines = []
    for at in range(len(bit_map) - 1, -1, -1):
        lines.append(f"{bit_map[at]:08b}" + ("\n" if at % 8 == 0 else ""))
    return "".join(lines)
