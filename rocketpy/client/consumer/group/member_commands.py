"""Requests of brokers to any member of a group: rebalance, and report progress.

A member that pulls for itself also reports its settings and subscriptions. It has no handler that could consume a
message for an administrator, and its offsets are the program's: they are not reset from outside.

Compatibility: ``ClientRemotingProcessor`` and ``DefaultLitePullConsumerImpl.consumerRunningInfo`` (4.9.8). In Java a
lite pull consumer answers GET_CONSUMER_STATUS_FROM_CLIENT with an empty table, and CONSUME_MESSAGE_DIRECTLY fails in a
type cast.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketpy.client.answers import Answers
from rocketpy.client.broker_requests import Handler
from rocketpy.client.consumer.group.rebalance import RebalanceService
from rocketpy.client.consumer.group.subscriptions import Subscriptions
from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.client.instance import ClientInstance
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import ConsumeType
from rocketpy.protocol.bodies.offset import GetConsumerStatusBody
from rocketpy.protocol.bodies.running import (
    PROP_CLIENT_VERSION,
    PROP_CONSUME_TYPE,
    PROP_CONSUMER_START_TIMESTAMP,
    PROP_NAMESERVER_ADDR,
    ConsumerRunningInfo,
)
from rocketpy.protocol.codes import MQ_VERSION, RequestCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.client import GetConsumerStatusRequestHeader
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.mq_version import version_desc
from rocketpy.remoting.connection import Connection

QUEUES_PER_TURN = 200
"""Queues in a report that is encoded on the event loop, and queues that are looked at in a turn for a longer one."""


@attrs.frozen
class MemberCommands:
    """The handlers of every member."""

    rebalance: RebalanceService
    offsets: OffsetTable
    answers: Answers

    @property
    def handlers(self) -> Mapping[RequestCode, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._rebalance,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._consumer_status,
        }

    async def _rebalance(self, connection: Connection, request: RemotingCommand) -> None:
        self.rebalance.wake()

    async def _consumer_status(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = read_header(request, GetConsumerStatusRequestHeader)
        offsets = self.offsets.of_topic(header.topic)
        body = await encoded_queues(self.answers, GetConsumerStatusBody(message_queue_table=offsets), len(offsets))
        return make_response(request, body=body)


@attrs.frozen
class PullMemberReport:
    """The report of a member that pulls for itself. ``settings`` are under the names of Java's fields."""

    instance: ClientInstance
    subscriptions: Subscriptions
    started_at_ms: int
    settings: Mapping[str, object]

    @property
    def handlers(self) -> Mapping[RequestCode, Handler]:
        """The handlers by request code."""
        return {RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info}

    async def _running_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        info = ConsumerRunningInfo(
            properties={
                **{name: str(value) for name, value in self.settings.items()},
                **member_properties(self.instance, self.started_at_ms, ConsumeType.CONSUME_ACTIVELY),
            },
            subscription_set=self.subscriptions.values,
        )
        return make_response(request, body=encode_body(info))


async def encoded_queues(answers: Answers, report: object, count: int) -> bytes:
    """Encode a report about so many queues, of which a topic may have tens of thousands."""
    if count <= QUEUES_PER_TURN:
        return encode_body(report)
    return await answers.in_worker(encode_body, report)


def member_properties(instance: ClientInstance, started_at_ms: int, consume_type: ConsumeType) -> dict[str, str]:
    """Return the properties that every report has."""
    return {
        PROP_CONSUMER_START_TIMESTAMP: str(started_at_ms),
        PROP_NAMESERVER_ADDR: "".join(f"{each};" for each in instance.config.name_servers),
        PROP_CONSUME_TYPE: consume_type.value,
        PROP_CLIENT_VERSION: version_desc(MQ_VERSION),
    }
