"""Administration of groups: create, change, delete, list, and their connected members.

Compatibility: ``AdminBrokerProcessor`` (4.9.8). A group without a name is refused; Java responds with
success or a null pointer exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import trio

from rocketpy.broker.acl.needs import ADMIN, STRICT_ADMIN
from rocketpy.broker.admin.slave_refusal import refuse_on_slave
from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.broker.clients.consumers import ConsumerManager
from rocketpy.broker.clients.producers import ProducerManager
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.groups import SubscriptionGroupManager
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.metadata.persistence import persist_change
from rocketpy.broker.metadata.topics import QUEUE_NUMS_MAX, TopicConfigManager
from rocketpy.broker.monitoring.broker_stats_manager import BrokerStatsManager
from rocketpy.broker.request_body import check_name, check_range, read_body
from rocketpy.clock import Clock
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.connection import Connection as ConnectionBody
from rocketpy.protocol.bodies.connection import (
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.admin import (
    DeleteSubscriptionGroupRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetProducerConnectionListRequestHeader,
)
from rocketpy.protocol.headers.codec import read_header
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.whole_answer import WholeAnswers

_MEMBERS_PER_TURN = 1000
_GROUP_SIZE_MAX = 65_536
"""Bound of a group configuration in a request, which takes a few hundred bytes."""


@attrs.define(eq=False, kw_only=True)
class AdminGroupProcessor:
    """Serves the group codes. One per broker."""

    _topic_config_manager: TopicConfigManager
    _subscription_group_manager: SubscriptionGroupManager
    _consumer_manager: ConsumerManager
    _producer_manager: ProducerManager
    _consumer_offset_manager: ConsumerOffsetManager
    _config: BrokerConfig
    _stats: BrokerStatsManager
    _whole_answers: WholeAnswers
    _clock: Clock
    _is_slave: bool

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes."""
        dispatcher.register_task(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, self.process_update_and_create, needs=ADMIN
        )
        dispatcher.register_task(RequestCode.DELETE_SUBSCRIPTIONGROUP, self.process_delete, needs=ADMIN)
        dispatcher.register_task(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, self.process_get_all, needs=STRICT_ADMIN)
        dispatcher.register_task(
            RequestCode.GET_CONSUMER_CONNECTION_LIST, self.process_get_consumer_connection_list, needs=STRICT_ADMIN
        )
        dispatcher.register_task(
            RequestCode.GET_PRODUCER_CONNECTION_LIST, self.process_get_producer_connection_list, needs=STRICT_ADMIN
        )
        dispatcher.register_task(
            RequestCode.GET_ALL_PRODUCER_INFO, self.process_get_all_producer_info, needs=STRICT_ADMIN
        )

    async def process_update_and_create(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Create a group or replace its configuration; answered once it is in the file."""
        refuse_on_slave(is_slave=self._is_slave)
        group_config = read_body(request, SubscriptionGroupConfig, _GROUP_SIZE_MAX)
        check_name(group_config, "groupName", group_config.group_name)
        check_range(group_config, "retryQueueNums", group_config.retry_queue_nums, 0, QUEUE_NUMS_MAX)
        check_range(group_config, "brokerId", group_config.broker_id, 0)
        check_range(group_config, "whichBrokerWhenConsumeSlowly", group_config.which_broker_when_consume_slowly, 0)
        self._subscription_group_manager.update_subscription_group_config(group_config)
        await persist_change(self._subscription_group_manager.stored)
        return make_response(request)

    async def process_delete(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Delete a group, whether or not it exists, and on request its offsets; those in topics that have gone anyway.

        The table of offsets changes all the time and is large: it is written only if this has changed it.
        """
        refuse_on_slave(is_slave=self._is_slave)
        header = read_header(request, DeleteSubscriptionGroupRequestHeader)
        group = header.group_name
        check_name(header, "groupName", group)
        groups, offsets = self._subscription_group_manager, self._consumer_offset_manager
        groups.delete_subscription_group_config(group)
        change_count = offsets.stored.change_count
        topics = self._topic_config_manager
        gone = [topic for topic in offsets.which_topic_by_consumer(group) if not topics.is_known(topic)]
        offsets.remove_offset(group, topics=None if header.remove_offset else gone)
        has_removed = offsets.stored.change_count != change_count
        if self._config.auto_delete_unused_stats:
            self._stats.on_group_deleted(group)
        await persist_change(groups.stored, *([offsets.stored] if has_removed else []))
        return make_response(request)

    async def process_get_all(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return the whole table, as a slave requests it."""
        groups = self._subscription_group_manager
        body = await self._whole_answers.encode_table(
            connection, "all groups", lambda: groups.data_version, groups.wrapper
        )
        return make_response(request, body=body)

    async def process_get_consumer_connection_list(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Return the members and subscriptions of a consumer group."""
        group = read_header(request, GetConsumerConnectionListRequestHeader).consumer_group
        info = self._consumer_manager.get_consumer_group_info(group)
        if info is None:
            raise RequestError(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{group}] not online")
        body = ConsumerConnection(
            connection_set=_connections(info.channel_info_table.values()),
            subscription_table=dict(info.subscription_table),
            consume_type=info.consume_type,
            message_model=info.message_model,
            consume_from_where=info.consume_from_where,
        )
        return make_response(
            request, body=await self._whole_answers.encode(connection, "the members of the group", body)
        )

    async def process_get_producer_connection_list(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Return the members of a producer group."""
        group = read_header(request, GetProducerConnectionListRequestHeader).producer_group
        members = self._producer_manager.members(group)
        if members is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
        body = ProducerConnection(connection_set=_connections(members))
        return make_response(
            request, body=await self._whole_answers.encode(connection, "the members of the group", body)
        )

    async def process_get_all_producer_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return the members of every producer group, each with its last heartbeat."""
        table: dict[str, Sequence[ProducerInfo]] = {}
        count = 0
        for group in self._producer_manager.groups:
            table[group] = [self._producer_info(client) for client in self._producer_manager.members(group) or ()]
            count += len(table[group])
            if count >= _MEMBERS_PER_TURN:
                count = 0
                await trio.lowlevel.checkpoint()
        body = await self._whole_answers.encode(connection, "all producers", ProducerTableInfo(data=table))
        return make_response(request, body=body)

    def _producer_info(self, client: ClientChannelInfo) -> ProducerInfo:
        return ProducerInfo(
            client_id=client.client_id,
            remote_ip=f"/{client.channel.peer}",
            language=None if client.language is None else client.language.name,
            version=client.version,
            last_update_timestamp=self._clock.timestamp_ms() - self._producer_manager.silent_ms(client),
        )


def _connections(clients: Iterable[ClientChannelInfo]) -> tuple[ConnectionBody, ...]:
    return tuple(
        ConnectionBody(
            client_id=client.client_id,
            client_addr=client.channel.peer,
            language=None if client.language is None else client.language.name,
            version=client.version,
        )
        for client in clients
    )
