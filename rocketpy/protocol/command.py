"""``RemotingCommand``: one request or response, independent of the encoding of its header.

The bytes are :mod:`rocketpy.protocol.frame`'s, the meaning of the fields that of the classes in
:mod:`rocketpy.protocol.headers`. Rule: a response repeats the request's ``opaque`` and its serialize type.
"""

from __future__ import annotations

import attrs

from rocketpy.protocol.codes import MQ_VERSION, LanguageCode, ResponseCode, SerializeType
from rocketpy.protocol.headers.codec import write_header

RESPONSE_FLAG = 1
"""Bit 0 of ``flag``. It decides what a frame is; opaques of the two directions are independent and collide."""

ONEWAY_FLAG = 2
"""Bit 1 of ``flag``: the sender does not track this request and drops any answer."""


@attrs.define(slots=True)
class RemotingCommand:
    """One request or response.

    ``opaque`` of a request is set by the connection that sends it, so it is the one field that changes after creation.
    ``ext_fields`` keeps the order in which the peer wrote them; ``None`` and ``{}`` differ on the wire in JSON.
    ``language`` is ``None`` for an unknown language, which RocketMQ accepts too.
    """

    code: int
    ext_fields: dict[str, str] | None = None
    body: bytes | None = None
    remark: str | None = None
    opaque: int = 0
    flag: int = 0
    language: LanguageCode | None = LanguageCode.PYTHON
    version: int = MQ_VERSION
    serialize_type: SerializeType = SerializeType.JSON

    @property
    def is_response(self) -> bool:
        """Whether this answers a request; everything without bit 0 is a request."""
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_oneway(self) -> bool:
        """Whether the sender expects no answer."""
        return self.flag & ONEWAY_FLAG != 0


def make_request(
    code: int, header: object | None = None, body: bytes | None = None, *, oneway: bool = False
) -> RemotingCommand:
    """Return a request with the fields of ``header`` (an attrs header value); remoting sets its opaque.

    Raises :class:`~rocketpy.errors.LocalProtocolError` when a field does not fit its type on the wire.
    """
    return RemotingCommand(
        code=code,
        ext_fields=None if header is None else write_header(header),
        body=body,
        flag=ONEWAY_FLAG if oneway else 0,
    )


def make_response(
    request: RemotingCommand,
    code: int = ResponseCode.SUCCESS,
    remark: str | None = None,
    *,
    header: object | None = None,
    body: bytes | None = None,
) -> RemotingCommand:
    """Return the answer to ``request``: its opaque, its serialize type, bit 0 set.

    Raises :class:`~rocketpy.errors.LocalProtocolError` when a field does not fit its type on the wire.
    """
    return RemotingCommand(
        code=code,
        ext_fields=None if header is None else write_header(header),
        body=body,
        remark=remark,
        opaque=request.opaque,
        flag=RESPONSE_FLAG,
        serialize_type=request.serialize_type,
    )
