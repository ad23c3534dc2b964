"""The binary header: bytes recorded from Java, every length that lies, and what the form cannot carry."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.codes import LanguageCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import HEADER_LENGTH_MAX
from rocketpy.protocol.frame.rocketmq_header import (
    EXT_FIELDS_MAX,
    HEADER_SIZE_MIN,
    decode_rocketmq_header,
    encode_rocketmq_header,
)
from tests.worst_requests import SLICE_SECONDS_MAX, processor_seconds

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COMMANDS = st.builds(
    RemotingCommand,
    code=INT16,
    ext_fields=st.none() | st.dictionaries(TEXT, TEXT, min_size=1, max_size=5),
    body=st.none(),
    remark=st.none() | TEXT.filter(bool),
    opaque=INT32,
    flag=INT32,
    language=st.sampled_from(LanguageCode),
    version=INT16,
    serialize_type=st.just(SerializeType.ROCKETMQ),
)

FIXED = pack(">hbhii", 3, 0, 409, 5, 1)


def entry(key: bytes, value: bytes) -> bytes:
    return pack(">h", len(key)) + key + pack(">i", len(value)) + value


def block(content: bytes) -> bytes:
    return pack(">i", len(content)) + content


def test_answer_recorded_from_java() -> None:
    """The refusal of request code 9998 by a Java broker of 4.9.8."""
    remark = " request type 9998 not supported"
    header = bytes.fromhex("0003000199000000050000000100000020") + remark.encode() + bytes(4)
    command = decode_rocketmq_header(header, None)
    assert command == RemotingCommand(
        code=3,
        remark=remark,
        opaque=5,
        flag=1,
        language=LanguageCode.JAVA,
        version=409,
        serialize_type=SerializeType.ROCKETMQ,
    )
    assert encode_rocketmq_header(command) == header


@given(COMMANDS)
def test_round_trip(command: RemotingCommand) -> None:
    assert decode_rocketmq_header(encode_rocketmq_header(command), None) == command


def test_empty_remark_and_empty_ext_fields_are_written_as_none() -> None:
    command = RemotingCommand(code=0, remark="", ext_fields={}, serialize_type=SerializeType.ROCKETMQ)
    assert encode_rocketmq_header(command)[-8:] == bytes(8)


def test_empty_value_stays_empty_text() -> None:
    """A signature covers the values; text that became "null" on the way would not fit it."""
    header = FIXED + block(b"") + block(entry(b"i", b""))
    assert decode_rocketmq_header(header, None).ext_fields == {"i": ""}


def test_of_a_repeated_key_the_last_value_counts() -> None:
    """A Java client with a hook writes the fields of a send or pull header twice."""
    header = FIXED + block(b"") + block(entry(b"a", b"1") + entry(b"b", b"2") + entry(b"a", b"3"))
    assert decode_rocketmq_header(header, None).ext_fields == {"a": "3", "b": "2"}


def test_unknown_language_is_served() -> None:
    header = bytearray(FIXED + bytes(8))
    header[2] = 99
    assert decode_rocketmq_header(bytes(header), None).language is None


def test_malformed_utf8_is_replaced() -> None:
    header = FIXED + block(b"\xff") + block(entry(b"k\xff", b"\xc3"))
    command = decode_rocketmq_header(header, None)
    assert (command.remark, command.ext_fields) == ("\ufffd", {"k\ufffd": "\ufffd"})


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(pack(">ii", 1, 0), id="remark longer than the header"),
        pytest.param(pack(">ii", -1, 0), id="negative remark length"),
        pytest.param(pack(">ii", 2**31 - 1, 0), id="largest remark length"),
        pytest.param(block(b"") + pack(">i", 1), id="ext fields longer than the header"),
        pytest.param(block(b"") + pack(">i", -1), id="negative ext fields length"),
        pytest.param(block(b"") + block(b"") + b"x", id="a byte after the ext fields"),
        pytest.param(block(b"") + pack(">i", 2) + entry(b"k", b"v"), id="ext fields longer than declared"),
        pytest.param(block(b"") + block(b"\0"), id="half a key length"),
        pytest.param(block(b"") + block(pack(">h", 1) + b"k"), id="no value length"),
        pytest.param(block(b"") + block(pack(">h", -1) + bytes(40)), id="negative key length"),
        pytest.param(block(b"") + block(pack(">h", 2) + b"k" + pack(">i", 0)), id="key into the value length"),
        pytest.param(block(b"") + block(pack(">h", 1) + b"k" + pack(">i", 2) + b"v"), id="value out of the block"),
        pytest.param(block(b"") + block(pack(">h", 1) + b"k" + pack(">i", -1)), id="negative value length"),
        pytest.param(block(b"") + block(entry(b"a", b"b") + b"\0"), id="rest after the last entry"),
    ],
)
def test_lengths_that_lie_are_errors(tail: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="binary header"):
        decode_rocketmq_header(FIXED + tail, None)


def test_every_truncation_is_an_error() -> None:
    header = FIXED + block(b"remark") + block(entry(b"key", b"value") + entry(b"k2", b""))
    assert decode_rocketmq_header(header, None).ext_fields == {"key": "value", "k2": ""}
    for size in range(len(header)):
        with pytest.raises(RemoteProtocolError):
            decode_rocketmq_header(header[:size], None)


def test_shortest_header() -> None:
    assert len(FIXED + bytes(8)) == HEADER_SIZE_MIN
    with pytest.raises(RemoteProtocolError, match="expected at least 21 bytes, found 0"):
        decode_rocketmq_header(b"", None)


@given(st.binary(max_size=100))
def test_random_ext_fields_decode_or_are_refused(fields: bytes) -> None:
    try:
        decode_rocketmq_header(FIXED + block(b"") + block(fields), None)
    except RemoteProtocolError:
        pass


def cannot_carry(change: Callable[[RemotingCommand], None]) -> None:
    command = RemotingCommand(code=0, serialize_type=SerializeType.ROCKETMQ)
    change(command)
    with pytest.raises(LocalProtocolError, match="binary header"):
        encode_rocketmq_header(command)


def test_what_the_form_cannot_carry_is_our_own_mistake() -> None:
    cannot_carry(lambda command: setattr(command, "code", 2**15))
    cannot_carry(lambda command: setattr(command, "version", -(2**15) - 1))
    cannot_carry(lambda command: setattr(command, "opaque", 2**31))
    cannot_carry(lambda command: setattr(command, "flag", 2**31))
    cannot_carry(lambda command: setattr(command, "language", None))
    cannot_carry(lambda command: setattr(command, "ext_fields", {"k" * 2**15: ""}))


def test_ext_fields_are_a_thousand_at_most() -> None:
    for count in (EXT_FIELDS_MAX, EXT_FIELDS_MAX + 1):
        fields = {f"k{number}": "v" for number in range(count)}
        header = encode_rocketmq_header(RemotingCommand(code=1, ext_fields=fields))
        if count == EXT_FIELDS_MAX:
            assert decode_rocketmq_header(header, None).ext_fields == fields
        else:
            with pytest.raises(RemoteProtocolError, match="at most 1000 entries of extFields"):
                decode_rocketmq_header(header, None)


def test_a_value_is_text_whatever_it_looks_like() -> None:
    """A reference or an object in a value is never resolved or read."""
    fields = {"a": '{"$ref":"$.b"}', "b": '{"k":[1]}', "$ref": "$"}
    header = encode_rocketmq_header(RemotingCommand(code=1, ext_fields=fields))
    assert decode_rocketmq_header(header, None).ext_fields == fields


def test_no_header_takes_long() -> None:
    entry = encode_rocketmq_header(RemotingCommand(code=1, ext_fields={"k": ""}))
    head, entry = entry[: HEADER_SIZE_MIN - 4], entry[HEADER_SIZE_MIN:]
    entries = entry * (HEADER_LENGTH_MAX // len(entry))
    header = head + pack(">i", len(entries)) + entries

    def decode() -> None:
        with pytest.raises(RemoteProtocolError):
            decode_rocketmq_header(header, None)

    assert processor_seconds(decode) < SLICE_SECONDS_MAX


def test_longest_key() -> None:
    command = RemotingCommand(code=0, ext_fields={"k" * (2**15 - 1): "v"}, serialize_type=SerializeType.ROCKETMQ)
    assert decode_rocketmq_header(encode_rocketmq_header(command), None).ext_fields == command.ext_fields


def test_half_a_surrogate_pair_is_written_as_a_question_mark() -> None:
    """As Java's UTF-8 encoder does; it must not become an exception in the middle of an answer."""
    command = RemotingCommand(code=0, remark="\ud83d", ext_fields={"k": "\ude80"})
    decoded = decode_rocketmq_header(encode_rocketmq_header(command), None)
    assert (decoded.remark, decoded.ext_fields) == ("?", {"k": "?"})
