"""Requests that compare or copy the offsets of groups.

Compatibility: ``AdminBrokerProcessor`` and ``ConsumerOffsetManager`` (4.9.8). Two faults of
RocketMQ are not copied. QUERY_CORRECTION_OFFSET ignores the filtered groups (RocketMQ deletes their offsets in every
topic) and compares with the group named (RocketMQ looks it up under swapped names and finds nothing).
CLONE_GROUP_OFFSET without a topic copies every topic (RocketMQ copies none).
"""

from __future__ import annotations

import attrs

from rocketpy.broker.acl.needs import STRICT_ADMIN
from rocketpy.broker.clients.consumers import ConsumerManager
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.broker.request_body import check_name
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.offset import QueryCorrectionOffsetBody
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.admin import CloneGroupOffsetRequestHeader, QueryCorrectionOffsetHeader
from rocketpy.protocol.headers.codec import read_header
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.message_store import MessageStore

NO_CORRECTION = (1 << 63) - 1
"""Response for a queue in which the compared group is not ahead of the others."""


@attrs.define(eq=False, kw_only=True)
class AdminGroupOffsetProcessor:
    """Serves QUERY_CORRECTION_OFFSET and CLONE_GROUP_OFFSET. One per broker."""

    _topic_config_manager: TopicConfigManager
    _consumer_manager: ConsumerManager
    _consumer_offset_manager: ConsumerOffsetManager
    _store: MessageStore

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes."""
        dispatcher.register(
            RequestCode.QUERY_CORRECTION_OFFSET, self.process_query_correction_offset, needs=STRICT_ADMIN
        )
        dispatcher.register(RequestCode.CLONE_GROUP_OFFSET, self.process_clone_group_offset, needs=STRICT_ADMIN)

    def process_query_correction_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return, for each queue, the smallest offset of all groups, or a no-op value if the group is not ahead."""
        header = read_header(request, QueryCorrectionOffsetHeader)
        left_out = frozenset(filter(None, (header.filter_groups or "").split(",")))
        corrections = self._min_offsets(header.topic, left_out)
        compared = self._consumer_offset_manager.offsets_of(header.compare_group, header.topic)
        for queue_id, offset in compared.items():
            if corrections.get(queue_id, NO_CORRECTION) > offset:
                corrections[queue_id] = NO_CORRECTION
        return make_response(request, body=encode_body(QueryCorrectionOffsetBody(correction_offsets=corrections)))

    def process_clone_group_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Copy the offsets of one group to another, in one topic or in all topics where the source has offsets.

        Unless the header says that the group is offline, topics that the source no longer subscribes to are skipped.
        """
        header = read_header(request, CloneGroupOffsetRequestHeader)
        check_name(header, "srcGroup", header.src_group)
        check_name(header, "destGroup", header.dest_group)
        topics = self._consumer_offset_manager.which_topic_by_consumer(header.src_group)
        if header.topic and header.topic.strip():
            topics = [header.topic]
        online = self._consumer_manager.get_consumer_group_info(header.src_group)
        for topic in topics:
            is_foreign = online is not None and online.subscription_table and topic not in online.subscription_table
            is_known = self._topic_config_manager.select_topic_config(topic) is not None
            if is_known and (header.offline or not is_foreign):
                self._consumer_offset_manager.clone_offset(header.src_group, header.dest_group, topic)
        return make_response(request)

    def _min_offsets(self, topic: str, left_out: frozenset[str]) -> dict[int, int]:
        """Return the smallest offset of all groups in each queue, ignoring offsets below the queue's min offset."""
        smallest: dict[int, int] = {}
        for group in self._consumer_offset_manager.which_group_by_topic(topic):
            if group in left_out:
                continue
            for queue_id, offset in self._consumer_offset_manager.offsets_of(group, topic).items():
                if offset >= self._store.min_offset_in_queue(topic, queue_id):
                    smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
        return smallest
