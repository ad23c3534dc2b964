"""Permissions that a request code requires of an account: the values of ``needs=`` in ``register``.

::

    dispatcher.register(RequestCode.PULL_MESSAGE, self.process, needs=SUB_TOPIC_AND_GROUP)

A processor declares the need of each of its codes where it registers the code. A code that declares none needs an
administrator: closed by default.

RocketMQ leaves holes: a batch, a reply, a look at offsets or at groups, a lock, a message by its id and a reset of a
group's offsets need no more than any account. They are kept, because programs may rely on them; ``aclStrict`` closes
them (everything here with STRICT in its name, or with ``strict_resources``): a request that names a topic needs a right
on it, one that names a consumer group SUB on that, one that names both needs both, and one that names neither needs an
administrator. What stays open to any account says why where it is registered: END_TRANSACTION names no topic, and its
processor checks whose it is; the answer to CHECK_CLIENT_CONFIG depends on nothing but the request. RocketMQ has no
permissions on producer groups.

Compatibility: ``PlainAccessValidator.parse`` and ``Permission.ADMIN_CODE`` (4.9.8). Changing and listing accounts, and
deleting what no request names, need an administrator here, and any account there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import attrs

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.permission import PUB, SUB, group_resource, is_group_resource
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.heartbeat import HeartbeatData
from rocketpy.protocol.bodies.lock import LockBatchRequestBody
from rocketpy.protocol.command import RemotingCommand

BodyT = TypeVar("BodyT")

Needed = dict[str, int]
"""Permissions by topic, and by retry topic for groups; of two for one resource the later one counts."""

Resources = Callable[[RemotingCommand, int], Needed]
"""Reads from a request the permissions that it needs. A body of more bytes than the number is not decoded, as its
processor would not decode it: AclError."""


def _no_resources(request: RemotingCommand, body_size_max: int) -> Needed:
    return {}


@attrs.frozen(kw_only=True)
class Needs:
    """Permissions that one request code requires besides a signature."""

    resources: Resources = _no_resources
    strict_resources: Resources = _no_resources  # further ones with aclStrict
    is_admin: bool = False
    is_strict_admin: bool = False  # an administrator with aclStrict
    properties_field: str | None = None  # where a message is that goes into the queues that it names (multi-dispatch)


# ---- readers ---------------------------------------------------------------------------------------------------------


def _sub_topic(request: RemotingCommand, body_size_max: int) -> Needed:
    return _topic(request, "topic", SUB)


def _sub_group(field: str) -> Resources:
    def read(request: RemotingCommand, body_size_max: int) -> Needed:
        return _group((request.ext_fields or {}).get(field))

    return read


def _sub_topic_and_group(request: RemotingCommand, body_size_max: int) -> Needed:
    return _topic(request, "topic", SUB) | _group((request.ext_fields or {}).get("consumerGroup"))


def _sub_topic_and_other_group(request: RemotingCommand, body_size_max: int) -> Needed:
    return _topic(request, "topic", SUB) | _group((request.ext_fields or {}).get("group"))


def _sub_progress(request: RemotingCommand, body_size_max: int) -> Needed:
    """SUB on the group; on the topic too unless it is blank, which means all topics of the group."""
    fields = request.ext_fields or {}
    topic = _topic(request, "topic", SUB) if fields.get("topic", "").strip() else {}
    return topic | _group(fields.get("consumerGroup"))


def _pub_topic(field: str) -> Resources:
    def read(request: RemotingCommand, body_size_max: int) -> Needed:
        return _topic(request, field, PUB)

    return read


def _send(topic_field: str, group_field: str) -> Resources:
    """PUB on the topic; for a retry topic SUB on the group in the other field, as RocketMQ has it."""

    def read(request: RemotingCommand, body_size_max: int) -> Needed:
        fields = request.ext_fields or {}
        if is_group_resource(fields.get(topic_field, "")):
            return _group(fields.get(group_field))
        return _topic(request, topic_field, PUB)

    return read


def _sub_retry_topic(topic_field: str) -> Resources:
    """SUB on the group whose retry topic a send names: the group in the other field may be another one."""

    def read(request: RemotingCommand, body_size_max: int) -> Needed:
        topic = (request.ext_fields or {}).get(topic_field, "")
        return {topic: SUB} if is_group_resource(topic) else {}

    return read


def _sub_subscriptions(request: RemotingCommand, body_size_max: int) -> Needed:
    needed: Needed = {}
    for consumer in _body(request, HeartbeatData, body_size_max).consumer_data_set:
        needed |= _group(consumer.group_name)
        for subscription in consumer.subscription_data_set:
            if subscription.topic is not None:
                needed[subscription.topic] = SUB
    return needed


def _sub_locked(request: RemotingCommand, body_size_max: int) -> Needed:
    locked = _body(request, LockBatchRequestBody, body_size_max)
    return dict.fromkeys([queue.topic for queue in locked.mq_set], SUB) | _group(locked.consumer_group)


def _topic(request: RemotingCommand, field: str, permission: int) -> Needed:
    topic = (request.ext_fields or {}).get(field)
    return {} if topic is None else {topic: permission}


def _group(group: str | None) -> Needed:
    return {} if group is None else {group_resource(group): SUB}


def _body(request: RemotingCommand, body_class: type[BodyT], size_max: int) -> BodyT:
    body = request.body or b""
    if len(body) > size_max:
        raise AclError(f"{body_class.__name__}: expected at most {size_max} bytes, found {len(body)}")
    try:
        return decode_body(body, body_class, is_bounded=True)
    except RemoteProtocolError as failure:
        raise AclError(f"{body_class.__name__}: {failure}") from failure


# ---- what a code may need --------------------------------------------------------------------------------------------

ANY_ACCOUNT: Final = Needs()
"""A signature is enough."""

ADMIN: Final = Needs(is_admin=True, is_strict_admin=True)

STRICT_ADMIN: Final = Needs(is_strict_admin=True)
"""Any account; with ``aclStrict`` an administrator. For changes of what others own, and for what an answer tells of
others: settings with their paths, addresses of clients, stacks of consumers, the files of accounts, tables with the
names and offsets of all topics and groups."""

SUB_TOPIC: Final = Needs(resources=_sub_topic)
SUB_GROUP: Final = Needs(resources=_sub_group("consumerGroup"))
SUB_TOPIC_AND_GROUP: Final = Needs(resources=_sub_topic_and_group)
STRICT_SUB_TOPIC: Final = Needs(strict_resources=_sub_topic)
STRICT_SUB_TOPIC_AND_GROUP: Final = Needs(strict_resources=_sub_topic_and_group)

STRICT_SUB_TOPIC_AND_OTHER_GROUP: Final = Needs(strict_resources=_sub_topic_and_other_group)
"""The same for requests whose field is ``group``."""

STRICT_SUB_PROGRESS: Final = Needs(strict_resources=_sub_progress)
"""Any account; with ``aclStrict`` SUB on the group, and on the topic if one is named."""

HEARTBEAT: Final = Needs(resources=_sub_subscriptions)
"""SUB on every consumer group, and on every topic that it subscribes to."""

LOCK: Final = Needs(strict_resources=_sub_locked)
"""Any account; with ``aclStrict`` SUB on the group, and on the topics of the queues."""

SEND_BACK: Final = Needs(resources=_sub_group("group"))
"""SUB on the group."""

SEND_V1: Final = Needs(
    resources=_send("topic", "group"), strict_resources=_sub_retry_topic("topic"), properties_field="properties"
)
"""PUB on the topic; for a retry topic SUB on the group in ``group``, which normally is absent: nothing."""

SEND_V2: Final = Needs(resources=_send("b", "a"), strict_resources=_sub_retry_topic("b"), properties_field="i")
"""PUB on the topic; for a retry topic SUB on the group in ``a``, the producer's."""

SEND_BATCH: Final = Needs(strict_resources=_pub_topic("b"))
"""Any account; with ``aclStrict`` PUB on the topic. No message of a batch goes into queues that it names."""

REPLY_V1: Final = Needs(strict_resources=_pub_topic("topic"), properties_field="properties")
REPLY_V2: Final = Needs(strict_resources=_pub_topic("b"), properties_field="i")
