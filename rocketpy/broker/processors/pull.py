"""PULL_MESSAGE: from a consumer's request to records, or to a place in PullRequestHoldService.

What is in the page cache is answered in the same turn; what is cold is read by a task beside it. A pull that finds
nothing and may wait is held; the answer is then deferred.

A message that cannot be served because its unit or record is damaged refuses the pull that begins with it: the consumer
stays there and hears the place, until the store is repaired or its offset is set behind it. Everything else is served.

Compatibility: ``PullMessageProcessor`` (4.9.8); broker.md 7: checks in its order, codes and remarks as there.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Protocol

import trio

from rocketpy.broker.config import PERM_READ, BrokerConfig
from rocketpy.broker.consumer_manager import ConsumerManager
from rocketpy.broker.consumer_offset import ConsumerOffsetManager
from rocketpy.broker.processors.pull_answer import encode_pull_answer, pull_response_code
from rocketpy.broker.services.pull_request_hold import PullRequest, PullRequestHoldService
from rocketpy.broker.stats.broker_stats_manager import BrokerStatsManager
from rocketpy.broker.subscription_group import SubscriptionGroupManager
from rocketpy.broker.topic_config import TopicConfigManager
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.heartbeat import SUB_ALL
from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import ONEWAY_FLAG, RESPONSE_FLAG, RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.pull import PullMessageRequestHeader
from rocketpy.protocol.hot_headers import HOT_HEADER_ERRORS, decode_hot_pull
from rocketpy.protocol.selector.tag import TagFilter, parse_tag_expression
from rocketpy.protocol.sysflag import PULL_COMMIT_OFFSET_FLAG, PULL_SUBSCRIPTION_FLAG, PULL_SUSPEND_FLAG
from rocketpy.protocol.topic_name import FAQ
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import DEFERRED, Deferred, Dispatcher
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import GetMessageResult, MessageFilter

_TAG_TYPES = (None, "", "TAG")
_EXPRESSION_REMEMBERED_MAX = 1000
"""Longer tag expressions (in characters) are parsed anew each time, so that the cache holds little."""

_SHOWN_MAX = 255
_TOO_MANY_READS = "[OVERLOAD]too many reads from disk are running, try again in a while"

_log = logging.getLogger("rocketpy.broker")


class PullHeader(Protocol):
    """The fields of PULL_MESSAGE, however they were decoded."""

    @property
    def consumer_group(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def queue_id(self) -> int: ...

    @property
    def queue_offset(self) -> int: ...

    @property
    def max_msg_nums(self) -> int: ...

    @property
    def sys_flag(self) -> int: ...

    @property
    def commit_offset(self) -> int: ...

    @property
    def suspend_timeout_millis(self) -> int: ...

    @property
    def sub_version(self) -> int: ...

    @property
    def subscription(self) -> str | None: ...

    @property
    def expression_type(self) -> str | None: ...


class PullMessageProcessor:
    """Serves PULL_MESSAGE. One per broker."""

    def __init__(
        self,
        *,
        store: MessageStore,
        hold_service: PullRequestHoldService,
        topic_config_manager: TopicConfigManager,
        subscription_group_manager: SubscriptionGroupManager,
        consumer_manager: ConsumerManager,
        consumer_offset_manager: ConsumerOffsetManager,
        config: BrokerConfig,
        stats: BrokerStatsManager,
    ) -> None:
        self._store = store
        self._hold_service = hold_service
        self._topic_config_manager = topic_config_manager
        self._subscription_group_manager = subscription_group_manager
        self._consumer_manager = consumer_manager
        self._consumer_offset_manager = consumer_offset_manager
        self._config = config
        self._stats = stats

    def register(self, dispatcher: Dispatcher) -> None:
        """Take PULL_MESSAGE, and its hot road."""
        dispatcher.register(RequestCode.PULL_MESSAGE, self.process)
        dispatcher.register_fast_path(RequestCode.PULL_MESSAGE, self.process_hot)

    def process_hot(self, connection: Connection, header: bytes, body: bytes | None) -> bool:
        """Serve a JSON pull that decodes in one step; False, with nothing done, when it does not."""
        try:
            request = decode_hot_pull(header)
        except HOT_HEADER_ERRORS:
            return False
        is_oneway = bool(request.flag & ONEWAY_FLAG)
        try:
            held = self._pull(connection, request.ext_fields, request.opaque, SerializeType.JSON, is_oneway)
        except RequestError as refusal:
            if not is_oneway:
                connection.reply(
                    RemotingCommand(
                        code=refusal.response_code, remark=refusal.remark, opaque=request.opaque, flag=RESPONSE_FLAG
                    )
                )
            return True
        if held:
            connection.count_deferred()
        return True

    def process(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred | None:
        """Serve any pull; a refusal is raised as RequestError."""
        header = read_header(request, PullMessageRequestHeader)
        held = self._pull(connection, header, request.opaque, request.serialize_type, request.is_oneway)
        return DEFERRED if held else None

    # ---- private --------------------------------------------------------------------------------------------------

    def _pull(
        self, connection: Connection, header: PullHeader, opaque: int, serialize_type: SerializeType, is_oneway: bool
    ) -> bool:
        """Answer at once and return False, or arrange for a later answer and return True."""
        group_config = self._checked_group(header.consumer_group)
        self._check_topic(connection, header)
        message_filter = self._message_filter(header, group_config)
        if header.sys_flag & PULL_COMMIT_OFFSET_FLAG:
            self._consumer_offset_manager.commit_offset(
                connection.peer, header.consumer_group, header.topic, header.queue_id, header.commit_offset
            )
        may_suspend = header.sys_flag & PULL_SUSPEND_FLAG and header.suspend_timeout_millis > 0 and connection.may_defer
        suspend_ms = header.suspend_timeout_millis
        if not self._config.long_polling_enable:
            suspend_ms = self._config.short_polling_time_mills
        pull = PullRequest(
            connection,
            opaque,
            serialize_type,
            header.topic,
            header.queue_id,
            header.queue_offset,
            header.max_msg_nums,
            message_filter,
            trio.current_time() + suspend_ms / 1000 if may_suspend else 0.0,
            is_oneway,
            header.queue_offset,
            self._resume,
            header.consumer_group,
        )
        result = self._store.get_message_nowait(
            pull.topic, pull.queue_id, pull.queue_offset, pull.max_msg_nums, message_filter
        )
        if result is None:
            if not connection.start_task(self._read_cold, pull):
                raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_READS)
            return True
        if result.damage:
            raise RequestError(ResponseCode.SYSTEM_ERROR, _damaged(result))
        code = pull_response_code(result.status, pull.queue_offset)
        if code == ResponseCode.PULL_NOT_FOUND and may_suspend:
            self._hold_service.suspend(pull)
            return True
        if code == 0:
            self._count(pull, result)
        if not is_oneway:
            connection.reply_frame(encode_pull_answer(pull, code, result, self._suggested_broker(result)))
        return False

    def _resume(self, pull: PullRequest, is_final: bool) -> bool:
        """Try a held pull again; True when it has been answered (or a task will do so)."""
        result = self._store.get_message_nowait(
            pull.topic, pull.queue_id, pull.queue_offset, pull.max_msg_nums, pull.message_filter
        )
        if result is None:
            if not pull.connection.start_task(self._read_cold, pull):
                self._refuse_deferred(pull, ResponseCode.SYSTEM_BUSY, _TOO_MANY_READS)
            return True
        if result.damage:
            self._refuse_deferred(pull, ResponseCode.SYSTEM_ERROR, _damaged(result))
            return True
        code = pull_response_code(result.status, pull.queue_offset)
        if not is_final and code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY):
            if result.next_begin_offset >= result.max_offset:
                pull.queue_offset = result.next_begin_offset
                return False
            code = ResponseCode.PULL_RETRY_IMMEDIATELY  # one read looks only so far: the consumer asks for the rest
        if code == ResponseCode.PULL_NOT_FOUND and pull.queue_offset != pull.asked_offset:
            code = ResponseCode.PULL_RETRY_IMMEDIATELY  # the consumer takes the new offset
        self._answer_deferred(pull, code, result)
        return True

    async def _read_cold(self, pull: PullRequest) -> None:
        """Read what the page cache does not hold; the worker thread waits for the disk, the loop does not."""
        began = trio.current_time()
        result = await self._store.get_message(
            pull.topic, pull.queue_id, pull.queue_offset, pull.max_msg_nums, pull.message_filter
        )
        if result.body:
            waited_ms = int((trio.current_time() - began) * 1000)
            self._stats.inc_pull_wait(pull.consumer_group, pull.topic, pull.queue_id, waited_ms)
        if result.damage:
            self._refuse_deferred(pull, ResponseCode.SYSTEM_ERROR, _damaged(result))
        else:
            self._answer_deferred(pull, pull_response_code(result.status, pull.queue_offset), result)
        pull.connection.flush()

    def _answer_deferred(self, pull: PullRequest, code: int, result: GetMessageResult) -> None:
        if code == 0:
            self._count(pull, result)
        if pull.is_oneway:
            pull.connection.drop_deferred()
        else:
            frame = encode_pull_answer(pull, code, result, self._suggested_broker(result))
            pull.connection.reply_deferred(frame)

    def _refuse_deferred(self, pull: PullRequest, code: int, remark: str) -> None:
        if pull.is_oneway:
            pull.connection.drop_deferred()
        else:
            refusal = RemotingCommand(
                code=code,
                remark=remark,
                opaque=pull.opaque,
                flag=RESPONSE_FLAG,
                serialize_type=pull.serialize_type,
            )
            pull.connection.reply_deferred(encode_frame(refusal))

    def _count(self, pull: PullRequest, result: GetMessageResult) -> None:
        log_end = self._store.appender.wrote_offset
        self._stats.inc_pulled(pull.consumer_group, pull.topic, pull.queue_id, result, log_end)

    def _suggested_broker(self, result: GetMessageResult) -> int:
        return 1 if self._config.slave_read_enable and result.suggest_pulling_from_slave else 0

    def _checked_group(self, group: str) -> SubscriptionGroupConfig:
        config = self._config
        if not config.broker_permission & PERM_READ:
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"the broker[{config.broker_ip1}] pulling message is forbidden"
            )
        group_config = self._subscription_group_manager.find_subscription_group_config(group)
        if group_config is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{_shown(group)}] does not exist, {FAQ}",
            )
        if not group_config.consume_enable:
            raise RequestError(ResponseCode.NO_PERMISSION, f"subscription group no permission, {_shown(group)}")
        return group_config

    def _check_topic(self, connection: Connection, header: PullHeader) -> None:
        topic = header.topic
        topic_config = self._topic_config_manager.select_topic_config(topic)
        if topic_config is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{_shown(topic)}] not exist, apply first please! {FAQ}"
            )
        if not topic_config.perm & PERM_READ:
            raise RequestError(ResponseCode.NO_PERMISSION, f"the topic[{topic}] pulling message is forbidden")
        if not 0 <= header.queue_id < topic_config.read_queue_nums:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"queueId[{header.queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{topic_config.read_queue_nums}] consumer:[{connection.peer}]",
            )

    def _message_filter(self, header: PullHeader, group_config: SubscriptionGroupConfig) -> MessageFilter | None:
        """Return what selects messages, None for all; RequestError when the subscription is unknown or outdated."""
        if header.sys_flag & PULL_SUBSCRIPTION_FLAG:
            if header.expression_type not in _TAG_TYPES:
                raise _type_not_supported(header.expression_type)
            return _checked_filter(header.subscription)
        group = self._consumer_manager.get_consumer_group_info(header.consumer_group)
        if group is None:
            raise RequestError(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist{FAQ}")
        if not group_config.consume_broadcast_enable and group.message_model == "BROADCASTING":
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{_shown(header.consumer_group)}] can not consume by broadcast way",
            )
        subscription = group.find_subscription_data(header.topic)
        if subscription is None:
            raise RequestError(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist{FAQ}")
        if subscription.sub_version < header.sub_version:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                f"the consumer's subscription not latest: the broker has version {subscription.sub_version}, the "
                f"pull has {header.sub_version}",
            )
        if subscription.expression_type not in _TAG_TYPES:
            raise _type_not_supported(subscription.expression_type)
        return _checked_filter(subscription.sub_string)


def tag_filter(expression: str | None) -> TagFilter | None:
    """Return the filter of a tag expression, None when everything matches; ValueError when it is none."""
    subscription = parse_tag_expression("", expression)
    return None if subscription.sub_string == SUB_ALL else TagFilter(subscription)


_remembered_filter = lru_cache(maxsize=4096)(tag_filter)


def _checked_filter(expression: str | None) -> TagFilter | None:
    """Return the filter of an expression that a consumer sent, remembered unless it is long."""
    if not expression or expression == SUB_ALL:
        return None
    try:
        if len(expression) <= _EXPRESSION_REMEMBERED_MAX:
            return _remembered_filter(expression)
        return tag_filter(expression)
    except ValueError as failure:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {_shown(str(failure))}"
        ) from failure


def _damaged(result: GetMessageResult) -> str:
    """Return why a message cannot be served, and let the operator know too."""
    _log.error("a message cannot be served: %s", result.damage)
    return f"the message at this offset cannot be served: {result.damage}"


def _shown(text: str) -> str:
    """Return a consumer's text for a remark: an answer must fit into a frame."""
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."


def _type_not_supported(expression_type: str | None) -> RequestError:
    return RequestError(
        ResponseCode.SYSTEM_ERROR,
        f"The broker does not support consumer to filter message by {_shown(str(expression_type))}",
    )
