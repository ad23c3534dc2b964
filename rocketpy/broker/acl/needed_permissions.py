"""What a request needs of the account that made it: permissions for topics and groups, or an administrator.

=====================================  ==============================================================================
request                                needs
=====================================  ==============================================================================
SEND_MESSAGE, SEND_MESSAGE_V2          PUB on the topic; to a retry topic SUB on the group in the field ``group`` (V1,
                                       normally absent: nothing) or ``a`` (V2, the producer's group)
CONSUMER_SEND_MSG_BACK                 SUB on the group
PULL_MESSAGE, UPDATE_CONSUMER_OFFSET   SUB on topic and group
QUERY_MESSAGE                          SUB on the topic
HEART_BEAT                             SUB on every consumer group and every topic subscribed to
UNREGISTER_CLIENT,                     SUB on the consumer group
GET_CONSUMER_LIST_BY_GROUP
:data:`ADMIN_CODES`                    an administrator
a send or reply that names queues      PUB on each of them that is a topic; ``aclStrict``: on light queues too
(INNER_MULTI_DISPATCH)
anything else                          a signature
=====================================  ==============================================================================

RocketMQ leaves holes there: a batch, a reply, a look at offsets, a lock, a message by its id and a reset of somebody's
offsets need no more than any account. They are kept, because programs may live in them; ``aclStrict`` closes them
(:data:`STRICT_ADMIN_CODES`, and the rows of :func:`_strict_permissions`). END_TRANSACTION stays as it is: it names no
topic.

Compatibility: ``PlainAccessValidator.parse`` and ``Permission.ADMIN_CODE`` (4.9.8). Changing and listing accounts, and
deleting what no request names, need an administrator here, and any account there. There a message gets into every
queue that it names.
"""

from __future__ import annotations

from typing import Final, TypeVar

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.permission import PUB, SUB
from rocketpy.broker.acl.plain_access_resource import group_resource, is_group_resource
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.heartbeat import HeartbeatData
from rocketpy.protocol.bodies.lock import LockBatchRequestBody
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.properties import PROPERTIES_TEXT_MAX, PROPERTY_INNER_MULTI_DISPATCH, decode_properties
from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.store.queue.multi_dispatch import NAMES_MAX, name_fault, named_queues

BodyT = TypeVar("BodyT")

GET_BROKER_CLUSTER_ACL_CONFIG: Final = 54
"""Lists all accounts, secrets included. RocketMQ has dropped it between 4.9.7 and 4.9.8; its tools still send it."""

_ROCKETMQ_ADMIN_CODES: Final = frozenset(
    (
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
    )
)
ADMIN_CODES: Final = _ROCKETMQ_ADMIN_CODES | {
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
    RequestCode.DELETE_ACL_CONFIG,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    GET_BROKER_CLUSTER_ACL_CONFIG,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
}
STRICT_ADMIN_CODES: Final = ADMIN_CODES | {
    RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    RequestCode.QUERY_CORRECTION_OFFSET,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.CLONE_GROUP_OFFSET,
    RequestCode.RESUME_CHECK_HALF_MESSAGE,
    # What these tell of others: settings with their paths, addresses of clients, stacks of consumers, accounts' files.
    RequestCode.GET_BROKER_CONFIG,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
    RequestCode.GET_CONSUMER_CONNECTION_LIST,
    RequestCode.GET_PRODUCER_CONNECTION_LIST,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.VIEW_BROKER_STATS_DATA,
}

_PROPERTIES_FIELD: Final[dict[int, str]] = {
    RequestCode.SEND_MESSAGE: "properties",
    RequestCode.SEND_MESSAGE_V2: "i",
    RequestCode.SEND_REPLY_MESSAGE: "properties",
    RequestCode.SEND_REPLY_MESSAGE_V2: "i",
}
"""Where the requests have their properties whose messages get into the queues that they name; a batch does not."""

BODY_SIZE_MAX: Final = 131_072
"""The default of ``clientBodyBytesMax``."""

Needed = dict[str, int]
"""Permissions by topic, and by retry topic for groups; of two for one resource the later one counts."""


