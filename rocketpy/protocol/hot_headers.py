"""The headers of a send and of a pull, decoded in one step by ``msgspec`` from JSON: the hot path's own way.

The generic way (``decode_command``, then ``read_header``) and this one give the same values; the tests feed both the
same frames. This one is strict: whatever it does not know for certain (a missing field, a number out of range, sloppy
JSON, a hook's extra field that changes the meaning) raises :data:`HOT_HEADER_ERRORS`, and the caller takes the generic
way, which tolerates or explains it.

Compatibility: ``SendMessageRequestHeaderV2`` and ``PullMessageRequestHeader`` of 4.9.8; wire.md 2.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Numbers in the bounds that they keep on the wire."""

HOT_HEADER_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the decoders raise when a header is not for them (``msgspec.ValidationError`` is a ``DecodeError``).

``RecursionError`` is of a key that the decoder skips, with arrays that nest too deep: the general path refuses it.
"""


class HotSendFields(
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


class HotSendHeader(msgspec.Struct, rename={"ext_fields": "extFields"}, gc=False):
    """A whole SEND_MESSAGE_V2 header; the request code was read by whoever chose this decoder."""

    ext_fields: HotSendFields
    opaque: Int32
    flag: Int32 = 0


class HotPullFields(msgspec.Struct, rename="camel", gc=False):
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


class HotPullHeader(msgspec.Struct, rename={"ext_fields": "extFields"}, gc=False):
    """A whole PULL_MESSAGE header."""

    ext_fields: HotPullFields
    opaque: Int32
    flag: Int32 = 0


DecodeSend = Callable[[bytes], HotSendHeader]

decode_hot_send: Final = msgspec.json.Decoder(HotSendHeader, strict=False).decode
decode_hot_pull: Final = msgspec.json.Decoder(HotPullHeader, strict=False).decode
