"""Bodies as stored and as they were before the producer compressed them."""

from __future__ import annotations

import zlib

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.errors import StoreError
from rocketpy.protocol.compression import CompressionType, compress, compressed_sys_flag
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import encode_message
from rocketpy.spark.columns.bodies import BadBodies, decompressed_bodies, find_bad_bodies, stored_bodies
from rocketpy.spark.columns.records import find_records
from rocketpy.spark.columns.wanted import WantedRecords

ZLIB = compressed_sys_flag(0, CompressionType.ZLIB)


def records_of(*bodies: tuple[bytes, int]) -> WantedRecords:
    content = b""
    for body, sys_flag in bodies:
        content += encode_message(MessageExt("T", body, sys_flag=sys_flag, physical_offset=1000 + len(content)))
    return WantedRecords(find_records(content, path="/f", file_base_offset=1000).block)


@pytest.mark.parametrize("kind", list(CompressionType))
def test_bodies_of_each_compression_stand_between_plain_ones(kind: CompressionType) -> None:
    packed = compress(b"x" * 1000, kind)
    records = records_of((b"a", 0), (packed, compressed_sys_flag(0, kind)), (b"", 0), (packed, 0))
    assert stored_bodies(records).to_pylist() == [b"a", packed, b"", packed]
    assert decompressed_bodies(records).values.to_pylist() == [b"a", b"x" * 1000, b"", packed]


def test_a_producer_older_than_the_bits_of_the_algorithm_means_zlib() -> None:
    assert decompressed_bodies(records_of((zlib.compress(b"old"), 1))).values.to_pylist() == [b"old"]


def test_an_empty_body_is_empty_whatever_the_flag_says() -> None:
    assert decompressed_bodies(records_of((b"", ZLIB), (b"", 1 | 0x700))).values.to_pylist() == [b"", b""]


@pytest.mark.parametrize(("body", "sys_flag"), [(b"no zlib", ZLIB), (zlib.compress(b"x" * 99)[:9], 1), (b"x", 0x701)])
def test_a_body_that_does_not_decompress_is_named_with_its_file(body: bytes, sys_flag: int) -> None:
    with pytest.raises(StoreError, match="decompress=false") as caught:
        decompressed_bodies(records_of((b"first", 0), (body, sys_flag)))
    assert (caught.value.path, caught.value.position) == ("/f", 97)


def test_bodies_that_do_not_decompress_stand_as_they_are_stored_and_are_named() -> None:
    records = records_of((b"first", 0), (b"no zlib", ZLIB), (zlib.compress(b"good"), ZLIB), (b"x", 0x701))
    bodies = decompressed_bodies(records, bad_bodies=BadBodies.KEEP)
    assert bodies.values.to_pylist() == [b"first", b"no zlib", b"good", b"x"]
    assert bodies.bad == [1, 3]
    found = dict(find_bad_bodies(records))
    assert list(found) == [1, 3]
    assert all("decompress=false" not in why for why in found.values())


@pytest.mark.parametrize(("bytes_max", "count"), [(1, 2), (1000, 2), (1001, 4), (10**9, 5)])
def test_decompression_stops_before_the_body_after_the_limit(bytes_max: int, count: int) -> None:
    """At least one body is decompressed, so that there is progress; plain ones in between are free."""
    packed = (zlib.compress(b"x" * 1000), ZLIB)
    records = records_of(packed, (b"a", 0), packed, (b"b", 0), packed)
    bodies = decompressed_bodies(records, bytes_max=bytes_max).values
    assert bodies.to_pylist() == [b"x" * 1000, b"a", b"x" * 1000, b"b", b"x" * 1000][:count]
