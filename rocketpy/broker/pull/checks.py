"""Checks of a pull, and the choice of the filter for its messages.

They run for every pull, and for a held one again each time it is tried: its group may have been disabled meanwhile, or
have changed its subscription. Only in the latter case is an expression parsed again.

Compatibility: ``PullMessageProcessor`` (4.9.8): checks in its order, with its codes and remarks. One is
stricter: a pull with SQL92 that does not compile is refused (23), where Java then serves every message. Tag expressions
are bounded (``EXPRESSION_SIZE_MAX``, ``TAGS_MAX``); a pull beyond that is refused with 23.
"""

from __future__ import annotations

from functools import lru_cache

from rocketpy.broker.clients.consumers import ConsumerManager
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.groups import SubscriptionGroupManager
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.broker.pull.filters import ConsumerFilterManager, compile_expression, is_tag_type
from rocketpy.broker.pull.message_filter import RetryMessageFilter, Sql92MessageFilter
from rocketpy.broker.pull.request import HeldHeader, PullHeader, PullRequest
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.heartbeat import SUB_ALL, SubscriptionData
from rocketpy.protocol.codes import PERM_READ, ResponseCode
from rocketpy.protocol.selector.sql92_errors import SelectorError
from rocketpy.protocol.selector.tag import TagFilter, parse_tag_expression
from rocketpy.protocol.sysflag import PULL_SUBSCRIPTION_FLAG
from rocketpy.protocol.topic_name import FAQ, RETRY_PREFIX
from rocketpy.remoting.connection import Connection
from rocketpy.store.results import MessageFilter

_EXPRESSION_CACHED_MAX = 1000
"""Characters; longer tag expressions have a small cache of their own: each may have a thousand tags. The filter of
longer SQL92 is made for each pull, from a selector that is cached."""

HELD_BYTES = 1024
"""Approximate bytes of a held pull without an expression: itself, its header and its table entries."""

_HELD_BYTES_PER_TAG_CHARACTER = 30
_HELD_BYTES_PER_SQL_CHARACTER = 200
"""Upper bound for the bytes of a parsed expression, per character."""

_SHORT_MAX = 100
"""Characters; a held pull keeps its whole header when its texts are not longer."""

_SHOWN_MAX = 255


