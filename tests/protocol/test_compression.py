"""Compressed bodies: Java's can be read, bombs and damage are refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
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

VECTORS = json.loads((Path(__file__).parents[1] / "golden" / "vectors.json").read_text())
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


@pytest.mark.parametrize("compression", ALL)
def test_every_cut_is_refused(compression: CompressionType) -> None:
    stream = compress(BODY, compression)
    for cut in range(len(stream)):
        with pytest.raises(RemoteProtocolError, match=f"expected a whole {compression.name} stream, found damage"):
            decompress(stream[:cut], compression)


@pytest.mark.parametrize("compression", ALL)
@given(body=st.binary(max_size=200))
def test_garbage_is_refused(compression: CompressionType, body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decompress(b"\xff" + body, compression)


def test_bytes_behind_the_stream_are_ignored_as_in_java() -> None:
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


def test_a_type_that_nobody_has_defined_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="found sysFlag 0x401"):
        compression_type(0x401)


@pytest.mark.parametrize("compression", ALL)
def test_the_flag_is_set(compression: CompressionType) -> None:
    assert compression_type(compressed_sys_flag(0x738, compression)) is compression
    assert compressed_sys_flag(0x738, compression) & 0x38 == 0x38
