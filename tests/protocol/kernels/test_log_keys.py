"""The kernel reads the keys that the general path reads, record by record, or stops before the record."""

from __future__ import annotations

import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.java_hash import index_key_hash, java_hash
from rocketpy.protocol.kernels.log_keys import LogKeys
from rocketpy.protocol.stored_message import RecordStatus, check_message, pack_record_head
from tests.store.golden_store import unpack_store

V4, V6 = b"\x7f\0\0\1\0\0\x2a\x9f", bytes(16) + b"\0\0\x2a\x9f"
NAMES = st.sampled_from((b"UNIQ_KEY", b"KEYS", b"TAGS", b"WAIT", b"UNIQ_KEYS", b"KEY", b"XKEYS", b"", b"KEYS\xc3\xa4"))
VALUES = st.one_of(
    st.sampled_from((b"", b" ", b"a b", b" a  b ", b"x" * 40, b"\xc3\xa4 \xff", b"a\x01b", b"KEYS\x01v")),
    st.binary(max_size=40).map(lambda value: value.replace(b"\0", b"0").replace(b"\2", b"2")),
)
ENTRIES = st.lists(st.tuples(NAMES, VALUES), max_size=5).map(lambda entries: [b"\1".join(entry) for entry in entries])
TEXTS = st.one_of(
    ENTRIES.map(b"\2".join),
    ENTRIES.map(lambda entries: b"".join(entry + b"\2" for entry in entries)),
    st.binary(max_size=60),
    st.just(b"KEYS\1" + b"k " * 200),
)
RECORD = st.tuples(
    st.sampled_from((b"T", b"TopicTest", b"\xc3\xa4", b"")),
    TEXTS,
    st.binary(max_size=30),
    st.sampled_from((0, 0, 0, 0, 4, 8, 12, 1)),
    st.sampled_from((V4, V4, V4, V6)),
    st.integers(0, 2**62),
)
RECORDS = st.lists(RECORD, max_size=8)


def reader() -> LogKeys:
    return LogKeys(
        lambda topic: java_hash(f"{topic.decode('utf-8', 'replace')}#") & 0xFFFF_FFFF,
        lambda topic, key: index_key_hash(f"{topic.decode('utf-8', 'replace')}#{key.decode('utf-8', 'replace')}"),
    )


def log_of(records: list[tuple[bytes, bytes, bytes, int, bytes, int]], offset: int) -> bytes:
    log = b""
    for topic, text, body, sys_flag, host, timestamp_ms in records:
        size = 68 + len(V4) + len(host) + len(body) + len(topic) + len(text) + 7
        head = pack_record_head(
            size, 0, 1, 0, 5, offset + len(log), sys_flag, 7, host, timestamp_ms, V4, 0, 0, len(body)
        )
        log += head + body + bytes((len(topic),)) + topic + struct.pack(">h", len(text)) + text
        assert len(head) + len(body) + 3 + len(topic) + len(text) == size
    return log


def keys_of(log: bytes, begin: int, offset: int, end: int) -> bytes:
    """Return the keys of records by the general path."""
    keys = b""
    while begin < end:
        record = check_message(log, begin, len(log) - begin, check_crc=False, read_body=False)
        assert record.status is RecordStatus.MESSAGE
        assert record.physical_offset == offset
        for key in record.index_keys():
            hashed = index_key_hash(f"{record.topic}#{key.decode()}")
            keys += struct.pack(">iqq", hashed, record.physical_offset, record.store_timestamp)
        begin, offset = begin + record.size, offset + record.size
    assert begin == end
    return keys


def is_plain(record: tuple[bytes, bytes, bytes, int, bytes, int]) -> bool:
    """Whether the kernel must take a record."""
    _, text, _, sys_flag, host, _ = record
    return sys_flag not in (4, 12) and host is V4 and b"\0" not in text


@given(RECORDS, st.integers(0, 1 << 40), st.integers(0, 20))
def test_keys_are_those_of_the_general_path(
    records: list[tuple[bytes, bytes, bytes, int, bytes, int]], offset: int, before: int
) -> None:
    log = bytes(before) + log_of(records, offset)
    keys, end = reader().read(log, before, offset, 1 << 30)
    assert keys == keys_of(log, before, offset, end)
    plain_count = next((number for number, record in enumerate(records) if not is_plain(record)), len(records))
    assert end >= before + len(log_of(records[:plain_count], offset))
    if plain_count < len(records) and (records[plain_count][3] in (4, 12) or records[plain_count][4] is V6):
        assert end == before + len(log_of(records[:plain_count], offset))


@given(st.lists(RECORD.filter(is_plain), max_size=8), st.integers(1, 6))
def test_a_walk_ends_with_enough_keys_and_goes_on(
    records: list[tuple[bytes, bytes, bytes, int, bytes, int]], count_max: int
) -> None:
    log, keys, end, walk = log_of(records, 7), b"", 0, reader()
    while end < len(log):
        more, next_end = walk.read(log, end, 7 + end, count_max)
        assert next_end > end
        assert len(more) >= 20 * count_max or next_end == len(log)
        keys, end = keys + more, next_end
    assert keys == keys_of(log, 0, 7, len(log))


@given(st.data())
def test_a_walk_ends_before_what_is_cut_or_damaged(data: st.DataObject) -> None:
    record = (b"T", b"UNIQ_KEY\x01abc\x02KEYS\x01a b", b"body", 0, V4, 9)
    log = log_of([record, record], 100)
    size = len(log) // 2
    cut = data.draw(st.integers(0, len(log)))
    assert reader().read(log[:cut], 0, 100, 99)[1] == cut // size * size
    at = data.draw(st.sampled_from((*range(8), *range(28, 36), *range(84, 88), 93)))
    damaged = bytearray(log)
    damaged[at] ^= data.draw(st.integers(1, 255))
    keys, end = reader().read(bytes(damaged), 0, 100, 99)
    assert keys == keys_of(bytes(damaged), 0, 100, end)
    if at < 84:
        assert end == 0


def test_the_log_of_a_java_broker_is_read(tmp_path: Path) -> None:
    walk, count = reader(), 0
    for path in sorted((unpack_store("store-clean", tmp_path) / "commitlog").iterdir()):
        log, position, base = path.read_bytes(), 0, int(path.name)
        while True:
            keys, end = walk.read(log, position, base + position, 1 << 30)
            assert keys == keys_of(log, position, base + position, end)
            count += len(keys) // 20
            record = check_message(log, end, len(log) - end, check_crc=False)
            if record.status is not RecordStatus.MESSAGE:
                break
            position = end + record.size
    assert count > 100
