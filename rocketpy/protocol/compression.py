"""Compression of message bodies, as declared in the sysFlag of the message.

Bit 0: compressed. Bits 8 to 10: the algorithm; a producer older than 4.9.5 leaves them 0 and means zlib. LZ4 uses its
frame format, ZSTD a standard frame. zlib is in the standard library; the other two need the packages ``lz4`` and
``zstandard``.

Rule: decompression never yields more than the caller allows, whatever the compressed bytes claim.
"""

from __future__ import annotations

import zlib
from enum import IntEnum

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.sysflag import COMPRESSED_FLAG, COMPRESSION_TYPE_MASK

DECOMPRESSED_SIZE_MAX = 64 * 2**20
"""Default limit on a decompressed body; RocketMQ has none and runs out of memory."""

DEFAULT_LEVEL = 5

_ZSTD_HEADER_SIZE_MAX = 18
_ZSTD_BLOCK_HEADER_SIZE = 3


class CompressionType(IntEnum):
    """The values of bits 8 to 10 of a sysFlag."""

    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300


def compression_type(sys_flag: int) -> CompressionType | None:
    """Return the algorithm of a body, ``None`` if uncompressed; RemoteProtocolError for an undefined type."""
    if not sys_flag & COMPRESSED_FLAG:
        return None
    number = sys_flag & COMPRESSION_TYPE_MASK
    try:
        return CompressionType(number) if number else CompressionType.ZLIB
    except ValueError:
        raise RemoteProtocolError(
            f"compression: expected LZ4, ZSTD or ZLIB in bits 8 to 10, found sysFlag {sys_flag:#x}"
        ) from None


def compressed_sys_flag(sys_flag: int, compression: CompressionType) -> int:
    """Return ``sys_flag`` with the bits for a body compressed with ``compression`` set."""
    return sys_flag & ~COMPRESSION_TYPE_MASK | compression | COMPRESSED_FLAG


def compress(body: bytes, compression: CompressionType, level: int = DEFAULT_LEVEL) -> bytes:
    """Return ``body`` compressed; :class:`~rocketpy.errors.LocalProtocolError` when the package for it is missing."""
    match compression:
        case CompressionType.ZLIB:
            return zlib.compress(body, level)
        case CompressionType.LZ4:
            return _compress_lz4(body)
        case CompressionType.ZSTD:
            return _compress_zstd(body, level)


class UnpackedSizeError(RemoteProtocolError):
    """What would be decompressed is longer than the caller allows."""


def decompress(
    body: bytes | memoryview, compression: CompressionType, *, size_max: int = DECOMPRESSED_SIZE_MAX
) -> bytes:
    """Return ``body`` decompressed; bytes after the end of the compressed stream are ignored, as in Java.

    Raises :class:`~rocketpy.errors.RemoteProtocolError` when it is damaged, cut short or would grow beyond
    ``size_max``, and :class:`~rocketpy.errors.LocalProtocolError` when the package for it is missing.
    """
    match compression:
        case CompressionType.ZLIB:
            return _decompress_zlib(body, size_max)
        case CompressionType.LZ4:
            return _decompress_lz4(body, size_max)
        case CompressionType.ZSTD:
            return _decompress_zstd(body, size_max)


def _decompress_zlib(body: bytes | memoryview, size_max: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(body, size_max + 1)
    except zlib.error as error:
        raise _damaged("ZLIB", str(error)) from None
    return _checked(content, "ZLIB", size_max, is_whole=inflater.eof)


def _compress_lz4(body: bytes) -> bytes:
    try:
        import lz4.frame
    except ImportError:
        raise _missing("LZ4", "lz4") from None
    content: bytes = lz4.frame.compress(body)
    return content


def _decompress_lz4(body: bytes | memoryview, size_max: int) -> bytes:
    try:
        import lz4.frame
    except ImportError:
        raise _missing("LZ4", "lz4") from None
    decompressor = lz4.frame.LZ4FrameDecompressor()
    try:
        content = decompressor.decompress(body, max_length=size_max + 1)
    except RuntimeError as error:
        raise _damaged("LZ4", str(error)) from None
    return _checked(content, "LZ4", size_max, is_whole=decompressor.eof)


def _compress_zstd(body: bytes, level: int) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise _missing("ZSTD", "zstandard") from None
    content: bytes = zstandard.ZstdCompressor(level=level).compress(body)
    return content


def _decompress_zstd(body: bytes | memoryview, size_max: int) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise _missing("ZSTD", "zstandard") from None
    content = bytearray()
    try:
        with zstandard.ZstdDecompressor().stream_reader(body) as reader:
            while len(content) <= size_max:
                chunk = reader.read(min(size_max + 1 - len(content), zstandard.DECOMPRESSION_RECOMMENDED_OUTPUT_SIZE))
                if not chunk:
                    break
                content += chunk
        head = bytes(body[:_ZSTD_HEADER_SIZE_MAX])
        whole_size = zstandard.frame_content_size(head)
        parameters = zstandard.get_frame_parameters(head)
        blocks_start = zstandard.frame_header_size(head)
    except zstandard.ZstdError as error:
        raise _damaged("ZSTD", str(error)) from None
    is_whole = _has_last_zstd_block(body, blocks_start, 4 if parameters.has_checksum else 0)
    return _checked(bytes(content), "ZSTD", size_max, is_whole=is_whole and whole_size in (-1, len(content)))


def _has_last_zstd_block(body: bytes | memoryview, position: int, checksum_size: int) -> bool:
    """Whether a ZSTD frame is complete; the decoder reads a truncated one as far as it goes, without an error.

    A frame that was written as a stream does not declare the length of its content, so its blocks have to be walked.
    Each has a header of 3 bytes, little-endian: bit 0 marks the last block, bits 1 and 2 are the type (0 raw, 1 one
    byte repeated, 2 compressed), and the others the size; a repeated block holds only that one byte.
    """
    while position + _ZSTD_BLOCK_HEADER_SIZE <= len(body):
        header = int.from_bytes(body[position : position + _ZSTD_BLOCK_HEADER_SIZE], "little")
        position += _ZSTD_BLOCK_HEADER_SIZE + (1 if header >> 1 & 3 == 1 else header >> 3)
        if header & 1:
            return position + checksum_size <= len(body)
    return False


def _checked(content: bytes, name: str, size_max: int, *, is_whole: bool) -> bytes:
    if len(content) > size_max:
        raise UnpackedSizeError(f"compression: expected at most {size_max} bytes out of {name}, found more")
    if not is_whole:
        raise _damaged(name, "it ends too early")
    return content


def _damaged(name: str, reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"compression: expected a whole {name} stream, found damage: {reason}")


def _missing(name: str, package: str) -> LocalProtocolError:
    return LocalProtocolError(f"compression: a body is compressed with {name}; install the package {package} to use it")
