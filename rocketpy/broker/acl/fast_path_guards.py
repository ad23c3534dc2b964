"""Access control on the fast paths of sends and pulls.

A guard runs before a fast path. It decodes the JSON header with all fields as text, in key order, which is the order of
the signed content, so no sorting is needed. Granted permissions are cached in the peer's session, so a request costs
only its decoding and its HMAC. A guard passes only requests that are certainly allowed. Any other request (an unknown
field, a number that is not a text, a retry topic, the first request for a topic) takes the general path, where
:meth:`PlainPermissionManager.authorize` decides and explains.

Rule: a permission is cached only for a request with a valid signature, so that a peer without the secret key leaves
nothing in memory; the session is dropped with its connection.

Rule: a guard and its fast path read the same bytes with the same decoder, so they see the same topic.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final

import msgspec

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.permission import PUB, SUB
from rocketpy.broker.acl.plain_access_resource import group_resource, is_group_resource
from rocketpy.broker.acl.plain_permission import PlainPermissionManager, Session
from rocketpy.broker.metadata.groups import NAME_LENGTH_MAX
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.hot_headers import (
    HOT_HEADER_ERRORS,
    HotSendFields,
    HotSendHeader,
    Int32,
    Int64,
    decode_hot_send,
)
from rocketpy.protocol.topic_name import TOPIC_LENGTH_MAX, TRACE_TOPIC
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import FastGuard, FastPath

_ALLOWED_MAX = 1000
_NOTHING: Final = HotSendHeader(HotSendFields("", "", "", 0, 0, 0, 0, 0), 0)


class _SignedSend(
    msgspec.Struct,
    rename={
        "topic": "b",
        "queue_id": "e",
        "born_timestamp": "g",
        "properties": "i",
        "security_token": "SecurityToken",
        "signature": "Signature",
        "access_key": "AccessKey",
    },
    forbid_unknown_fields=True,
    kw_only=True,
    gc=False,
):
    """The fields of SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE in the order in which Java's client writes them.

    The decoder first looks for a field after the previous one: another order costs a third of a microsecond. When
    ``f``, ``h``, ``j`` and ``m`` have their usual values, it has every attribute that the fast path reads of
    :class:`~rocketpy.protocol.hot_headers.HotSendFields`.
    """

    a: str = ""
    topic: str
    c: str = ""
    d: str = ""
    queue_id: Int32
    f: str = ""
    born_timestamp: Int64
    h: str = ""
    properties: str = ""
    j: str = ""
    k: str = ""
    l: str = ""  # noqa: E741
    m: str = ""
    n: str = ""
    security_token: str = ""
    signature: bytes  # out of its Base64
    access_key: str

    sys_flag: ClassVar[int] = 0
    flag: ClassVar[int] = 0
    reconsume_times: ClassVar[int] = 0
    batch: ClassVar[bool] = False


class _SignedPull(
    msgspec.Struct,
    rename={
        "queue_id": "queueId",
        "max_msg_nums": "maxMsgNums",
        "sys_flag": "sysFlag",
        "commit_offset": "commitOffset",
        "request_type": "ReqT",
        "security_token": "SecurityToken",
        "suspend_timeout_millis": "suspendTimeoutMillis",
        "broker_name": "bname",
        "signature": "Signature",
        "queue_offset": "queueOffset",
        "expression_type": "expressionType",
        "access_key": "AccessKey",
        "sub_version": "subVersion",
        "consumer_group": "consumerGroup",
    },
    forbid_unknown_fields=True,
    kw_only=True,
    gc=False,
):
    """The fields of PULL_MESSAGE in the order in which Java's client writes them."""

    queue_id: str = ""
    max_msg_nums: str = ""
    sys_flag: str = ""
    commit_offset: str = ""
    subscription: str = ""
    request_type: str = ""
    security_token: str = ""
    suspend_timeout_millis: str = ""
    broker_name: str = ""
    signature: bytes  # out of its Base64
    topic: str
    queue_offset: str = ""
    expression_type: str = ""
    access_key: str
    sub_version: str = ""
    consumer_group: str


class _SendHeader(msgspec.Struct, rename={"ext_fields": "extFields"}, gc=False):
    ext_fields: _SignedSend
    opaque: Int32
    flag: Int32 = 0


class _PullHeader(msgspec.Struct, rename={"ext_fields": "extFields"}, gc=False):
    ext_fields: _SignedPull


_decode_send = msgspec.json.Decoder(_SendHeader, strict=False).decode
_decode_pull = msgspec.json.Decoder(_PullHeader).decode


