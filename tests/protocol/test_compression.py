"""Compressed bodies: Java's can be read, bombs and damage are refused."""

from __future__ import annotations

import sys
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.compression import (
    CompressionType,
    compress,
    compressed_sys_flag,
    compression_type,
    decompress,
)
from tests.recorded import VECTORS

ALL = list(CompressionType)
BODY = b"compress me " * 300


@pytest.mark.parametrize("vector", VECTORS["compress"], ids=lambda vector: str(vector["level"]))
def test_streams_of_java_are_read(vector: dict[str, object]) -> None:
    stream, body = (bytes.fromhex(str(vector[key])) for key in ("hex", "input_hex"))
    assert decompress(stream, CompressionType.ZLIB) == body
    assert decompress(compress(body, CompressionType.ZLIB, int(str(vector["level"]))), CompressionType.ZLIB) == body


@pytest.mark.parametrize("compression", ALL)
@given(body=st.binary(max_size=2000))
def test_what_is_compressed_is_read_again(compression: CompressionType, body: bytes) -> None:
    assert decompress(compress(body, compression), compression) == body
    assert decompress(memoryview(compress(body, compression)), compression) == body


@pytest.mark.parametrize("compression", ALL)
def test_a_body_may_grow_to_the_limit_and_no_further(compression: CompressionType) -> None:
    stream = compress(BODY, compression)
    assert decompress(stream, compression, size_max=len(BODY)) == BODY
    with pytest.raises(RemoteProtocolError, match=f"at most {len(BODY) - 1} bytes out of {compression.name}"):
        decompress(stream, compression, size_max=len(BODY) - 1)


@pytest.mark.parametrize("compression", ALL)
def test_a_bomb_is_refused_before_it_has_grown(compression: CompressionType) -> None:
    bomb = compress(bytes(100_000_000), compression)
    assert len(bomb) < 1_000_000
    with pytest.raises(RemoteProtocolError, match="found more"):
        decompress(bomb, compression, size_max=100_000)


def zstd_stream(body: bytes, *, has_checksum: bool, block_size: int) -> bytes:
    """Return what Java's ZstdOutputStream writes: a frame of several blocks without the size of its content."""
    compressor = zstandard.ZstdCompressor(write_checksum=has_checksum).compressobj()
    pieces = [body[start : start + block_size] for start in range(0, len(body), block_size)]
    return (
        b"".join(compressor.compress(piece) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for piece in pieces)
        + compressor.flush()
    )


@pytest.mark.parametrize("has_checksum", [False, True])
@pytest.mark.parametrize("body", [BODY, bytes(3000), bytes(range(256)) * 4, b""], ids=["text", "zeros", "raw", "empty"])
def test_every_cut_of_a_zstd_stream_without_a_size_is_refused(body: bytes, has_checksum: bool) -> None:
    """The decoder itself takes a cut stream for a shorter one."""
    stream = zstd_stream(body, has_checksum=has_checksum, block_size=700)
    assert zstandard.frame_content_size(stream) == (-1 if body else 0)
    for whole in (stream, memoryview(stream)):
        assert decompress(whole, CompressionType.ZSTD) == body
    for cut in range(len(stream)):
        with pytest.raises(RemoteProtocolError, match="expected a whole ZSTD stream, found damage"):
            decompress(stream[:cut], CompressionType.ZSTD)


@pytest.mark.parametrize(
    ("compression", "stream"),
    [
        *((compression, compress(BODY, compression)) for compression in ALL),
        (CompressionType.ZLIB, zlib.compress(bytes(range(256)) * 8, 0)),
        (CompressionType.LZ4, lz4.frame.compress(BODY, content_checksum=True, store_size=True)),
        (CompressionType.LZ4, lz4.frame.compress(BODY * 30, block_size=lz4.frame.BLOCKSIZE_MAX64KB, store_size=False)),
        (CompressionType.LZ4, lz4.frame.compress(BODY, block_linked=False, block_checksum=True, store_size=False)),
        (CompressionType.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(BODY)),
        (CompressionType.ZSTD, zstandard.ZstdCompressor(write_content_size=True).compress(b"")),
    ],
)
def test_every_cut_is_refused_however_the_stream_was_written(compression: CompressionType, stream: bytes) -> None:
    decompress(stream, compression)
    for cut in range(len(stream)):
        with pytest.raises(RemoteProtocolError, match=f"expected a whole {compression.name} stream, found damage"):
            decompress(stream[:cut], compression)


@pytest.mark.parametrize("compression", ALL)
@given(body=st.binary(max_size=200))
def test_garbage_is_refused(compression: CompressionType, body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decompress(b"\xff" + body, compression)


def test_bytes_after_the_stream_are_ignored_as_in_java() -> None:
    assert decompress(compress(BODY, CompressionType.ZLIB) + b"more", CompressionType.ZLIB) == BODY


@pytest.mark.parametrize(
    ("compression", "package", "module"),
    [(CompressionType.LZ4, "lz4", "lz4.frame"), (CompressionType.ZSTD, "zstandard", "zstandard")],
)
def test_a_missing_package_is_named(
    compression: CompressionType, package: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(LocalProtocolError, match=f"install the package {package} "):
        compress(b"", compression)
    with pytest.raises(LocalProtocolError, match=f"install the package {package} "):
        decompress(b"", compression)


@pytest.mark.parametrize(
    ("sys_flag", "compression"),
    [
        (0, None),
        (0x300, None),
        (0x1, CompressionType.ZLIB),  # a producer that knows no types
        (0x101, CompressionType.LZ4),
        (0x201, CompressionType.ZSTD),
        (0x301, CompressionType.ZLIB),
        (0x33D, CompressionType.ZLIB),
    ],
)
def test_the_flag_says_how(sys_flag: int, compression: CompressionType | None) -> None:
    assert compression_type(sys_flag) is compression


def test_an_undefined_type_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="found sysFlag 0x401"):
        compression_type(0x401)


@pytest.mark.parametrize("compression", ALL)
def test_the_flag_is_set(compression: CompressionType) -> None:
    assert compression_type(compressed_sys_flag(0x738, compression)) is compression
    assert compressed_sys_flag(0x738, compression) & 0x38 == 0x38