class PullCheck:
    """The pull checks of one broker, over its tables."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        topic_config_manager: TopicConfigManager,
        subscription_group_manager: SubscriptionGroupManager,
        consumer_manager: ConsumerManager,
        consumer_filter_manager: ConsumerFilterManager,
    ) -> None:
        self._config = config
        self._topic_config_manager = topic_config_manager
        self._subscription_group_manager = subscription_group_manager
        self._consumer_manager = consumer_manager
        self._consumer_filter_manager = consumer_filter_manager

    def group_config(self, group: str) -> SubscriptionGroupConfig:
        """Return the configuration of a group that may pull; RequestError for any other."""
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

    def check_topic(self, connection: Connection, topic: str, queue_id: int) -> None:
        """Raise RequestError unless topic and queue exist and are readable."""
        topic_config = self._topic_config_manager.select_topic_config(topic)
        if topic_config is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{_shown(topic)}] not exist, apply first please! {FAQ}"
            )
        if not topic_config.perm & PERM_READ:
            raise RequestError(ResponseCode.NO_PERMISSION, f"the topic[{topic}] pulling message is forbidden")
        if not 0 <= queue_id < topic_config.read_queue_nums:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"queueId[{queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{topic_config.read_queue_nums}] consumer:[{connection.peer}]",
            )

    def message_filter(self, header: PullHeader, group_config: SubscriptionGroupConfig) -> MessageFilter | None:
        """Return the message filter, None for all messages; RequestError for an unknown or outdated subscription."""
        if header.sys_flag & PULL_SUBSCRIPTION_FLAG:
            if is_tag_type(header.expression_type):
                selected: MessageFilter | None = _checked_tag_filter(header.subscription)
            else:
                selected = self._own_filter(header)
        else:
            selected = self._subscribed_filter(header, self._subscription(header, group_config))
        return self._with_retries(header.topic, selected)

    def keep(self, pull: PullRequest) -> None:
        """Record in a pull that is about to be held the subscription of its filter and the bytes that it keeps.

        Long texts of its header that are no longer needed are released.
        """
        header = pull.header
        size = len(header.subscription) if header.subscription else 0
        pull.held_bytes = HELD_BYTES + len(pull.owner) if pull.owner else HELD_BYTES
        if not header.sys_flag & PULL_SUBSCRIPTION_FLAG:
            pull.subscription = self._consumer_manager.find_subscription_data(header.consumer_group, header.topic)
        elif is_tag_type(header.expression_type):
            pull.held_bytes += size * _HELD_BYTES_PER_TAG_CHARACTER
        else:
            pull.held_bytes += size * _HELD_BYTES_PER_SQL_CHARACTER
        if size > _SHORT_MAX or len(header.expression_type or "") > _SHORT_MAX:
            pull.header = HeldHeader.of(header)

    def message_filter_again(self, pull: PullRequest, group_config: SubscriptionGroupConfig) -> MessageFilter | None:
        """Return the current message filter of a held pull, with the checks of :meth:`message_filter`.

        The pull keeps its filter unless a heartbeat has replaced the subscription object of its group.
        """
        header, kept = pull.header, pull.message_filter
        if kept is None and header.sys_flag & PULL_SUBSCRIPTION_FLAG and not self._config.filter_support_retry:
            return None  # the usual pull: it asks for all messages, and SQL92 always has a filter
        if isinstance(kept, RetryMessageFilter):
            kept = kept.subscribed
        if header.sys_flag & PULL_SUBSCRIPTION_FLAG:
            if not is_tag_type(header.expression_type):
                self._check_property_filter(header.expression_type)
            return self._with_retries(header.topic, kept)
        subscription = self._subscription(header, group_config)
        if subscription is not pull.subscription or not is_tag_type(subscription.expression_type):
            kept = self._subscribed_filter(header, subscription)
            pull.subscription = subscription
        return self._with_retries(header.topic, kept)

    # ---- private --------------------------------------------------------------------------------------------------

    def _with_retries(self, topic: str, selected: MessageFilter | None) -> MessageFilter | None:
        """Return the filter for a topic; for a retry topic it also applies the group's filters of other topics."""
        if self._config.filter_support_retry and topic.startswith(RETRY_PREFIX):
            group = topic.removeprefix(RETRY_PREFIX)
            return RetryMessageFilter(selected, group, self._consumer_filter_manager.selector)
        return selected

    def _subscription(self, header: PullHeader, group_config: SubscriptionGroupConfig) -> SubscriptionData:
        """Return the subscription from the group's heartbeats; RequestError when it does not cover the pull."""
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
        return subscription

    def _subscribed_filter(self, header: PullHeader, subscription: SubscriptionData) -> MessageFilter | None:
        """Return the filter of a subscription of the group."""
        if is_tag_type(subscription.expression_type):
            return _checked_tag_filter(subscription.sub_string)
        return self._registered_filter(header, subscription.expression_type)

    def _registered_filter(self, header: PullHeader, expression_type: str | None) -> MessageFilter:
        """Return the SQL92 filter that a heartbeat registered."""
        found = self._consumer_filter_manager.get(header.topic, header.consumer_group)
        if found is None:
            raise RequestError(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                "The broker's consumer filter data is not exist!Your expression may be wrong!",
            )
        if found.client_version < header.sub_version:
            raise RequestError(
                ResponseCode.FILTER_DATA_NOT_LATEST,
                f"the consumer's consumer filter data not latest: the broker has version {found.client_version}, the "
                f"pull has {header.sub_version}",
            )
        self._check_property_filter(expression_type)
        return found.message_filter

    def _own_filter(self, header: PullHeader) -> MessageFilter:
        """Return the SQL92 filter from the pull itself."""
        expression = header.subscription
        if not expression:
            raise _not_parsed("expected an expression, found none")
        self._check_property_filter(header.expression_type)
        try:
            if len(expression) <= _EXPRESSION_CACHED_MAX:
                return _cached_sql_filter(header.expression_type, expression)
            return _sql_filter(header.expression_type, expression)
        except SelectorError as failure:
            raise _not_parsed(str(failure)) from failure

    def _check_property_filter(self, expression_type: str | None) -> None:
        if not self._config.enable_property_filter:
            raise RequestError(ResponseCode.SYSTEM_ERROR, not_supported(expression_type))


def not_supported(expression_type: str | None) -> str:
    """Return RocketMQ's remark for enablePropertyFilter=false."""
    return f"The broker does not support consumer to filter message by {_shown(str(expression_type))}"


def _tag_filter(expression: str | None) -> TagFilter | None:
    """Return the filter of a tag expression, None when every message matches; ValueError when it is invalid."""
    subscription = parse_tag_expression("", expression)
    return None if subscription.sub_string == SUB_ALL else TagFilter(subscription)


def _sql_filter(expression_type: str | None, expression: str) -> Sql92MessageFilter:
    """Return the filter of a pull's own expression; SelectorError, which is cached elsewhere, when it is invalid."""
    return Sql92MessageFilter(compile_expression(expression_type, expression))


_cached_sql_filter = lru_cache(maxsize=100)(_sql_filter)  # as many as there are cached selectors
_cached_filter = lru_cache(maxsize=1024)(_tag_filter)
_cached_long_filter = lru_cache(maxsize=64)(_tag_filter)


def _checked_tag_filter(expression: str | None) -> TagFilter | None:
    """Return the filter of a consumer's tag expression; RequestError when it is invalid."""
    if not expression or expression == SUB_ALL:
        return None
    try:
        if len(expression) <= _EXPRESSION_CACHED_MAX:
            return _cached_filter(expression)
        return _cached_long_filter(expression)
    except ValueError as failure:
        raise _not_parsed(str(failure)) from failure


def _not_parsed(why: str) -> RequestError:
    return RequestError(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {_shown(why)}"
    )


def _shown(text: str) -> str:
    """Return a consumer's text cut for a remark, because a response must fit into a frame."""
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."
