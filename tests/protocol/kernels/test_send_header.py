"""The kernel reads a header of a send as the general path does, or declines it, whatever header came before."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from rocketpy.broker.send.properties import NOT_PLAIN, plain_properties
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.fast_path_headers import FAST_HEADER_ERRORS, decode_fast_batch, decode_fast_send
from rocketpy.protocol.frame import decode_command
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.kernels.send_form import READ_HEADER_MAX, READ_PROPERTIES_MAX
from rocketpy.protocol.kernels.send_header import KEPT_HEADER_MAX, KEPT_HEADERS_MAX, KEPT_VALUES_MAX, SendHeader
from rocketpy.protocol.signature import signed_content
from tests.protocol.kernels.kept_bytes import kept_bytes
from tests.recorded import requests_with_fields

SUFFIX = b"\x02CLUSTER\x01C"
NAMES = frozenset(name.encode() for name in NOT_PLAIN)
UNIQ_KEY = "7F0000010000A1B2C3D4000000000000"
JAVA = f"KEYS\x01k1 k2\x02UNIQ_KEY\x01{UNIQ_KEY}\x02WAIT\x01true\x02TAGS\x01t"


def reader() -> SendHeader:
    return SendHeader(NAMES, SUFFIX, BytesWriter())


def general(header: bytes) -> tuple[object, ...] | None:
    """What the general path reads of a plain send, or a batch; None for any other."""
    if header.startswith(b'{"code":320,'):
        return general_batch(header)
    try:
        request = decode_fast_send(header)
    except FAST_HEADER_ERRORS:
        return None
    fields = request.ext_fields
    properties = plain_properties(fields.properties)
    if properties is None or fields.batch:
        return None
    stored, keys, tags = properties
    return (
        *(fields.topic, fields.producer_group, fields.queue_id, fields.sys_flag, fields.born_timestamp, fields.flag),
        *(fields.reconsume_times, request.flag, request.opaque, stored.encode() + SUFFIX, tags_code(tags), keys),
    )


def general_batch(header: bytes) -> tuple[object, ...] | None:
    try:
        request = decode_fast_batch(header)
    except FAST_HEADER_ERRORS:
        return None
    fields = request.ext_fields
    if b'"m":"true"' not in header:
        return None
    return (
        *(fields.topic, fields.producer_group, fields.queue_id, fields.sys_flag, fields.born_timestamp, fields.flag),
        *(fields.reconsume_times, request.flag, request.opaque, fields.properties),
    )


def read(sent: SendHeader, header: bytes) -> tuple[object, ...] | None:
    """What the kernel reads; None if it declines."""
    if not sent.read(header):
        return None
    assert sent.is_batch == header.startswith(b'{"code":320,')
    if sent.is_batch:
        return (
            *(sent.topic, sent.producer_group, sent.queue_id, sent.sys_flag, sent.born_timestamp, sent.flag),
            *(sent.reconsume_times, sent.command_flag, sent.opaque, sent.batch_properties),
        )
    return (
        *(sent.topic, sent.producer_group, sent.queue_id, sent.sys_flag, sent.born_timestamp, sent.flag),
        *(sent.reconsume_times, sent.command_flag, sent.opaque, sent.properties, sent.tags_code, sent.index_keys),
    )


def assert_same(sent: SendHeader, header: bytes, body: bytes = b"body") -> bool:
    """Return whether the kernel has read a header, after a comparison with the general path."""
    found = read(sent, header)
    if found is None:
        return False
    assert found == general(header), header
    ext_fields = decode_command(0, header, None).ext_fields
    assert ext_fields is not None
    assert sent.signed_content(body) == signed_content(ext_fields, body)
    assert sent.access_key == ext_fields.get("AccessKey", "")
    assert sent.names == (sent.topic, sent.producer_group)
    assert sent.signature.decode() == ext_fields.get("Signature", "")
    return True


def fields_of(**changes: str | None) -> dict[str, str]:
    usual: dict[str, str | None] = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0"}
    usual |= {"g": "1700000000123", "h": "0", "i": JAVA, "j": "0", "k": "false", "m": "false"}
    return {name: value for name, value in (usual | changes).items() if value is not None}


def header_of(fields: dict[str, str] | None = None, **members: object) -> bytes:
    """A header as Java and C++ write it: without white space, members in the order of their names."""
    usual: dict[str, object] = {"code": 310, "extFields": fields_of() if fields is None else fields, "flag": 0}
    usual |= {"language": "JAVA", "opaque": 7, "serializeTypeCurrentRPC": "JSON", "version": 407}
    return json.dumps(usual | members, separators=(",", ":")).encode()


def batch_of(fields: dict[str, str] | None = None, **members: object) -> bytes:
    """The header of a batch, as a client writes it."""
    return header_of(batch_fields() if fields is None else fields, **{"code": 320, **members})


def batch_fields(**changes: str | None) -> dict[str, str]:
    return fields_of(**{"i": "WAIT\x01true", "m": "true", **changes})


def test_the_sends_that_java_was_recorded_to_send() -> None:
    """One after the other over one connection, and each over its own: all that are plain, signed ones too."""
    headers = requests_with_fields(RequestCode.SEND_MESSAGE_V2)
    plain = [general(header) is not None and header.isascii() and len(header) <= READ_HEADER_MAX for header in headers]
    assert sum(plain) > 20
    assert [assert_same(reader(), header) for header in headers] == plain
    sent = reader()
    taken = [assert_same(sent, header) for header in headers]
    assert not any(is_taken and not is_plain for is_taken, is_plain in zip(taken, plain, strict=True))
    assert sum(taken) > sum(plain) // 2, "among so many kinds not every header is read whole"
    assert any(b"Signature" in header for header, is_plain in zip(headers, plain, strict=True) if is_plain)


def test_the_batches_that_java_was_recorded_to_send() -> None:
    sent = reader()
    for header in requests_with_fields(RequestCode.SEND_BATCH_MESSAGE):
        assert assert_same(reader(), header) == (general(header) is not None)
        assert_same(sent, header)


def test_the_next_header_of_a_batch_is_read_where_it_differs() -> None:
    """Also between single sends over the same connection."""
    sent = reader()
    for number in range(3):
        changes = {"e": str(9 + number), "g": str(10**number), "Signature": f"s{number}", "AccessKey": "k"}
        assert assert_same(sent, batch_of(batch_fields(**changes), opaque=99 * number), b"body" * 999)
        assert (sent.queue_id, sent.born_timestamp, sent.opaque) == (9 + number, 10**number, 99 * number)
        assert sent.batch_properties == "WAIT\x01true"
        assert assert_same(sent, header_of(opaque=number))
        assert sent.index_keys == (UNIQ_KEY.encode(), b"k1", b"k2")


@pytest.mark.parametrize(
    "header",
    [
        *[
            batch_of(batch_fields(i=text))
            for text in ("", "a\x01b", "WAIT\x01false", "\x01\x02\x02", "a", "DELAY\x011")
        ],
        batch_of(batch_fields(i=JAVA, n="broker-a", j=None, k=None)),
        batch_of(dict(reversed(batch_fields().items()))),
        batch_of({"Signature": "c2lnbg==", "AccessKey": "me"} | batch_fields() | {"SecurityToken": "token"}),
        batch_of(flag=2),
        batch_of() + b"\n",
    ],
)
def test_a_plain_form_of_a_batch_is_read(header: bytes) -> None:
    sent = reader()
    for _ in range(2):
        assert assert_same(sent, header)
        assert assert_same(sent, batch_of())
        assert assert_same(sent, header_of())


@pytest.mark.parametrize(
    "header",
    [
        batch_of(batch_fields(m="false")),
        batch_of(batch_fields(m=None)),
        batch_of(batch_fields(m="1")),
        batch_of(batch_fields(m="TRUE")),
        batch_of(batch_fields(i=None)),
        batch_of(batch_fields(i="a\x01ü")),
        batch_of(batch_fields(i="a\x01\x03")),
        batch_of(batch_fields(i='a\x01"')),
        batch_of(batch_fields(i="a\x01b\nc")),
        batch_of(batch_fields(e="-1")),
        batch_of(batch_fields(e="2147483648")),
        batch_of(batch_fields(z="1")),
        batch_of().replace(b'"flag":0', b'"flag":0,"code":320'),
        batch_of().replace(b'"flag":0', b'"flag":0,"code":310'),
        header_of().replace(b'"flag":0', b'"flag":0,"code":320'),
        header_of().replace(b'"flag":0', b'"flag":0,"code":310'),
        header_of().replace(b'"flag":0', b'"flag":0,"Code":310'),
        header_of(code=320),
        header_of(batch_fields()),
        header_of(code=11),
        header_of(code="310"),
        header_of(fields_of(), code=10),
        header_of().replace(b'"code":310,', b""),
        header_of().replace(b'"code":310,', b'"code":0310,'),
        batch_of(remark="x"),
        batch_of(opaque=None),
        batch_of() + b" ",
    ],
)
def test_another_code_or_form_of_a_batch_is_declined(header: bytes) -> None:
    sent = reader()
    for _ in range(2):
        assert read(sent, header) is None
        assert assert_same(sent, batch_of())
        assert read(sent, header) is None
        assert assert_same(sent, header_of())


def test_the_next_header_of_a_producer_is_read_where_it_differs() -> None:
    sent = reader()
    for number in range(3):
        key = f"{number:032}"
        fields = fields_of(e=str(9 + number), g=str(10**number), i=JAVA.replace(UNIQ_KEY, key))
        assert assert_same(sent, header_of(fields, opaque=99 * number))
        assert (sent.queue_id, sent.born_timestamp, sent.opaque) == (9 + number, 10**number, 99 * number)
        assert sent.index_keys == (key.encode(), b"k1", b"k2")


def test_some_headers_are_kept_and_others_are_rarely_read_whole() -> None:
    """A connection with more kinds of sends than it keeps has most of them decoded by the general path."""
    sent = reader()
    few = [header_of(fields_of(b=f"T{number}")) for number in range(KEPT_HEADERS_MAX)]
    assert all(assert_same(sent, header) for header in few * 20)
    many = [header_of(fields_of(b=f"M{number}")) for number in range(200)]
    assert 20 < sum(assert_same(sent, header) for header in many) < 50
    assert any(assert_same(sent, few[0]) for _ in range(20)), "one in 16 is tried"
    assert all(assert_same(sent, few[0]) for _ in range(20))


@pytest.mark.parametrize(
    "header",
    [
        header_of(fields_of(i="UNIQ_KEY\x011\x02WAIT\x01true")),
        header_of(fields_of(i="WAIT\x01true\x02UNIQ_KEY\x011")),
        header_of(fields_of(i="a\x01b\x02c\x01d\x02")),
        header_of(fields_of(i="TAGS\x01" + "t" * 200)),
        header_of(fields_of(i="KEYS\x01 a  b ")),
        header_of(fields_of(i="KEYS\x01" + "k " * 300)),
        header_of(fields_of(i="a\x01" + "x" * 2 * KEPT_HEADER_MAX)),
        header_of(fields_of(k="true", n="broker-a")),
        header_of(fields_of(j=None, k=None, m=None)),
        header_of({"Signature": "c2lnbg==", "AccessKey": "me"} | fields_of() | {"SecurityToken": "token"}),
        header_of(dict(reversed(fields_of().items()))),
        header_of() + b"\n",
        json.dumps(dict(reversed(json.loads(header_of()).items())), separators=(",", ":")).encode(),
        header_of(flag=2, opaque=2**31 - 1),
    ],
)
def test_a_plain_form_is_read(header: bytes) -> None:
    sent = reader()
    assert assert_same(sent, header)
    assert assert_same(sent, header)
    assert assert_same(sent, header_of())


@pytest.mark.parametrize(
    "header",
    [
        header_of(fields_of(i="WAIT\x01true")),
        header_of(fields_of(i="WAIT\x01false\x02a\x01b")),
        header_of(fields_of(i="")),
        header_of(fields_of(i=None)),
        header_of(fields_of(i="a\x01b\x02a\x01c")),
        header_of(fields_of(i="a\x01b\x02WAIT\x01true\x02WAIT\x01true")),
        header_of(fields_of(i="a\x01")),
        header_of(fields_of(i="a\x01b\x01c")),
        header_of(fields_of(i="a")),
        header_of(fields_of(i="\x01b")),
        header_of(fields_of(i="a\x01b\x02\x02c\x01d")),
        header_of(fields_of(i="a\x01b\nc")),
        header_of(fields_of(i="a\x01b\0c")),
        header_of(fields_of(i="a\x01ü")),
        header_of(fields_of(i='a\x01"')),
        header_of(fields_of(i="TAGS\x01" + "t" * 201)),
        header_of(fields_of(i="a\x01" + "x" * READ_HEADER_MAX)),
        header_of(fields_of(i="\x02".join(f"{n}\x01v" for n in range(READ_PROPERTIES_MAX + 1)))),
        *[header_of(fields_of(i=f"{name}\x01v")) for name in NOT_PLAIN],
        *[header_of(fields_of(**{name: None})) for name in "abcdefgh"],
        *[header_of(fields_of(**{name: "2147483648"})) for name in "defhjl"],
        *[header_of(fields_of(**{name: text})) for name in "defghjl" for text in ("", "-1", "01", "+1", " 1", "1.0")],
        header_of(fields_of(g="1" * 19)),
        header_of(fields_of(m="true")),
        header_of(fields_of(m="1")),
        header_of(fields_of(k="TRUE")),
        header_of(fields_of(z="1")),
        header_of(fields_of(b="ü")),
        header_of(opaque=-1),
        header_of(opaque=2**31),
        header_of(opaque=None),
        header_of(flag="0"),
        header_of(remark="x"),
        header_of().replace(b'"opaque":7,', b""),
        header_of().replace(b'"opaque":7,', b'"opaque":7,"opaque":8,'),
        header_of().replace(b'"opaque":7,', b'"opaque":07,'),
        header_of().replace(b'"e":"0"', b'"e":"0","e":"1"'),
        header_of().replace(b'"e":"0"', b'"e":0'),
        header_of().replace(b'"e":"0"', b'"e": "0"'),
        header_of().replace(b"\\u0001", b"\x01"),
        header_of() + b" ",
        header_of() + b"\n\n",
        b"",
        b"{}",
        b'{"code":310,"extFields":{}}',
    ],
)
def test_any_other_form_is_declined(header: bytes) -> None:
    """Also after a header that it resembles, and it leaves no trace in the next."""
    for sent in (reader(), reader()):
        assert read(sent, header) is None
        assert assert_same(sent, header_of())
        assert read(sent, header) is None
        assert assert_same(sent, header_of())


SIGNED = {"Signature": "s", "AccessKey": "k"}


@pytest.mark.parametrize("whole", [header_of(SIGNED | fields_of()), batch_of(SIGNED | batch_fields())])
def test_a_truncated_header_is_declined(whole: bytes) -> None:
    sent = reader()
    for size in range(len(whole)):
        assert read(reader(), whole[:size]) is None
        assert sent.read(whole)
        assert read(sent, whole[:size]) is None


TEXTS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters='"\\'), max_size=12)
NUMBERS = st.one_of(st.integers(0, 2**31 - 1), st.integers(-(2**40), 2**70)).map(str)
ENTRIES = st.tuples(
    st.sampled_from(["KEYS", "UNIQ_KEY", "TAGS", "WAIT", "DELAY", "CLUSTER", "a", "b", "TAG", "KEYS "]),
    st.one_of(TEXTS, st.sampled_from(["true", "k1  k2", "é", "a\x01b", "\x03", "\\", "x" * 300])),
).map("\x01".join)
PROPERTIES = st.tuples(st.lists(ENTRIES, max_size=5).map("\x02".join), st.sampled_from(["", "", "\x02", "\x01"]))
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys("abcn", TEXTS),
        **dict.fromkeys("deghjl", NUMBERS),
        "f": st.sampled_from(["0", "1", "8", "-1"]),
        "i": PROPERTIES.map("".join),
        "k": st.sampled_from(["true", "false", "1"]),
        "m": st.sampled_from(["true", "false", "0"]),
        "Signature": TEXTS,
        "AccessKey": TEXTS,
        "SecurityToken": TEXTS,
        "other": TEXTS,
    },
)
OF_CODE = {310: fields_of, 320: batch_fields}
HEADERS = st.builds(
    lambda code, fields, order, opaque, flag: header_of(
        dict(sorted((OF_CODE[code]() | fields).items(), key=lambda item: hash(item[0]) if order else 0)),
        code=code,
        opaque=opaque,
        flag=flag,
    ),
    st.sampled_from([310, 310, 320]),
    FIELDS,
    st.booleans(),
    st.integers(-1, 2**31),
    st.sampled_from([0, 2]),
)
"""Headers most of which are near to plain ones."""


@given(st.lists(HEADERS, min_size=1, max_size=6))
@settings(deadline=None, max_examples=120)
def test_headers_over_one_connection(headers: list[bytes]) -> None:
    sent = reader()
    for header in headers:
        taken = assert_same(sent, header)
        assert taken == assert_same(reader(), header)


FRAGMENTS = st.one_of(
    st.binary(max_size=3),
    st.sampled_from(
        [b'"', b"\\", b"\\u0001", b"\\u0002", b"\\u0003", b",", b"}", b"{", b'"e":"1",', b"-", b"0", b"9" * 20]
    ),
)


@given(
    st.lists(st.tuples(HEADERS, st.integers(0, 600), st.integers(0, 12), FRAGMENTS), min_size=1, max_size=4),
)
@example([(header_of(), len(header_of()) - 1, 1, b"")])
@settings(deadline=None, max_examples=200)
def test_damaged_headers(damaged: list[tuple[bytes, int, int, bytes]]) -> None:
    """What replaces some bytes may make another plain header: then both paths read the same."""
    sent = reader()
    for header, at, size, fragment in damaged:
        sent.read(header)
        try:
            assert_same(sent, header[:at] + fragment + header[at + size :])
        except RemoteProtocolError as failure:  # the general path finds it malformed
            pytest.fail(f"the kernel has read a malformed header: {failure}")


@given(st.binary(max_size=400), st.booleans())
def test_random_bytes(content: bytes, after_plain: bool) -> None:
    sent = reader()
    if after_plain:
        assert sent.read(header_of())
    assert read(sent, content) is None


def test_what_a_connection_keeps_is_bounded_whatever_it_sends() -> None:
    """With a header of each kind that keeps much: many properties, long values, and last the longest that is read."""
    sent, longest = reader(), 0
    shapes = [(31, 6), (1, 700), (8, 60), (31, 8), (31, 100)]
    for number, (count, size) in enumerate(shapes * 3):
        text = "\x02".join(f"p{each:02}\x01{'x' * size}" for each in range(count))
        header = header_of(fields_of(b=f"T{number}", i=text))
        assert len(header) <= READ_HEADER_MAX
        assert sent.read(header)
        longest = max(longest, kept_bytes(sent))
    assert 10 << 10 < longest <= 32 << 10
    assert sum(len(form.varying) for form in sent.kept) <= KEPT_VALUES_MAX
