"""Length words and JSON header of the frame that answers a pull.

    | total i32 | header length i32 | {"code":0,"extFields":{"suggestWhichBrokerId":"0","nextBeginOffset":"32",
                                                                                    ~                     ~~
      "minOffset":"0","maxOffset":"4000"},"flag":1,...,"opaque":7,...} | records |
                   ~                ~~~~                        ~

What is underlined is written, the rest is given once.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64

from rocketpy.protocol.kernels.ascii_text import decimal_width, write_decimal

_FRAME_MAX: Final[i64] = 0x7FFF_FFFF - 4
"""A larger size does not fit its word, and compiled code would drop its highest bits."""


@final
class PullFoundHeads:
    """Writer of the heads of one kind of answer."""

    def __init__(self, texts: tuple[bytes, bytes, bytes, bytes, bytes, bytes]) -> None:
        """Take the texts of the header before, between and after the numbers."""
        self._texts = texts
        self._size: i64 = i64(len(b"".join(texts)))
        self._writer = BytesWriter()

    def head(
        self, broker_id: i64, next_begin_offset: i64, min_offset: i64, max_offset: i64, opaque: i64, body_size: i64
    ) -> bytes:
        """Return the frame without its body."""
        size = self._size + decimal_width(broker_id) + decimal_width(next_begin_offset)
        size += decimal_width(min_offset) + decimal_width(max_offset) + decimal_width(opaque)
        if body_size < 0 or body_size > _FRAME_MAX or size > _FRAME_MAX - body_size:
            raise ValueError(f"expected a body of 0 to {_FRAME_MAX - size} bytes, found {body_size}")
        writer, texts = self._writer, self._texts
        writer.truncate(0)
        write_i32_be(writer, i32(size + body_size + 4))
        write_i32_be(writer, i32(size))
        writer.write(texts[0])
        write_decimal(writer, broker_id)
        writer.write(texts[1])
        write_decimal(writer, next_begin_offset)
        writer.write(texts[2])
        write_decimal(writer, min_offset)
        writer.write(texts[3])
        write_decimal(writer, max_offset)
        writer.write(texts[4])
        write_decimal(writer, opaque)
        writer.write(texts[5])
        return writer.getvalue()