class FastPathGuards:
    """The guards of one broker, and the decoder that the fast path of sends uses after them.

    A send is usually decoded only once: the guard hands its decoded header to the fast path that it calls.
    """

    def __init__(self, manager: PlainPermissionManager) -> None:
        self._manager = manager
        self._header = b"no header"  # the last header that the guard passed, and its decoded fields
        self._request = _NOTHING

    def by_code(self) -> dict[int, FastGuard]:
        """Return the guards for :class:`~rocketpy.remoting.dispatch.Dispatcher`.

        RocketMQ checks only the signature of a batch; with ``aclStrict`` a batch is checked like every other send.
        """
        return {
            RequestCode.SEND_MESSAGE_V2: partial(self._guarded_send, checks_topic=True),
            RequestCode.SEND_BATCH_MESSAGE: partial(self._guarded_send, checks_topic=self._manager.is_strict),
            RequestCode.PULL_MESSAGE: partial(_guarded_pull, self._manager),
        }

    def decode_send(self, header: bytes) -> HotSendHeader:
        """Decode a send header like ``decode_hot_send``, reusing the result when the guard has decoded it."""
        if header is self._header:
            return self._request
        return decode_hot_send(header)

    def _guarded_send(self, fast_path: FastPath, *, checks_topic: bool) -> FastPath:
        manager, sessions = self._manager, self._manager.sessions

        def guarded(connection: Connection, header: bytes, body: bytes | None) -> int:
            session = sessions.get(connection.peer) or manager.open_white_session(connection.peer)
            if session is not None and session.needs_nothing:
                return fast_path(connection, header, body)
            try:
                request = _decode_send(header)
            except HOT_HEADER_ERRORS:
                return False
            fields = request.ext_fields
            if session is None or session.access_key != fields.access_key:
                session = manager.open_session(connection.peer, fields.access_key)
                if session is None:
                    return False
            if session.needs_no_signature:
                return fast_path(connection, header, body)
            topic = fields.topic
            is_known = not checks_topic or topic in session.allowed
            content = (
                f"{fields.access_key}{fields.security_token}{fields.a}{topic}{fields.c}{fields.d}"
                f"{fields.queue_id}{fields.f}{fields.born_timestamp}{fields.h}{fields.properties}{fields.j}{fields.k}"
                f"{fields.l}{fields.m}{fields.n}"
            ).encode()
            if not session.matches(content if body is None else content + body, fields.signature):
                return False
            if not is_known and not _learn_send(session, topic):
                return False
            if fields.f == "0" and fields.h == "0" and fields.j == "0" and fields.m == "false":
                self._header = header
                self._request = request  # type: ignore[assignment]  # has the attributes that the fast path reads
            return fast_path(connection, header, body)

        return guarded


def _guarded_pull(manager: PlainPermissionManager, fast_path: FastPath) -> FastPath:
    sessions = manager.sessions

    def guarded(connection: Connection, header: bytes, body: bytes | None) -> int:
        session = sessions.get(connection.peer) or manager.open_white_session(connection.peer)
        if session is not None and session.needs_nothing:
            return fast_path(connection, header, body)
        try:
            fields = _decode_pull(header).ext_fields
        except HOT_HEADER_ERRORS:
            return False
        if session is None or session.access_key != fields.access_key:
            session = manager.open_session(connection.peer, fields.access_key)
            if session is None:
                return False
        if session.needs_no_signature:
            return fast_path(connection, header, body)
        wanted = (fields.topic, fields.consumer_group)
        is_known = wanted in session.allowed
        content = (
            f"{fields.access_key}{fields.request_type}{fields.security_token}{fields.broker_name}"
            f"{fields.commit_offset}{fields.consumer_group}{fields.expression_type}{fields.max_msg_nums}{fields.queue_id}{fields.queue_offset}{fields.sub_version}"
            f"{fields.subscription}{fields.suspend_timeout_millis}{fields.sys_flag}{fields.topic}"
        ).encode()
        return (
            session.matches(content if body is None else content + body, fields.signature)
            and (is_known or _learn_pull(session, wanted))
            and fast_path(connection, header, body)
        )

    return guarded


def _learn_send(session: Session, topic: str) -> bool:
    """Cache that the account may send to a topic; False when it may not, or when the general path has to decide."""
    if is_group_resource(topic) or len(topic) > TOPIC_LENGTH_MAX:
        return False
    if topic != TRACE_TOPIC and not _is_allowed(session, topic, PUB):
        return False
    return _learn(session, topic)


def _learn_pull(session: Session, wanted: tuple[str, str]) -> bool:
    topic, group = wanted
    resource = group_resource(group)
    return (
        len(topic) <= TOPIC_LENGTH_MAX
        and len(group) <= NAME_LENGTH_MAX
        and topic != resource  # two permissions for the same name: left to the general path
        and _is_allowed(session, topic, SUB)
        and _is_allowed(session, resource, SUB)
        and _learn(session, wanted)
    )


def _learn(session: Session, wanted: object) -> bool:
    if len(session.allowed) >= _ALLOWED_MAX:
        session.allowed.clear()
    session.allowed.add(wanted)
    return True


def _is_allowed(session: Session, resource: str, permission: int) -> bool:
    try:
        session.account.check(resource, permission)
    except AclError:
        return False
    return True
