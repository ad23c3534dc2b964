"""Records, held against Java's vectors and against every record of every recorded store."""

from __future__ import annotations

import tarfile
import zlib
from functools import cache
from hashlib import sha256
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.compression import DECOMPRESSED_SIZE_MAX, CompressionType, compress, compressed_sys_flag
from rocketpy.protocol.host import encode_host
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import (
    BLANK_MAGIC_CODE,
    MESSAGE_MAGIC_CODE,
    CheckedMessage,
    RecordStatus,
    body_crc,
    check_message,
    decode_message,
    decode_messages,
    encode_blank,
    encode_message,
    pack_record_head,
    record_head_size,
    store_timestamp_position,
)
from rocketpy.protocol.sysflag import COMPRESSED_FLAG
from tests.recorded import GOLDEN, VECTORS
from tests.store.golden_store import expected, line_of

STORES = ("clean", "crash", "torn", "empty", "ipv6", "ext", "multi")
COMMIT_LOG_FILE_SIZE = 65536

# Records whose properties text has a name twice, from batches: it is written once here, so the record is shorter.
REPEATED_NAMES = {"clean": 30, "crash": 30, "torn": 30, "empty": 0, "ipv6": 0, "ext": 0, "multi": 0}

HOSTS = st.sampled_from(["10.0.0.1:50000", "[2001:db8::1]:50002", "127.0.0.1:0"])
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PARTS = st.text(alphabet=st.characters(exclude_characters="\x01\x02", codec="utf-8"), min_size=1, max_size=10)
MESSAGES = st.builds(
    MessageExt,
    topic=st.text(alphabet=st.characters(codec="utf-8"), max_size=30),
    body=st.binary(max_size=60),
    properties=st.dictionaries(PARTS, PARTS, max_size=4),
    queue_id=INT32,
    flag=INT32,
    queue_offset=INT64,
    physical_offset=INT64,
    sys_flag=st.sampled_from([0, 2, 4, 8, 12, 0x40, 0x300]),
    born_timestamp=INT64,
    born_host=HOSTS,
    store_timestamp=INT64,
    store_host=HOSTS,
    reconsume_times=INT32,
    prepared_transaction_offset=INT64,
)
MESSAGE = MessageExt(
    "TopicTest",
    b"Hello",
    {"UNIQ_KEY": "AC110001000018B4AAC2000000000000", "TAGS": "TagA"},
    queue_id=3,
    queue_offset=7,
    physical_offset=1024,
    born_timestamp=1_700_000_000_000,
    born_host="10.0.0.1:50000",
    store_timestamp=1_700_000_000_123,
    store_host="10.0.0.2:10911",
)
RECORD = bytes.fromhex(
    "0000009cdaa320a777d18982000000030000000000000000000000070000000000000400000000000000018bcfe568000a0000010000c350"
    "0000018bcfe5687b0a00000200002a9f0000000000000000000000000000000548656c6c6f09546f706963546573740033554e49515f4b45"
    "5901414331313030303130303030313842344141433230303030303030303030303002544147530154616741"
)


def stored(message: MessageExt, record: bytes) -> MessageExt:
    """Return ``message`` with what only a record knows."""
    v6 = (0x10 if "[" in message.born_host else 0) | (0x20 if "[" in message.store_host else 0)
    return attrs.evolve(
        message, sys_flag=message.sys_flag | v6, body_crc=body_crc(message.body), store_size=len(record)
    )


@cache
def commit_log(store: str) -> dict[int, bytes]:
    """Return the CommitLog files of a recorded store by their first offset."""
    with tarfile.open(GOLDEN / f"store-{store}.tar.xz") as archive:
        files = [each for each in archive.getmembers() if each.isfile() and "commitlog/" in each.name]
        return {int(Path(each.name).name): archive.extractfile(each).read() for each in files}  # type: ignore[union-attr]


