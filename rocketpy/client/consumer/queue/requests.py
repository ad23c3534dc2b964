"""Requests about single queues: pulls, the ends of a queue, a group's progress.

A queue is pulled from the broker that the last answer has named, a slave when its master must read from its disk, and
from any of the same name when that one is not registered. Progress is the master's, and a slave's without a master.

Compatibility: ``PullAPIWrapper`` and ``MQAdminImpl`` (4.9.8). After a failed pull the next one goes to the master
again; RocketMQ stays with a slave that has vanished until its route has.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

import attrs

from rocketpy.client.consumer.queue.answers import pull_result
from rocketpy.client.consumer.queue.continuity import Continuity
from rocketpy.client.consumer.queue.pull_plan import PullRequest
from rocketpy.client.hooks import FilterMessageContext, FilterMessageHook
from rocketpy.client.instance import ClientInstance, read_response
from rocketpy.client.namespace import Namespace
from rocketpy.client.program_call import ProgramCall
from rocketpy.client.results import PullResult, PullStatus
from rocketpy.errors import BrokerError, RemotingError
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.bodies.route import MASTER_ID
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.offset import (
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketpy.protocol.headers.pull import PullMessageRequestHeader
from rocketpy.protocol.headers.queue_bounds import (
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
)
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.sysflag import PULL_COMMIT_OFFSET_FLAG, PULL_SUBSCRIPTION_FLAG
from rocketpy.remoting.connection import Connection

COMMIT_SECONDS = 5.0
LOOK_SECONDS = 3.0
"""How long a master may take to say what it has at an offset."""
_log = logging.getLogger("rocketpy.client")
_PULL_CODES = tuple(status.value for status in PullStatus)


class QueueRequests:
    """The requests of one consumer group. Raises BrokerError for refusals, RemotingError, NoBrokerError."""

    def __init__(self, *, instance: ClientInstance, group: str, filter_hooks: Sequence[FilterMessageHook] = ()) -> None:
        self._instance = instance
        self._routes = instance.routes
        self._namespace = Namespace(instance.namespace)
        self._group = group
        self._filter_hooks = tuple(filter_hooks)
        self._suggested_broker_ids: dict[MessageQueue, int] = {}  # from the last pull's answer, unless it is the master
        self._continuities: dict[MessageQueue, Continuity] = {}  # of the queues that a member reads

    async def pull(self, pull: PullRequest) -> PullResult:
        """Pull once; the messages have their topic without the namespace.

        RemoteProtocolError also for an answer that does not fit what was asked.
        """
        queue, sys_flag = pull.queue, pull.sys_flag
        address = await self._routes.subscribe_address(queue, self._suggested_broker_ids.get(queue, MASTER_ID))
        if sys_flag & PULL_COMMIT_OFFSET_FLAG and address != self._routes.table.publish_address(queue.broker_name):
            sys_flag &= ~PULL_COMMIT_OFFSET_FLAG
        request = make_request(RequestCode.PULL_MESSAGE, self._pull_header(pull, sys_flag))
        try:
            response = await self._instance.request(address, request, _PULL_CODES, timeout_s=pull.timeout_s)
        except RemotingError:
            self._suggested_broker_ids.pop(queue, None)  # a slave that does not answer is left for the master
            self._instance.request_route_refresh()
            raise
        result = await pull_result(self._instance.answers, response, pull)
        if result.suggest_which_broker_id != MASTER_ID:
            self._suggested_broker_ids[queue] = result.suggest_which_broker_id
        elif self._suggested_broker_ids:
            self._suggested_broker_ids.pop(queue, None)
        if self._namespace.name:
            for message in result.messages:
                message.topic = self._namespace.unwrap(message.topic)
        return self._filtered(result, queue) if self._filter_hooks and result.messages else result

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the lowest queue offset that still exists."""
        header = GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name)
        response = await self._ask(queue, RequestCode.GET_MIN_OFFSET, header)
        return read_response(response, GetMinOffsetResponseHeader).offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the queue offset that the next message will get."""
        header = GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name)
        response = await self._ask(queue, RequestCode.GET_MAX_OFFSET, header)
        return read_response(response, GetMaxOffsetResponseHeader).offset

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the queue offset of the message stored nearest to a wall time in ms, before or after it."""
        header = SearchOffsetRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms, broker_name=queue.broker_name
        )
        response = await self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return read_response(response, SearchOffsetResponseHeader).offset

    async def consumer_offset(self, queue: MessageQueue) -> int | None:
        """Return the group's committed progress, None when it has none."""
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name
        )
        try:
            response = await self._ask_for_progress(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except BrokerError as refusal:
            if refusal.response_code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return read_response(response, QueryConsumerOffsetResponseHeader).offset

    async def commit(self, queue: MessageQueue, consumer_offset: int) -> None:
        """Record the group's progress: the next offset to read. Durable on the broker within its flush interval.

        A slave takes it while there is no master, and brings it home.
        """
        await self._ask_for_progress(
            queue, RequestCode.UPDATE_CONSUMER_OFFSET, self._progress(queue, consumer_offset), timeout_s=COMMIT_SECONDS
        )

    async def commit_oneway(self, queue: MessageQueue, consumer_offset: int) -> None:
        """Send the group's progress without waiting for an answer: for progress that is sent again and again."""
        address = await self._routes.offset_address(queue)
        header = self._progress(queue, consumer_offset)
        request = make_request(RequestCode.UPDATE_CONSUMER_OFFSET, header, oneway=True)
        await self._instance.remoting.oneway(address, request)

    # ---- whether a queue is the one that was read -----------------------------------------------------------------

    def watch(self, continuity: Continuity) -> None:
        """Let the progress of a queue be committed only while it is the one that was read, until :meth:`forget`."""
        self._continuities[continuity.queue] = continuity

    async def may_commit(self, queue: MessageQueue) -> bool:
        """Return whether the progress of a queue counts at its master; RocketpyError when that is not known."""
        continuity = self._continuities.get(queue)
        return continuity is None or await continuity.may_commit()

    def master_connection(self, queue: MessageQueue) -> Connection | None:
        """Return the open connection to the master of a queue, None without one."""
        address = self._routes.table.publish_address(queue.broker_name)
        connection = None if address is None else self._instance.remoting.connection(address)
        return None if connection is None or connection.is_closed else connection

    def has_master(self, queue: MessageQueue) -> bool:
        """Return whether a route names a master for a queue."""
        return self._routes.table.publish_address(queue.broker_name) is not None

    async def look_up_master(self, queue: MessageQueue) -> None:
        """Look for a master where none is known; NoBrokerError when there is no broker at all."""
        await self._routes.offset_address(queue)

    def reads_slave(self, queue: MessageQueue) -> bool:
        """Return whether the next pull goes to a slave, because the last answer has named it."""
        return queue in self._suggested_broker_ids

    async def look_at(self, queue: MessageQueue, queue_offset: int) -> PullResult:
        """Return what the master has at an offset, one message at most, whatever the group subscribes to."""
        pull = PullRequest(
            queue=queue,
            queue_offset=queue_offset,
            subscription=SubscriptionData(queue.topic),
            sys_flag=PULL_SUBSCRIPTION_FLAG,
            max_msg_nums=1,
            suspend_ms=0,
            timeout_s=LOOK_SECONDS,
        )
        address = await self._routes.publish_address(queue)
        request = make_request(RequestCode.PULL_MESSAGE, self._pull_header(pull, pull.sys_flag))
        response = await self._request(address, request, pull.timeout_s, expected=_PULL_CODES)
        return await pull_result(self._instance.answers, response, pull)

    def forget(self, queue: MessageQueue) -> None:
        """Forget which broker was suggested for a queue, and what was read of it."""
        self._suggested_broker_ids.pop(queue, None)
        self._continuities.pop(queue, None)

    # ---- private --------------------------------------------------------------------------------------------------

    def _pull_header(self, pull: PullRequest, sys_flag: int) -> PullMessageRequestHeader:
        queue, subscription = pull.queue, pull.subscription
        return PullMessageRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=pull.queue_offset,
            max_msg_nums=pull.max_msg_nums,
            sys_flag=sys_flag,
            commit_offset=pull.commit_offset,
            suspend_timeout_millis=pull.suspend_ms,
            subscription=subscription.sub_string if sys_flag & PULL_SUBSCRIPTION_FLAG else None,
            sub_version=pull.sub_version,
            expression_type=subscription.expression_type,
            broker_name=queue.broker_name,
        )

    def _filtered(self, result: PullResult, queue: MessageQueue) -> PullResult:
        """Return the result without the messages that filter hooks remove."""
        context = FilterMessageContext(
            consumer_group=self._group,
            messages=list(result.messages),
            message_queue=self._namespace.unwrap_queue(queue),
            unit_mode=self._instance.config.unit_mode,
        )
        for hook in self._filter_hooks:
            with ProgramCall(_log, "filterMessageHook %s", hook.hook_name):
                hook.filter_message(context)
        return attrs.evolve(result, messages=tuple(context.messages))

    def _progress(self, queue: MessageQueue, consumer_offset: int) -> UpdateConsumerOffsetRequestHeader:
        return UpdateConsumerOffsetRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=consumer_offset,
            broker_name=queue.broker_name,
        )

    async def _ask(self, queue: MessageQueue, code: RequestCode, header: object) -> RemotingCommand:
        """Send a request to the queue's master: the ends of a slave's queues lag."""
        return await self._request(await self._routes.publish_address(queue), make_request(code, header))

    async def _ask_for_progress(
        self, queue: MessageQueue, code: RequestCode, header: object, *, timeout_s: float | None = None
    ) -> RemotingCommand:
        """Send a request to the queue's master, or to a slave while there is none."""
        address = await self._routes.offset_address(queue)
        return await self._request(address, make_request(code, header), timeout_s)

    async def _request(
        self,
        address: str,
        request: RemotingCommand,
        timeout_s: float | None = None,
        *,
        expected: Collection[int] = (ResponseCode.SUCCESS,),
    ) -> RemotingCommand:
        try:
            return await self._instance.request(address, request, expected, timeout_s=timeout_s)
        except RemotingError:
            self._instance.request_route_refresh()
            raise
