"""Responses to producers: code, remark and header for every outcome of a send.

The plain success in JSON is formatted from a template, because it is the broker's most frequent response. Everything
else goes through the generic encoder. Both carry MSG_REGION and TRACE_ON: without them the Java client fails with a
NullPointerException.

Compatibility: ``SendMessageProcessor.handlePutMessageResult`` (4.9.8).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from rocketpy import BUILD
from rocketpy.protocol.codes import ResponseCode, SerializeType
from rocketpy.protocol.command import RESPONSE_FLAG, RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.codec import write_header
from rocketpy.protocol.headers.send import SendMessageResponseHeader
from rocketpy.store.results import PutMessageStatus

NUL = b"\0"
_TOO_MANY_LIGHT_QUEUES = (
    "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]broker config enableLmq and enableMultiDispatch, lmq consumeQueue num exceed "
    "maxLmqConsumeQueueNum config num, default limit 2w."
)
_LENGTHS = struct.Struct(">II")
_OFFSET_SIZE = 8

_STORED_CODES = {
    PutMessageStatus.PUT_OK: ResponseCode.SUCCESS,
    PutMessageStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutMessageStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
}
"""Codes for stored messages, with the full or a weaker durability guarantee."""

MessageIds = Callable[[bytes, list[int]], bytes]


def _kernel() -> MessageIds | None:
    if not BUILD.has_kernels:
        return None
    from rocketpy.protocol.kernels.batch import message_ids

    return message_ids


MESSAGE_IDS: Final = _kernel()
"""The kernel that writes the ids of a batch; None where the kernels are not compiled."""


@attrs.frozen
class Receipt:
    """Location of a stored message or batch, sufficient to answer its producer now or after the flush."""

    opaque: int
    serialize_type: SerializeType
    msg_id: str
    queue_id: int
    queue_offset: int


class SendAnswers:
    """Encoder of one broker's responses; each carries its region, its trace switch and its address."""

    def __init__(
        self,
        *,
        region_id: str,
        trace_on: bool,
        store_host: bytes,
        message_size_max: int,
        message_ids: MessageIds | None = MESSAGE_IDS,
    ) -> None:
        self._region_id = region_id
        self._message_ids = message_ids
        self._message_size_max = message_size_max
        self._host_hex = store_host.hex().upper()
        self.set_trace_on(trace_on)

    def set_trace_on(self, trace_on: bool) -> None:
        """Set TRACE_ON in all further responses: whether producers may write traces."""
        self._ext_fields = {"MSG_REGION": self._region_id, "TRACE_ON": "true" if trace_on else "false"}
        fixed = RemotingCommand(code=0, ext_fields=dict(self._ext_fields), flag=RESPONSE_FLAG, opaque=0)
        self._success = _success_template(encode_frame(fixed), self._host_hex.encode() + b"%016X")
        self._batch_success = _success_template(encode_frame(fixed), b"%b")

    @property
    def success_template(self) -> bytes:
        """The %-template of what :meth:`success` returns, for physical offset, queue id, queue offset and opaque."""
        return self._success

    def success(self, opaque: int, physical_offset: int, queue_id: int, queue_offset: int) -> bytes:
        """Return the JSON frame for SEND_OK, byte for byte what the generic encoder would write."""
        header = self._success % (physical_offset, queue_id, queue_offset, opaque)
        size = len(header)
        return _LENGTHS.pack(size + 4, size) + header

    def msg_id(self, physical_offset: int) -> str:
        """Return the offset message id of a record in this broker's log."""
        return f"{self._host_hex}{physical_offset:016X}"

    def batch_msg_id(self, physical_offsets: Sequence[int]) -> str:
        """Return the ids of a batch's records, joined by commas."""
        if self._message_ids is not None:
            return self._message_ids(self._host_hex.encode(), list(physical_offsets)).decode()
        offsets = struct.pack(f">{len(physical_offsets)}q", *physical_offsets)
        host_hex = self._host_hex
        return host_hex + offsets.hex(",", _OFFSET_SIZE).upper().replace(",", "," + host_hex)

    def batch_success(self, opaque: int, msg_id: str, queue_id: int, queue_offset: int) -> bytes:
        """Return the JSON frame for SEND_OK of a batch; see :meth:`success`."""
        header = self._batch_success % (msg_id.encode(), queue_id, queue_offset, opaque)
        size = len(header)
        return _LENGTHS.pack(size + 4, size) + header

    def stored(self, receipt: Receipt, status: PutMessageStatus) -> bytes:
        """Return the frame for a stored message, with the code of its durability status."""
        header = SendMessageResponseHeader(
            msg_id=receipt.msg_id, queue_id=receipt.queue_id, queue_offset=receipt.queue_offset
        )
        return encode_frame(
            RemotingCommand(
                code=_STORED_CODES[status],
                ext_fields=self._ext_fields | write_header(header),
                flag=RESPONSE_FLAG,
                opaque=receipt.opaque,
                serialize_type=receipt.serialize_type,
            )
        )

    def refused(self, request: RemotingCommand, code: int, remark: str | None) -> RemotingCommand:
        """Return the response to a send that stored nothing."""
        return RemotingCommand(
            code=code,
            remark=remark,
            ext_fields=dict(self._ext_fields),
            flag=RESPONSE_FLAG,
            opaque=request.opaque,
            serialize_type=request.serialize_type,
        )

    def refusal(self, status: PutMessageStatus, *, why: str | None, body: bytes, properties: bytes) -> tuple[int, str]:
        """Return the code and remark for a status under which nothing was stored.

        ``why`` is the store's reason for not being writable, ``properties`` the text as it would have been stored.
        """
        if status in (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED):
            return (
                ResponseCode.MESSAGE_ILLEGAL,
                "the message is illegal, maybe msg body or properties length not matched. msg body length limit "
                f"{self._message_size_max}B, msg properties length limit 32KB. "
                f"Found a body of {len(body)}B and properties of {len(properties)}B"
                f"{', with a NUL among them' if NUL in properties else ''}",
            )
        if status is PutMessageStatus.SERVICE_NOT_AVAILABLE:
            return (
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"service not available now: {why or 'the message store is shutting down'}",
            )
        if status is PutMessageStatus.CREATE_MAPEDFILE_FAILED:
            return ResponseCode.SYSTEM_ERROR, "create mapped file failed, server is busy or broken."
        if status is PutMessageStatus.OS_PAGECACHE_BUSY:
            return ResponseCode.SYSTEM_ERROR, "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
        if status is PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED:
            return ResponseCode.SYSTEM_ERROR, _TOO_MANY_LIGHT_QUEUES
        return ResponseCode.SYSTEM_ERROR, status.name


def _success_template(frame: bytes, msg_id: bytes) -> bytes:
    """Derive a %-template from an encoded response without message fields, so that both encoders agree."""
    header = frame[8:].replace(b"%", b"%%")
    fields_end = header.index(b'},"flag":')
    fields = b',"msgId":"' + msg_id + b'","queueId":"%d","queueOffset":"%d"'
    header = header[:fields_end] + fields + header[fields_end:]
    before, opaque, after = header.partition(b'"opaque":0')
    assert opaque, header
    return before + b'"opaque":%d' + after
