"""Responses to pulls: code, offsets and records for every outcome.

Compatibility: ``PullMessageProcessor`` (4.9.8). The remark is the name of the store's status.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, final

from rocketpy import BUILD
from rocketpy.broker.pull.request import PullRequest
from rocketpy.errors import LocalProtocolError
from rocketpy.protocol.codes import ResponseCode, SerializeType
from rocketpy.protocol.command import RESPONSE_FLAG, RemotingCommand
from rocketpy.protocol.frame import FRAME_LENGTH_MAX, encode_frame
from rocketpy.protocol.headers.codec import write_header
from rocketpy.protocol.headers.pull import PullMessageResponseHeader
from rocketpy.store.read.plain_read import PlainRead
from rocketpy.store.results import GetMessageResult, GetMessageStatus

if TYPE_CHECKING:  # where kernels are not compiled nothing loads them
    from rocketpy.protocol.kernels.pull_found import PullFoundHeads

_LENGTHS: Final = struct.Struct(">II")
_TOTAL_MAX: Final = FRAME_LENGTH_MAX - 4
_BODY_MAX: Final = FRAME_LENGTH_MAX - 1024
"""Bytes of a body with which a frame is certainly not too long: a header has less than half of the rest."""

_FIXED_CODES = {
    GetMessageStatus.FOUND: ResponseCode.SUCCESS,
    GetMessageStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


def pull_response_code(status: GetMessageStatus, queue_offset: int) -> int:
    """Return the response code of a store status; for an empty queue it depends on the requested offset."""
    code = _FIXED_CODES.get(status)
    if code is None:
        code = ResponseCode.PULL_OFFSET_MOVED if queue_offset != 0 else ResponseCode.PULL_NOT_FOUND
    return code


def encode_pull_answer(pull: PullRequest, code: int, result: GetMessageResult, broker_id: int) -> bytes:
    """Return the response frame in the serialize type of the request.

    Raise LocalProtocolError when it exceeds the longest frame, which takes a first message of nearly that length.
    """
    if code == 0 and pull.serialize_type is SerializeType.JSON:
        return encode_found_answer(pull.opaque, result, broker_id)
    fields = PullMessageResponseHeader(
        suggest_which_broker_id=broker_id,
        next_begin_offset=result.next_begin_offset,
        min_offset=result.min_offset,
        max_offset=result.max_offset,
    )
    return encode_frame(
        RemotingCommand(
            code=code,
            remark=result.status.name,
            ext_fields=write_header(fields),
            body=result.body if code == 0 else None,
            flag=RESPONSE_FLAG,
            opaque=pull.opaque,
            serialize_type=pull.serialize_type,
        )
    )


def encode_found_answer(opaque: int, result: GetMessageResult | PlainRead, broker_id: int) -> bytes:
    """Return the response frame in JSON of a pull that has found messages, or whose filter has wanted none of those
    that it looked at. LocalProtocolError if it is too long.
    """
    template = _FOUND if result.message_count else _NONE_MATCHED
    header = template % (broker_id, result.next_begin_offset, result.min_offset, result.max_offset, opaque)
    body = result.body
    total = len(header) + len(body) + 4
    if total > _TOTAL_MAX:
        raise LocalProtocolError(f"frame: expected at most {FRAME_LENGTH_MAX} bytes, found {total + 4}")
    return b"".join((_LENGTHS.pack(total, len(header)), header, body))


@final
class FoundHead:
    """What :func:`encode_found_answer` writes before the records of one pull after the other."""

    def __init__(self, *, has_kernel: bool = BUILD.has_kernels) -> None:
        self.opaque = 0
        self.broker_id = 0
        self._kernel: PullFoundHeads | None = None
        if has_kernel:
            from rocketpy.protocol.kernels.pull_found import PullFoundHeads

            texts = [text.replace(b"%%", b"%") for text in _FOUND.split(b"%d")]
            self._kernel = PullFoundHeads((texts[0], texts[1], texts[2], texts[3], texts[4], texts[5]))

    def of(self, next_begin_offset: int, min_offset: int, max_offset: int, body_size: int) -> bytes | None:
        """Return the head for a body; None if the frame would be too long, or nearly."""
        if body_size > _BODY_MAX:
            return None
        kernel = self._kernel
        if kernel is not None:
            return kernel.head(self.broker_id, next_begin_offset, min_offset, max_offset, self.opaque, body_size)
        header = _FOUND % (self.broker_id, next_begin_offset, min_offset, max_offset, self.opaque)
        return _LENGTHS.pack(len(header) + body_size + 4, len(header)) + header


def _template(code: int, remark: str) -> bytes:
    """Derive a %-template from the generic encoder's output; it takes the fields in that order, opaque last."""
    fields = PullMessageResponseHeader(suggest_which_broker_id=1, next_begin_offset=2, min_offset=3, max_offset=4)
    frame = encode_frame(RemotingCommand(code=code, remark=remark, ext_fields=write_header(fields), flag=RESPONSE_FLAG))
    header = frame[8:].replace(b"%", b"%%")
    position = 0
    for name, value in ((b"suggestWhichBrokerId", 1), (b"nextBeginOffset", 2), (b"minOffset", 3), (b"maxOffset", 4)):
        field = b'"%b":"%d"' % (name, value)
        assert header.find(field) > position, header
        position = header.find(field)
        header = header.replace(field, b'"%b":"%%d"' % name)
    assert header.find(b'"opaque":0') > position, header
    return header.replace(b'"opaque":0', b'"opaque":%d')


_FOUND: Final = _template(ResponseCode.SUCCESS, GetMessageStatus.FOUND.name)
_NONE_MATCHED: Final = _template(ResponseCode.PULL_RETRY_IMMEDIATELY, GetMessageStatus.NO_MATCHED_MESSAGE.name)
