"""Retry limit of a consumer group, for send-backs and for sends to a retry topic.

Compatibility: ``SendMessageProcessor.handleRetryAndDLQ`` and ``asyncConsumerSendMsgBack`` (4.9.8).
"""

from __future__ import annotations

from rocketpy.broker.metadata.groups import SubscriptionGroupManager
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.topic_name import FAQ

_FIRST_VERSION_WITH_RETRY_LIMIT = 121  # V3_4_9
_SHOWN_MAX = 255


def known_group(manager: SubscriptionGroupManager, group: str) -> SubscriptionGroupConfig:
    """Return a group's configuration, created if that is allowed; RequestError when there is none."""
    group_config = manager.find_subscription_group_config(group)
    if group_config is None:
        shown = group if len(group) <= _SHOWN_MAX else group[:_SHOWN_MAX] + "..."
        remark = f"subscription group not exist, {shown} {FAQ}"
        full_because = manager.full_because
        if full_because is not None:
            remark += f" No group appears by itself: {full_because}."
        raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    return group_config


def retries_max(group_config: SubscriptionGroupConfig, *, version: int, asked: int | None) -> int:
    """Return the retry limit of a message: the group's, or the one that a client of 3.4.9 or later asks for."""
    if version >= _FIRST_VERSION_WITH_RETRY_LIMIT and asked is not None:
        return asked
    return group_config.retry_max_times
