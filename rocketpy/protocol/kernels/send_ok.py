"""The frame that answers a stored message: SEND_OK in JSON.

    | total i32 | header length i32 | {"code":0,"extFields":{...,"msgId":"HOST....0000000000000400","queueId":"3",
                                                                               ~~~~~~~~~~~~~~~~             ~
      "queueOffset":"17"},"flag":1,...,"opaque":7,...} |
                     ~~                         ~

What is underlined is written, the rest is given once.
"""

from __future__ import annotations

from typing import final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64, u8

from rocketpy.protocol.kernels.ascii_text import decimal_width, write_decimal


@final
class SendOkFrames:
    """Writer of the frames of one broker."""

    def __init__(self, before_offset: bytes, before_opaque: bytes, after: bytes) -> None:
        """Take the header: up to the physical offset, between queue offset and opaque, and the rest."""
        self._before_offset = before_offset
        self._before_opaque = before_opaque
        self._after = after
        fixed = before_offset + b'","queueId":"' + b'","queueOffset":"' + before_opaque + after
        self._size: i64 = i64(len(fixed)) + 16
        self._writer = BytesWriter()

    def frame(self, opaque: i64, physical_offset: i64, queue_id: i64, queue_offset: i64) -> bytes:
        """Return the frame."""
        size = self._size + decimal_width(opaque) + decimal_width(queue_id) + decimal_width(queue_offset)
        writer = self._writer
        writer.truncate(0)
        write_i32_be(writer, i32(size + 4))
        write_i32_be(writer, i32(size))
        writer.write(self._before_offset)
        shift: i64 = 60
        while shift >= 0:
            digit = (physical_offset >> shift) & 15
            writer.append(u8(digit + (0x30 if digit < 10 else 0x37)))
            shift -= 4
        writer.write(b'","queueId":"')
        write_decimal(writer, queue_id)
        writer.write(b'","queueOffset":"')
        write_decimal(writer, queue_offset)
        writer.write(self._before_opaque)
        write_decimal(writer, opaque)
        writer.write(self._after)
        return writer.getvalue()