def walked(store: str) -> tuple[list[tuple[int, CheckedMessage]], list[tuple[int, int]], int]:
    """Walk a store as recovery does: records with their offsets, blanks with offset and size, and the end."""
    records, blanks, end = [], [], 0
    for base_offset, content in sorted(commit_log(store).items()):
        position = 0
        while position < len(content):
            checked = check_message(content, position, len(content) - position)
            if checked.status is RecordStatus.MESSAGE:
                records.append((base_offset + position, checked))
                end = base_offset + position + checked.size
            elif checked.status is RecordStatus.BLANK:
                blanks.append((base_offset + position, checked.size))
                end = base_offset + position + checked.size
            else:
                return records, blanks, end
            position += checked.size
    return records, blanks, end


def test_the_record_of_the_specification_is_written_and_read() -> None:
    assert encode_message(MESSAGE) == RECORD
    assert decode_message(RECORD, check_crc=True) == stored(MESSAGE, RECORD)
    assert decode_message(b"??" + RECORD + b"??", 2).offset_msg_id == "0A00000200002A9F0000000000000400"


@pytest.mark.parametrize("vector", VECTORS["records"], ids=lambda vector: str(vector["queueOffset"]))
def test_records_of_java_are_read_and_written_again_byte_for_byte(vector: dict[str, object]) -> None:
    record = bytes.fromhex(str(vector["record_hex"]))
    message = decode_message(record, check_crc=True, decompress=False)
    names = ("topic", "flag", "queue_id", "queue_offset", "physical_offset", "born_timestamp", "store_timestamp")
    for name in (*names, "reconsume_times", "prepared_transaction_offset", "sys_flag"):
        first, *rest = name.split("_")
        assert getattr(message, name) == vector[first + "".join(word.title() for word in rest)], name
    assert message.body.hex() == vector["body_hex"]
    assert encode_host(message.born_host) == _java_host(str(vector["bornHost"]))
    assert encode_host(message.store_host) == _java_host(str(vector["storeHost"]))
    assert {"msgId": message.msg_id, "properties": message.properties} == vector["decoded"]
    assert encode_message(message) == record


def _java_host(text: str) -> bytes:
    return encode_host(text.removeprefix("/"))


@pytest.mark.parametrize("store", STORES)
def test_every_recorded_store_is_walked_as_java_walks_it(store: str) -> None:
    records, blanks, end = walked(store)
    java = expected(f"store-{store}")
    assert [(offset, checked.size) for offset, checked in records] == [
        (line["offset"], line["size"]) for line in java.get("record", [])
    ]
    assert blanks == [(line["offset"], line["size"]) for line in java.get("blank", [])]
    [last] = java["end"]
    assert (end if records else -1, len(records)) == (last["offset"], last["records"])


