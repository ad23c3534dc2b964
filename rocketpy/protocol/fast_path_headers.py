"""Fast path for the headers of sends, batches and pulls in JSON: decoded in one step by ``msgspec``.

The general path (``decode_command``, then ``read_header``) gives the same values; the tests feed both the same frames.
The fast path is strict: any doubt (a missing field, a number out of range, non-standard JSON, a hook's extra field that
changes the meaning) raises :data:`FAST_HEADER_ERRORS`, and the caller falls back to the general path, which accepts the
header or explains the error.

Rule: only requests are decoded, whose flag is 0, or 2 for a oneway. The flag 1 is that of a response.

Rule: a header is decoded by the decoder of one request code only if every member ``code`` in it has that value, and if
it has no member but those of a command. A fast path is chosen by the first member. The general path takes the last one,
also one that is named ``Code``: without this rule a request could be served by one code here and by another there.

Compatibility: ``SendMessageRequestHeaderV2`` and ``PullMessageRequestHeader`` of 4.9.8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Literal

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Integers with the ranges of their wire types."""

FAST_HEADER_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised by the decoders for a header that needs the general path (``ValidationError`` is a ``DecodeError``).

``RecursionError`` is of a key that the decoder skips, with arrays that nest too deep: the general path refuses it.
"""


class FastSendFields(
    msgspec.Struct,
    rename={
        "producer_group": "a",
        "topic": "b",
        "default_topic": "c",
        "default_topic_queue_nums": "d",
        "queue_id": "e",
        "sys_flag": "f",
        "born_timestamp": "g",
        "flag": "h",
        "properties": "i",
        "reconsume_times": "j",
        "unit_mode": "k",
        "max_reconsume_times": "l",
        "batch": "m",
    },
    gc=False,
):
    """The one-letter fields of SEND_MESSAGE_V2."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str = ""
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    max_reconsume_times: Int32 = 0
    batch: bool = False


class FastHeader(
    msgspec.Struct,
    rename={"serialize_type": "serializeTypeCurrentRPC", "ext_fields": "extFields"},
    forbid_unknown_fields=True,
    kw_only=True,
    gc=False,
):
    """The members of a command but ``code`` and ``extFields``. What is not read is decoded to be checked."""

    flag: Literal[0, 2] = 0
    language: str | None = None
    opaque: Int32
    remark: str | None = None
    serialize_type: str | None = None
    version: Int32 = 0


class FastSendHeader(FastHeader, kw_only=True, gc=False):
    """A whole SEND_MESSAGE_V2 header."""

    code: Literal[310]
    ext_fields: FastSendFields


class FastBatchHeader(FastHeader, kw_only=True, gc=False):
    """A whole SEND_BATCH_MESSAGE header, which has the fields of a send."""

    code: Literal[320]
    ext_fields: FastSendFields


class FastPullFields(msgspec.Struct, rename="camel", gc=False):
    """The fields of PULL_MESSAGE."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    sub_version: Int64
    subscription: str | None = None
    expression_type: str | None = None


class FastPullHeader(FastHeader, kw_only=True, gc=False):
    """A whole PULL_MESSAGE header."""

    code: Literal[11]
    ext_fields: FastPullFields


class TextFields(msgspec.Struct, rename={"ext_fields": "extFields"}, gc=False):
    """The ext fields of any header in which all of them are texts."""

    ext_fields: dict[str, str]


class _AccountFields(msgspec.Struct, rename={"access_key": "AccessKey"}, gc=False):
    access_key: str | None = None


class _AccountHeader(msgspec.Struct, rename={"ext_fields": "extFields"}, gc=False):
    ext_fields: _AccountFields


DecodeSend = Callable[[bytes], FastSendHeader]
DecodeBatch = Callable[[bytes], FastBatchHeader]

decode_fast_send: Final = msgspec.json.Decoder(FastSendHeader, strict=False).decode
decode_fast_batch: Final = msgspec.json.Decoder(FastBatchHeader, strict=False).decode
decode_fast_pull: Final = msgspec.json.Decoder(FastPullHeader, strict=False).decode
decode_texts: Final = msgspec.json.Decoder(TextFields).decode
_decode_account: Final = msgspec.json.Decoder(_AccountHeader).decode


def access_key_of(header: bytes) -> str | None:
    """Return the access key in a JSON header that has passed a fast path; None without one, or if it is no text."""
    try:
        return _decode_account(header).ext_fields.access_key
    except FAST_HEADER_ERRORS:
        return None