def needed_permissions(
    request: RemotingCommand, *, is_strict: bool, multi_dispatch: bool = False, body_size_max: int = BODY_SIZE_MAX
) -> Needed:
    """Return what a request needs; AclError when that cannot be told, because its body is garbage.

    ``multi_dispatch``: messages get into the queues that they name. A body of more than ``body_size_max`` bytes is not
    read, as its processor would not read it.
    """
    fields = request.ext_fields or {}
    needed: Needed = {}
    match request.code:
        case RequestCode.SEND_MESSAGE:
            _add_send(needed, fields.get("topic"), fields.get("group"))
        case RequestCode.SEND_MESSAGE_V2:
            _add_send(needed, fields.get("b"), fields.get("a"))
        case RequestCode.CONSUMER_SEND_MSG_BACK:
            _add_group(needed, fields.get("group"))
        case RequestCode.PULL_MESSAGE | RequestCode.UPDATE_CONSUMER_OFFSET:
            _add(needed, fields.get("topic"), SUB)
            _add_group(needed, fields.get("consumerGroup"))
        case RequestCode.QUERY_MESSAGE:
            _add(needed, fields.get("topic"), SUB)
        case RequestCode.UNREGISTER_CLIENT | RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            _add_group(needed, fields.get("consumerGroup"))
        case RequestCode.HEART_BEAT:
            for consumer in _body(request, HeartbeatData, body_size_max).consumer_data_set:
                _add_group(needed, consumer.group_name)
                for subscription in consumer.subscription_data_set:
                    _add(needed, subscription.topic, SUB)
    if is_strict:
        needed |= _strict_permissions(request, fields, body_size_max)
    if multi_dispatch and request.code in _PROPERTIES_FIELD:
        _add_named_queues(needed, fields.get(_PROPERTIES_FIELD[request.code]), is_strict=is_strict)
    return needed


def _strict_permissions(request: RemotingCommand, fields: dict[str, str], body_size_max: int) -> Needed:
    """Return what ``aclStrict`` asks for beyond RocketMQ's rules."""
    needed: Needed = {}
    match request.code:
        case RequestCode.SEND_BATCH_MESSAGE | RequestCode.SEND_REPLY_MESSAGE_V2:
            _add(needed, fields.get("b"), PUB)
        case RequestCode.SEND_REPLY_MESSAGE:
            _add(needed, fields.get("topic"), PUB)
        case RequestCode.SEND_MESSAGE if is_group_resource(fields.get("topic", "")):
            _add(needed, fields["topic"], SUB)
        case RequestCode.SEND_MESSAGE_V2 if is_group_resource(fields.get("b", "")):
            _add(needed, fields["b"], SUB)
        case RequestCode.QUERY_CONSUMER_OFFSET:
            _add(needed, fields.get("topic"), SUB)
            _add_group(needed, fields.get("consumerGroup"))
        case RequestCode.QUERY_CONSUME_QUEUE:
            _add(needed, fields.get("topic"), SUB)
        case RequestCode.LOCK_BATCH_MQ | RequestCode.UNLOCK_BATCH_MQ:
            _add_group(needed, _body(request, LockBatchRequestBody, body_size_max).consumer_group)
    return needed


def _add_send(needed: Needed, topic: str | None, group: str | None) -> None:
    if topic is not None and is_group_resource(topic):
        _add_group(needed, group)
    else:
        _add(needed, topic, PUB)


def _add_named_queues(needed: Needed, properties: str | None, *, is_strict: bool) -> None:
    """Add PUB on what a message names. A name that no message may have is not asked about: the send is refused."""
    if properties is None or PROPERTY_INNER_MULTI_DISPATCH not in properties:
        return
    if len(properties) > PROPERTIES_TEXT_MAX:
        return  # refused whatever they say, and not taken apart
    names = named_queues(decode_properties(properties).get(PROPERTY_INNER_MULTI_DISPATCH, ""))
    for name in names[:NAMES_MAX]:  # of more none is stored
        if name_fault(name) is None and (is_strict or not name.startswith(LMQ_PREFIX)):
            needed.setdefault(name, PUB)


def _add_group(needed: Needed, group: str | None) -> None:
    if group is not None:
        needed[group_resource(group)] = SUB


def _add(needed: Needed, topic: str | None, permission: int) -> None:
    if topic is not None:
        needed[topic] = permission


def _body(request: RemotingCommand, body_class: type[BodyT], size_max: int) -> BodyT:
    body = request.body or b""
    if len(body) > size_max:
        raise AclError(f"{body_class.__name__}: expected at most {size_max} bytes, found {len(body)}")
    try:
        return decode_body(body, body_class, is_bounded=True)
    except RemoteProtocolError as failure:
        raise AclError(f"{body_class.__name__}: {failure}") from failure