@pytest.mark.parametrize("store", STORES)
def test_every_recorded_record_is_what_java_says(store: str) -> None:
    different = 0
    for (offset, checked), line in zip(walked(store)[0], expected(f"store-{store}").get("record", []), strict=True):
        content = commit_log(store)[offset // COMMIT_LOG_FILE_SIZE * COMMIT_LOG_FILE_SIZE]
        record = content[offset % COMMIT_LOG_FILE_SIZE :][: checked.size]
        assert sha256(record).hexdigest() == line["recordSha256"]
        message = decode_message(content, offset % COMMIT_LOG_FILE_SIZE, check_crc=True, decompress=False)
        assert line_of(message).items() <= line.items()
        assert encode_host(message.born_host) == _java_host(str(line["bornHost"]))
        assert encode_host(message.store_host) == _java_host(str(line["storeHost"]))
        if "plainSha256" in line:
            body = decode_message(record).body
            assert (len(body), sha256(body).hexdigest()) == (line["plainLength"], line["plainSha256"])
        assert _as_checked(message) == _as_checked(checked)
        if checked.properties_text.count(b"\x01") == len(message.properties):
            assert encode_message(message) == record
        else:
            different += 1
    assert different == REPEATED_NAMES[store]


def _as_checked(value: MessageExt | CheckedMessage) -> dict[str, object]:
    names = ("topic", "queue_id", "queue_offset", "physical_offset", "sys_flag", "born_timestamp", "store_timestamp")
    return {name: getattr(value, name) for name in (*names, "prepared_transaction_offset", "properties")}


def test_a_damaged_body_is_found_only_when_it_is_looked_at() -> None:
    damaged = RECORD.replace(b"Hello", b"Hallo")
    checked = check_message(damaged, 0, len(damaged))
    assert checked.status is RecordStatus.DAMAGED
    assert checked.why == f"record at 0: expected body CRC 2010220930, found {body_crc(b'Hallo')}"
    assert check_message(damaged, 0, len(damaged), check_crc=False).status is RecordStatus.MESSAGE
    assert check_message(damaged, 0, len(damaged), read_body=False).status is RecordStatus.MESSAGE
    assert decode_message(damaged).body == b"Hallo"
    with pytest.raises(RemoteProtocolError, match="record at 0: expected body CRC"):
        decode_message(damaged, check_crc=True)


def test_a_checked_message_has_what_dispatch_needs() -> None:
    keyed = attrs.evolve(MESSAGE, properties=MESSAGE.properties | {"KEYS": "k1 k2"})
    record = encode_message(keyed)
    checked = check_message(memoryview(b"..." + record), 3, len(record))
    assert (checked.status, checked.size, checked.topic) == (RecordStatus.MESSAGE, len(record), "TopicTest")
    assert (checked.queue_id, checked.queue_offset, checked.physical_offset) == (3, 7, 1024)
    assert (checked.tags_code, checked.keys) == (tags_code("TagA"), "k1 k2")
    assert checked.uniq_key == "AC110001000018B4AAC2000000000000"
    bare = encode_message(attrs.evolve(MESSAGE, properties={}))
    checked = check_message(bare, 0, len(bare))
    assert (checked.properties, checked.tags_code, checked.keys, checked.uniq_key) == ({}, 0, "", None)


def test_the_end_of_a_file_is_a_blank() -> None:
    blank = encode_blank(100) + b"whatever was there"
    assert blank[:8].hex() == "00000064cbd43194"
    assert int.from_bytes(blank[4:8], "big", signed=True) == BLANK_MAGIC_CODE
    checked = check_message(blank, 0, len(blank))
    assert (checked.status, checked.size) == (RecordStatus.BLANK, 100)
    assert check_message(encode_blank(7), 0, 8).status is RecordStatus.DAMAGED
    with pytest.raises(RemoteProtocolError, match=f"expected magic {MESSAGE_MAGIC_CODE}"):
        decode_message(blank + bytes(100))


@pytest.mark.parametrize("content", [b"", bytes(7), bytes(8), bytes(200), b"\xff" * 200])
def test_where_nothing_was_written_is_nothing(content: bytes) -> None:
    assert check_message(content, 0, len(content)).status is RecordStatus.NOTHING


@pytest.mark.parametrize("message", [MESSAGE, attrs.evolve(MESSAGE, born_host="[::1]:1", store_host="[::2]:2")])
def test_every_truncation_is_a_clear_error(message: MessageExt) -> None:
    record = encode_message(message)
    for size in range(len(record)):
        with pytest.raises(RemoteProtocolError, match="record at 0: expected"):
            decode_message(record[:size])
        status = check_message(record, 0, size).status
        assert status is (RecordStatus.NOTHING if size < 8 else RecordStatus.DAMAGED)


def test_every_split_of_a_buffer_is_seen() -> None:
    two = RECORD + encode_message(attrs.evolve(MESSAGE, topic="Other"))
    assert [each.topic for each in decode_messages(two, broker_name="b")] == ["TopicTest", "Other"]
    assert {each.broker_name for each in decode_messages(memoryview(two), broker_name="b")} == {"b"}
    for size in range(1, len(two)):
        if size != len(RECORD):
            with pytest.raises(RemoteProtocolError, match=f"record at {0 if size < len(RECORD) else len(RECORD)}: "):
                decode_messages(two[:size])


@pytest.mark.parametrize(
    ("position", "content", "expected"),
    [
        (0, "0000009b", "properties of 50 bytes, found 51"),
        (0, "0000009d", "a total size of 91 to 156, found 157"),
        (0, "00000058", "a total size of 91 to 156, found 88"),
        (0, "80000000", "a total size of 91 to 156, found -2147483648"),
        (36, "00000010", "a body of 0 to"),  # an address width that the rest does not have
        (84, "ffffffff", "a body of 0 to 65 bytes, found -1"),
        (84, "7fffffff", "a body of 0 to 65 bytes, found 2147483647"),
        (93, "80", "a topic of 0 to 127 bytes within the record, found 128"),
        (93, "7f", "a topic of 0 to 127 bytes within the record, found 127"),
        (103, "ffff", "properties of 51 bytes, found -1"),
        (103, "0034", "properties of 51 bytes, found 52"),
    ],
)
def test_lengths_that_do_not_add_up_are_refused(position: int, content: str, expected: str) -> None:
    damaged = bytearray(RECORD)
    damaged[position : position + len(content) // 2] = bytes.fromhex(content)
    with pytest.raises(RemoteProtocolError) as caught:
        decode_message(damaged)
    assert f"record at 0: expected {expected}" in str(caught.value)
    checked = check_message(damaged, 0, len(damaged))
    assert (checked.status, checked.why) == (RecordStatus.DAMAGED, str(caught.value))


@given(MESSAGES)
def test_what_is_written_is_read_again(message: MessageExt) -> None:
    record = encode_message(message)
    for buffer in (record, bytearray(record), memoryview(record)):
        assert decode_message(buffer, check_crc=True) == stored(message, record)
    assert encode_message(decode_message(record)) == record
    assert _as_checked(check_message(record, 0, len(record))) == _as_checked(stored(message, record))


@given(st.integers(0, len(RECORD) - 1), st.binary(min_size=1, max_size=8))
def test_any_damage_is_a_record_or_a_clear_error(position: int, damage: bytes) -> None:
    damaged = (RECORD[:position] + damage + RECORD[position + len(damage) :])[: len(RECORD)]
    checked = check_message(damaged, 0, len(damaged))
    try:
        message = decode_message(damaged)
    except RemoteProtocolError:
        return
    assert checked.status in (RecordStatus.MESSAGE, RecordStatus.DAMAGED)
    assert message.store_size == len(RECORD)


@pytest.mark.parametrize("compression", list(CompressionType))
def test_compressed_bodies_are_decompressed_when_wanted(compression: CompressionType) -> None:
    body = b"compress me " * 400
    packed = compress(body, compression)
    record = encode_message(attrs.evolve(MESSAGE, body=packed, sys_flag=compressed_sys_flag(0, compression)))
    message = decode_message(record, check_crc=True)
    assert (message.body, message.body_crc, message.store_size) == (body, body_crc(packed), len(record))
    assert decode_message(record, decompress=False).body == packed


@pytest.mark.parametrize(
    ("body", "sys_flag", "expected"),
    [(b"no stream", 1, "expected a whole ZLIB stream"), (b"?", 0x501, "expected LZ4, ZSTD or ZLIB")],
)
def test_a_body_that_does_not_decompress_is_an_error_with_its_position(
    body: bytes, sys_flag: int, expected: str
) -> None:
    record = encode_message(attrs.evolve(MESSAGE, body=body, sys_flag=sys_flag))
    with pytest.raises(RemoteProtocolError, match=f"record at 156: compression: {expected}"):
        decode_messages(RECORD + record)
    assert decode_messages(RECORD + record, decompress=False)[1].body == body


def test_an_empty_body_is_never_decompressed() -> None:
    assert decode_message(encode_message(attrs.evolve(MESSAGE, body=b"", sys_flag=1))).body == b""


def test_text_that_is_not_utf8_is_replaced_as_in_java() -> None:
    """To refuse it would cut the log at this record in recovery."""
    record = RECORD.replace(b"TopicTest", b"\xffopicTest").replace(b"TagA", b"Tag\xff")
    assert decode_message(record).topic == check_message(record, 0, len(record)).topic == "\ufffdopicTest"
    assert decode_message(record).tags == "Tag\ufffd"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"topic": "t" * 128}, "at most 127 bytes of topic"),
        ({"properties": {"k": "v" * 32766}}, "32767 of properties, found 9 and 32768"),
        ({"queue_id": 2**31}, "record: "),
        ({"store_timestamp": -(2**63) - 1}, "record: "),
        ({"born_host": "nowhere"}, "expected ip:port"),
    ],
)
def test_what_does_not_fit_a_record_is_refused(changes: dict[str, object], expected: str) -> None:
    with pytest.raises(LocalProtocolError, match=expected):
        encode_message(attrs.evolve(MESSAGE, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("vector", VECTORS["crc32"], ids=lambda vector: vector["hex"][:16] or "empty")
def test_checksums_are_those_of_java(vector: dict[str, object]) -> None:
    body = bytes.fromhex(str(vector["hex"]))
    assert body_crc(body) == vector["crc"]
    assert body_crc(memoryview(body)) == vector["crc"]


def test_the_index_keys_of_a_record_are_those_of_its_properties_but_for_a_rollback() -> None:
    text = b"KEYS\x01a  b\x02UNIQ_KEY\x01u"
    assert CheckedMessage(RecordStatus.MESSAGE, properties_text=text).index_keys() == (b"u", b"a", b"b")
    assert CheckedMessage(RecordStatus.MESSAGE).index_keys() == ()
    assert CheckedMessage(RecordStatus.MESSAGE, properties_text=text, sys_flag=0xC).index_keys() == ()


@pytest.mark.parametrize("claimed", [0, 0x10, 0x20, 0x30])
def test_the_address_bits_of_a_head_follow_its_addresses(claimed: int) -> None:
    """A client that sets them would shift every field after them."""
    for born_host, born_flag in ((bytes(8), 0), (bytes(20), 0x10)):
        for store_host, store_flag in ((bytes(8), 0), (bytes(20), 0x20)):
            head = pack_record_head(200, 1, 2, 3, 4, 5, 0x101 | claimed, 6, born_host, 7, store_host, 8, 9, 10)
            assert int.from_bytes(head[36:40]) == 0x101 | born_flag | store_flag
            assert len(head) == record_head_size(born_host, store_host)
            assert len(head) == 88 + (12 if born_flag else 0) + (12 if store_flag else 0)


def test_a_store_timestamp_is_after_the_born_host() -> None:
    for born_host in (bytes(8), bytes(20)):
        for store_host in (bytes(8), bytes(20)):
            head = pack_record_head(200, 1, 2, 3, 4, 5, 0, 6, born_host, 0x0123_4567_89AB_CDEF, store_host, 8, 9, 10)
            sys_flag = int.from_bytes(head[36:40])
            position = store_timestamp_position(sys_flag)
            assert head[position : position + 8].hex() == "0123456789abcdef"


def test_more_records_than_are_expected_are_refused() -> None:
    assert len(decode_messages(RECORD * 3, count_max=3)) == 3
    with pytest.raises(RemoteProtocolError, match="expected at most 2 records, found more"):
        decode_messages(RECORD * 3, count_max=2)


def test_records_that_unpack_to_too_much_together_are_refused() -> None:
    """16 MiB hold a thousand records of 64 MiB each."""
    body = zlib.compress(bytes(DECOMPRESSED_SIZE_MAX), 9)
    bomb = encode_message(MessageExt("T", body, {}, sys_flag=COMPRESSED_FLAG))
    assert len(decode_messages(bomb)) == 1
    with pytest.raises(RemoteProtocolError, match="expected at most 67108864 bytes in bodies before, found 134217728"):
        decode_messages(bomb * 200)
    with pytest.raises(RemoteProtocolError, match="expected at most 1000 bytes out of ZLIB, found more"):
        decode_message(bomb, unpacked_max=1000)
