"""Requests that delete expired files and unused queues.

Compatibility: ``AdminBrokerProcessor`` (4.9.8).
"""

from __future__ import annotations

import attrs

from rocketpy.broker.acl.needs import ADMIN
from rocketpy.broker.metadata.persistence import persist_change
from rocketpy.broker.metadata.topic_deletions import TopicDeletions
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.message_store import MessageStore


@attrs.define(eq=False, kw_only=True)
class AdminStoreProcessor:
    """Serves DELETE_EXPIRED_COMMITLOG, CLEAN_EXPIRED_CONSUMEQUEUE and CLEAN_UNUSED_TOPIC."""

    _store: MessageStore
    _topic_config_manager: TopicConfigManager
    _deletions: TopicDeletions

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes."""
        dispatcher.register(RequestCode.DELETE_EXPIRED_COMMITLOG, self.process_delete_expired_commit_log, needs=ADMIN)
        dispatcher.register_task(
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, self.process_clean_expired_consume_queue, needs=ADMIN
        )
        dispatcher.register_task(RequestCode.CLEAN_UNUSED_TOPIC, self.process_clean_unused_topic, needs=ADMIN)

    def process_delete_expired_commit_log(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Schedule the deletion of expired files regardless of ``deleteWhen``; answered before it has run."""
        self._store.execute_delete_files_manually()
        return make_response(request)

    async def process_clean_expired_consume_queue(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Delete queues whose messages have all expired."""
        await self._store.clean_expired_consumer_queue()
        return make_response(request)

    async def process_clean_unused_topic(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Delete the queues of topics that are not in the topic table, with the offsets of their groups."""
        await self._deletions.delete_unused(self._topic_config_manager.topic_config_table.keys())
        await persist_change(*self._deletions.stored)
        return make_response(request)
