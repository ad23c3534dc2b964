"""HEART_BEAT, UNREGISTER_CLIENT and CHECK_CLIENT_CONFIG: clients that are online, and their subscriptions.

The memory that heartbeats take is bounded, per connection and in total, and so is each subscription. A group beyond a
bound is left out: the other groups of the heartbeat are registered, and the response names the reason.

Compatibility: ``ClientManageProcessor`` (4.9.8). A heartbeat with a group that cannot have a valid retry
topic is refused as a whole, where Java creates a topic that accepts no sends. Java has no bounds.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from rocketpy.broker.acl.needs import ANY_ACCOUNT, HEARTBEAT, SUB_GROUP
from rocketpy.broker.acl.strict_accounts import StrictAccounts
from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.broker.clients.consumers import ConsumerManager, kept_bytes
from rocketpy.broker.clients.producers import MEMBER_BYTES, ProducerManager
from rocketpy.broker.clients.queue_locks import RebalanceLockManager
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.groups import SubscriptionGroupManager
from rocketpy.broker.metadata.topic_names import check_topic_name
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.broker.pull.checks import not_supported
from rocketpy.broker.pull.filters import compile_expression, is_tag_type
from rocketpy.broker.request_body import check_name, check_range, read_body
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.heartbeat import CheckClientRequestBody, ConsumerData, HeartbeatData
from rocketpy.protocol.codes import PERM_READ_WRITE, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.client import UnregisterClientRequestHeader, UnregisterClientResponseHeader
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.selector.sql92_errors import SelectorError
from rocketpy.protocol.selector.tag import EXPRESSION_SIZE_MAX, TAGS_MAX
from rocketpy.protocol.sysflag import TOPIC_UNIT_SUB_FLAG
from rocketpy.protocol.topic_name import LMQ_PREFIX, RETRY_PREFIX, TOPIC_LENGTH_MAX
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher

GROUPS_OF_CLIENT_MAX = 1000
"""Limit for the producer groups, and for the consumer groups, of one connection."""

GROUPS_CREATED_MAX = 200
"""Groups that one heartbeat creates; the next one, half a minute later, creates the others."""

SUBSCRIPTIONS_MAX = 10_000
"""Limit for the topics to which one group subscribes."""


@attrs.define(eq=False, kw_only=True)
class ClientManageProcessor:
    """Processor of the three codes. One per broker.

    ``group_changed`` schedules a notification of the members of a group; ``current_time`` is a clock in seconds that
    never steps.
    """

    _config: BrokerConfig
    _topic_config_manager: TopicConfigManager
    _subscription_group_manager: SubscriptionGroupManager
    _consumer_manager: ConsumerManager
    _producer_manager: ProducerManager
    _rebalance_lock_manager: RebalanceLockManager
    _group_changed: Callable[[str], None]
    _accounts: StrictAccounts
    _current_time: Callable[[], float]

    def register(self, dispatcher: Dispatcher) -> None:
        """Register for the codes."""
        dispatcher.register(RequestCode.HEART_BEAT, self.process_heart_beat, needs=HEARTBEAT)
        dispatcher.register(RequestCode.UNREGISTER_CLIENT, self.process_unregister_client, needs=SUB_GROUP)
        dispatcher.register(RequestCode.CHECK_CLIENT_CONFIG, self.process_check_client_config, needs=ANY_ACCOUNT)

    def process_heart_beat(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Register the client's groups and subscriptions; members of changed groups are notified."""
        heartbeat = read_body(request, HeartbeatData, self._config.client_body_bytes_max)
        client_id = check_name(heartbeat, "clientID", heartbeat.client_id)
        for consumer in heartbeat.consumer_data_set:
            check_topic_name(RETRY_PREFIX + check_name(consumer, "groupName", consumer.group_name))
            check_range(consumer, "subscriptionDataSet", len(consumer.subscription_data_set), 0, SUBSCRIPTIONS_MAX)
        for producer in heartbeat.producer_data_set:
            check_name(producer, "groupName", producer.group_name)
        self._check_group_count(connection, heartbeat)
        access_key = self._accounts.access_key(connection, request)
        client = ClientChannelInfo(
            connection, client_id, request.language, request.version, self._current_time(), access_key
        )
        faults, created_count = [], 0
        groups = self._subscription_group_manager.subscription_group_table.keys()
        for consumer in heartbeat.consumer_data_set:
            group = consumer.group_name
            created_count += group not in groups and not group.startswith(LMQ_PREFIX)
            fault = _subscription_fault(consumer)
            if fault is None:
                fault = self._room_fault(connection, kept_bytes(consumer), beside=consumer.group_name)
            if fault is None:
                self._register_consumer(client, consumer, may_create=created_count <= GROUPS_CREATED_MAX)
            else:
                faults.append(f"group {consumer.group_name} is not taken: {fault}")
        known = self._producer_manager.groups_of(connection)
        for producer in heartbeat.producer_data_set:
            fault = None if producer.group_name in known else self._room_fault(connection, MEMBER_BYTES)
            if fault is None:
                self._producer_manager.register_producer(producer.group_name, client)
            else:
                faults.append(f"producer group {producer.group_name} is not taken: {fault}")
        if faults:
            more = f", and {len(faults) - 1} groups more" if len(faults) > 1 else ""
            raise RequestError(ResponseCode.SYSTEM_ERROR, faults[0] + more)
        return make_response(request)

    def process_unregister_client(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Remove the connection from a producer group, a consumer group or both; a member's locks are released."""
        header = read_header(request, UnregisterClientRequestHeader)
        if header.producer_group:
            self._producer_manager.unregister_producer(header.producer_group, connection)
        if header.consumer_group:
            has_left = self._consumer_manager.unregister_consumer(header.consumer_group, connection)
            if has_left and not header.keep_locks:  # before the others are notified: they ask for the queues at once
                self._rebalance_lock_manager.unlock_all(header.consumer_group, header.client_id)
            if has_left and self._may_notify(header.consumer_group):
                self._group_changed(header.consumer_group)
        return make_response(request, header=UnregisterClientResponseHeader())

    def process_check_client_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Check for a consumer that starts whether the broker supports its selector."""
        if not request.body:
            return make_response(request)
        body = read_body(request, CheckClientRequestBody, self._config.client_body_bytes_max)
        subscription = body.subscription_data
        if subscription is None or is_tag_type(subscription.expression_type):
            return make_response(request)
        if not self._config.enable_property_filter:
            raise RequestError(ResponseCode.SYSTEM_ERROR, not_supported(subscription.expression_type))
        try:
            compile_expression(subscription.expression_type, subscription.sub_string)
        except SelectorError as failure:
            raise RequestError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(failure)) from failure
        return make_response(request)

    # ---- private --------------------------------------------------------------------------------------------------

    def _check_group_count(self, connection: Connection, heartbeat: HeartbeatData) -> None:
        """Refuse a heartbeat that would put a connection into more than GROUPS_OF_CLIENT_MAX groups."""
        consumers = self._consumer_manager.groups_of(connection).union(
            each.group_name for each in heartbeat.consumer_data_set
        )
        check_range(heartbeat, "consumerDataSet", len(consumers), 0, GROUPS_OF_CLIENT_MAX)
        producers = self._producer_manager.groups_of(connection).union(
            each.group_name for each in heartbeat.producer_data_set
        )
        check_range(heartbeat, "producerDataSet", len(producers), 0, GROUPS_OF_CLIENT_MAX)

    def _room_fault(self, connection: Connection, size: int, *, beside: str = "") -> str | None:
        """Return which bound ``size`` bytes exceed, or None; the memory of group ``beside`` is replaced by them."""
        config, consumers, producers = self._config, self._consumer_manager, self._producer_manager
        more = size - consumers.kept_bytes_of(connection, beside)
        if more <= 0:
            return None
        of_connection = consumers.kept_bytes_of(connection) + producers.kept_bytes_of(connection) + more
        if of_connection > config.connection_client_bytes_max:
            return f"{of_connection} bytes to keep of one connection, see connectionClientBytesMax"
        of_all = consumers.kept_bytes + producers.kept_bytes + more
        if of_all > config.client_bytes_max:
            return f"{of_all} bytes to keep of all clients, see clientBytesMax"
        return None

    def _register_consumer(self, client: ClientChannelInfo, consumer: ConsumerData, *, may_create: bool) -> None:
        group = consumer.group_name
        groups = self._subscription_group_manager
        group_config = groups.subscription_group_table.get(group)
        if group_config is None and may_create:
            group_config = groups.find_subscription_group_config(group)
        if group_config is not None:
            self._topic_config_manager.create_topic_in_send_message_back_method(
                RETRY_PREFIX + group,
                group_config.retry_queue_nums,
                PERM_READ_WRITE,
                TOPIC_UNIT_SUB_FLAG if consumer.unit_mode else 0,
            )
        has_changed = self._consumer_manager.register_consumer(client, consumer)
        if has_changed and self._may_notify(group):
            self._group_changed(group)

    def _may_notify(self, group: str) -> bool:
        group_config = self._subscription_group_manager.subscription_group_table.get(group)
        is_wanted = group_config is None or group_config.notify_consumer_ids_changed_enable
        return is_wanted and self._config.notify_consumer_ids_changed_enable


def _subscription_fault(consumer: ConsumerData) -> str | None:
    """Return which field of a group's subscriptions is too large, or None."""
    for each in consumer.subscription_data_set:
        for field, size, size_max in (
            ("topic", len(each.topic), TOPIC_LENGTH_MAX),
            ("subString", len(each.sub_string), EXPRESSION_SIZE_MAX),
            ("expressionType", len(each.expression_type or ""), TOPIC_LENGTH_MAX),
            ("tagsSet", len(each.tags_set), TAGS_MAX),
            ("tagsSet", sum(map(len, each.tags_set)), EXPRESSION_SIZE_MAX),
            ("codeSet", len(each.code_set), TAGS_MAX),
        ):
            if size > size_max:
                topic = each.topic[:TOPIC_LENGTH_MAX]
                return f"SubscriptionData.{field} of topic {topic}: expected at most {size_max}, found {size}"
    return None
