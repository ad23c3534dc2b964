"""Access control on the fast paths of sends and pulls.

A guard runs before a fast path. It decodes the JSON header with all fields as text, in key order, which is the order of
the signed content, so no sorting is needed. A guard passes only requests that are certainly allowed. Any other request
(an unknown field, a number that is not a text, a retry topic) takes the general path, where
:meth:`PlainPermissionManager.authorize` decides and explains.

What a request needs is what its code was declared to need where it was registered (:mod:`.needs`): the manager checks
it for the first request of a topic and group, and the peer's session caches the result. So a request costs only its
decoding and its HMAC.

Rule: a permission is cached only for a request with a valid signature, so that a peer without the secret key leaves
nothing in memory; the session is dropped with its connection.

Rule: each code has sessions of its own, because each code has needs of its own.

Rule: a guard and its fast path read the same bytes with the same decoder, so they see the same topic.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final, Literal

import attrs
import msgspec

from rocketpy import BUILD
from rocketpy.broker.acl.permission import is_group_resource
from rocketpy.broker.acl.plain_permission import PlainPermissionManager
from rocketpy.broker.acl.remote_address import host_of_peer
from rocketpy.broker.acl.session import NO_SESSION, Session
from rocketpy.broker.metadata.groups import NAME_LENGTH_MAX
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.fast_path_headers import (
    FAST_HEADER_ERRORS,
    FastBatchHeader,
    FastHeader,
    FastSendHeader,
    Int32,
    Int64,
    decode_fast_batch,
    decode_fast_send,
)
from rocketpy.protocol.signature import SIGNATURE, SIGNED_FOR, SIGNED_FOR_BEGIN, shape_of
from rocketpy.protocol.topic_name import TOPIC_LENGTH_MAX
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import FastGuard, FastPath

_SESSIONS_MAX = 10_000
_ALLOWED_MAX = 1000
_EMPTY: Final = b'""'


class _SignedSend(
    msgspec.Struct,
    rename={
        "group": "a",
        "topic": "b",
        "queue_id": "e",
        "born_timestamp": "g",
        "properties": "i",
        "security_token": "SecurityToken",
        "signature": "Signature",
        "access_key": "AccessKey",
        "signed_for": "#signedFor",
    },
    forbid_unknown_fields=True,
    kw_only=True,
    gc=False,
):
    """The fields of SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE in the order in which Java's client writes them.

    The decoder first looks for a field after the previous one: another order costs a third of a microsecond. When
    ``f``, ``h``, ``j`` and ``m`` have their usual values, it has every attribute that the fast paths read of
    :class:`~rocketpy.protocol.fast_path_headers.FastSendFields`.
    """

    group: str = ""
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
    signed_for: str = ""

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
        "group": "consumerGroup",
        "signed_for": "#signedFor",
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
    group: str
    signed_for: str = ""


class _SignedSendHeader(FastHeader, kw_only=True, gc=False):
    code: Literal[310]
    ext_fields: _SignedSend


class _SignedBatchHeader(FastHeader, kw_only=True, gc=False):
    code: Literal[320]
    ext_fields: _SignedSend


class _SignedPullHeader(FastHeader, kw_only=True, gc=False):
    code: Literal[11]
    ext_fields: _SignedPull


@attrs.frozen
class _Signed:
    """Reader of a fast path's header: its decoder, and the signed content of its fields."""

    decode: Callable[[bytes], Any]  # to an object whose ext_fields has topic, group, access_key, signature
    content: Callable[[Any], bytes]


def _send_content(fields: _SignedSend) -> bytes:
    return (
        f"{fields.signed_for}{fields.access_key}{fields.security_token}{fields.group}{fields.topic}{fields.c}{fields.d}"
        f"{fields.queue_id}{fields.f}{fields.born_timestamp}{fields.h}{fields.properties}{fields.j}{fields.k}"
        f"{fields.l}{fields.m}{fields.n}"
    ).encode()


def _pull_content(fields: _SignedPull) -> bytes:
    return (
        f"{fields.signed_for}{fields.access_key}{fields.request_type}{fields.security_token}{fields.broker_name}"
        f"{fields.commit_offset}{fields.group}{fields.expression_type}{fields.max_msg_nums}{fields.queue_id}"
        f"{fields.queue_offset}{fields.sub_version}{fields.subscription}{fields.suspend_timeout_millis}"
        f"{fields.sys_flag}{fields.topic}"
    ).encode()


_SIGNED_BY_CODE: Final[dict[int, _Signed]] = {
    RequestCode.SEND_MESSAGE_V2: _Signed(msgspec.json.Decoder(_SignedSendHeader, strict=False).decode, _send_content),
    RequestCode.SEND_BATCH_MESSAGE: _Signed(
        msgspec.json.Decoder(_SignedBatchHeader, strict=False).decode, _send_content
    ),
    RequestCode.PULL_MESSAGE: _Signed(msgspec.json.Decoder(_SignedPullHeader).decode, _pull_content),
}


class FastPathGuards:
    """The guards of one broker, and the decoders that the fast paths of sends and batches use after them.

    A send is usually decoded only once: the guard hands its decoded header to the fast path that it calls.
    """

    def __init__(self, manager: PlainPermissionManager, *, has_kernels: bool = BUILD.has_kernels) -> None:
        """With ``has_kernels`` the kernel reads headers first."""
        self._has_kernels = has_kernels
        self.sessions: dict[int, dict[str, Session]] = {code: {} for code in _SIGNED_BY_CODE}
        """By code and peer, as long as it is connected; emptied whenever the accounts change."""
        self._manager = manager
        self._header = b"no header"  # the last header that a guard passed, and what it was decoded to
        self._request: Any = None
        manager.on_change(self._forget_all)

    def by_code(self) -> dict[int, FastGuard]:
        """Return the guards for :class:`~rocketpy.remoting.dispatch.Dispatcher`."""
        return {
            code: partial(self._guarded_by_kernel, code) if self._has_kernels else partial(self._guarded, code)
            for code in _SIGNED_BY_CODE
        }

    def decode_send(self, header: bytes) -> FastSendHeader:
        """Decode a send header like ``decode_fast_send``, reusing the result when the guard has decoded it."""
        if header is self._header and self._is_usual("false"):
            return self._request  # type: ignore[no-any-return]  # has the attributes that the fast path reads
        return decode_fast_send(header)

    def decode_batch(self, header: bytes) -> FastBatchHeader:
        """The same for the header of a batch."""
        if header is self._header and self._is_usual("true"):
            return self._request  # type: ignore[no-any-return]
        return decode_fast_batch(header)

    def connection_closed(self, connection: Connection) -> None:
        """Drop the sessions of a closed connection's peer."""
        for sessions in self.sessions.values():
            sessions.pop(connection.peer, None)

    # ---- private --------------------------------------------------------------------------------------------------

    def _is_usual(self, batch: str) -> bool:
        fields = self._request.ext_fields
        return bool(fields.f == "0" and fields.h == "0" and fields.j == "0" and fields.m == batch)

    def _guarded(self, code: int, fast_path: FastPath) -> FastPath:
        signed = _SIGNED_BY_CODE[code]
        sessions, decode, content_of = self.sessions[code], signed.decode, signed.content

        def guarded(connection: Connection, header: bytes, body: bytes | None) -> int:
            session = sessions.get(connection.peer) or self._open_white_session(code, connection.peer)
            if session.needs_nothing:
                return fast_path(connection, header, body)
            try:
                request = decode(header)
            except FAST_HEADER_ERRORS:
                return False
            fields = request.ext_fields
            if session.access_key != fields.access_key:
                session = self._open_session(code, connection.peer, fields.access_key)
            if session.needs_no_signature:
                return fast_path(connection, header, body)
            content = content_of(fields)
            if content.startswith(SIGNED_FOR_BEGIN) and not self._is_meant(connection, code, header, fields, body):
                return False
            if not session.matches(content, fields.signature, b"" if body is None else body):
                return False
            if (fields.topic, fields.group) not in session.allowed and not self._learn(session, code, fields):
                return False
            self._header = header
            self._request = request
            return fast_path(connection, header, body)

        return guarded

    def _is_meant(self, connection: Connection, code: int, header: bytes, fields: Any, body: bytes | None) -> bool:
        """Whether ``#signedFor`` says that these fields are for this code and this broker.

        A field without a value is one that the decoder does not tell from none: that is for the general path.
        """
        if not fields.signed_for or _EMPTY in header:
            return False
        lengths = [
            (name, len(value if isinstance(value, str) else str(value)))
            for name, value in zip(fields.__struct_encode_fields__, msgspec.structs.astuple(fields), strict=True)
            if value != "" and name not in (SIGNATURE, SIGNED_FOR)
        ]
        shape = shape_of(lengths, len(body or b""))
        return self._manager.is_meant(connection, code, fields.signed_for.encode(), shape)

    def _guarded_by_kernel(self, code: int, fast_path: FastPath) -> FastPath:
        # Plain Python does not load it.
        from rocketpy.broker.acl.kernel_guard import KernelGuard, KernelPullGuard

        guard_class = KernelPullGuard if code == RequestCode.PULL_MESSAGE else KernelGuard
        guarded = self._guarded(code, fast_path)
        return guard_class(self.sessions[code], fast_path=fast_path, guarded=guarded).process

    def _open_white_session(self, code: int, peer: str) -> Session:
        """Return and cache a session for a peer of a global white list; ``NO_SESSION`` for any other peer."""
        if not self._manager.is_white(host_of_peer(peer)):
            return NO_SESSION
        return self._cache(code, peer, Session("", None, needs_nothing=True, needs_no_signature=True))

    def _open_session(self, code: int, peer: str, access_key: str) -> Session:
        """Return and cache a session of a peer with this access key; ``NO_SESSION`` for an unknown key."""
        account = self._manager.account(access_key)
        if account is None:
            return NO_SESSION
        needs_no_signature = account.is_white(host_of_peer(peer))
        return self._cache(code, peer, Session(access_key, account, needs_no_signature=needs_no_signature))

    def _cache(self, code: int, peer: str, session: Session) -> Session:
        if sum(map(len, self.sessions.values())) >= _SESSIONS_MAX:
            self._forget_all()
        self.sessions[code][peer] = session
        return session

    def _forget_all(self) -> None:
        for sessions in self.sessions.values():
            sessions.clear()

    def _learn(self, session: Session, code: int, fields: _SignedSend | _SignedPull) -> bool:
        """Cache that an account may make a request; False when it may not, or when the general path has to decide."""
        topic, group = fields.topic, fields.group
        if is_group_resource(topic) or len(topic) > TOPIC_LENGTH_MAX or len(group) > NAME_LENGTH_MAX:
            return False
        assert session.account is not None
        request = RemotingCommand(code, ext_fields=msgspec.to_builtins(fields, str_keys=True))
        if not self._manager.is_permitted(session.account, request):
            return False
        if len(session.allowed) >= _ALLOWED_MAX:
            session.allowed.clear()
        session.allowed.add((topic, group))
        return True
