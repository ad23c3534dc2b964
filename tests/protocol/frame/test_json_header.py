"""The JSON header: Java's bytes out, and in everything that Java's fastjson takes, refusing what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.codes import LanguageCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import HEADER_LENGTH_MAX
from rocketpy.protocol.frame.json_header import (
    DIALECT_SIZE_MAX,
    EXT_FIELDS_MAX,
    decode_json_header,
    encode_json_header,
)
from tests.recorded import VECTORS
from tests.worst_requests import SLICE_SECONDS_MAX, WORST_JSON, processor_seconds, worst_json

INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COMMANDS = st.builds(
    RemotingCommand,
    code=INT32,
    ext_fields=st.none() | st.dictionaries(TEXT, TEXT, max_size=5),
    body=st.none(),
    remark=st.none() | TEXT,
    opaque=INT32,
    flag=INT32,
    language=st.sampled_from(LanguageCode),
    version=INT32,
    serialize_type=st.just(SerializeType.JSON),
)


def decode(header: str) -> RemotingCommand:
    return decode_json_header(header.encode(), None)


@pytest.mark.parametrize(
    ("command", "header"),
    [
        (
            RemotingCommand(code=105, ext_fields={"topic": "T"}, language=LanguageCode.JAVA),
            '{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":0,'
            '"serializeTypeCurrentRPC":"JSON","version":409}',
        ),
        (
            RemotingCommand(code=0, opaque=2, flag=1, language=LanguageCode.JAVA),
            '{"code":0,"flag":1,"language":"JAVA","opaque":2,"serializeTypeCurrentRPC":"JSON","version":409}',
        ),
        (
            RemotingCommand(code=1, ext_fields={}, opaque=-1, flag=1, remark="r", language=LanguageCode.GO),
            '{"code":1,"extFields":{},"flag":1,"language":"GO","opaque":-1,"remark":"r",'
            '"serializeTypeCurrentRPC":"JSON","version":409}',
        ),
    ],
    ids=["request", "bare answer", "empty ext fields"],
)
def test_bytes_are_those_of_java(command: RemotingCommand, header: str) -> None:
    assert encode_json_header(command) == header.encode()
    assert decode(header) == command


@pytest.mark.parametrize("vector", VECTORS["json_strings"])
def test_text_is_escaped_as_java_does(vector: dict[str, str]) -> None:
    text = bytes.fromhex(vector["utf16_hex"]).decode("utf-16-be")
    written = bytes.fromhex(vector["json_utf8_hex"])
    assert written in encode_json_header(RemotingCommand(code=0, ext_fields={"k": text}))
    remark = written.removeprefix(b'{"k":').removesuffix(b"}")
    assert b'"remark":' + remark + b"," in encode_json_header(RemotingCommand(code=0, remark=text))
    key = encode_json_header(RemotingCommand(code=0, ext_fields={text: "v"}))
    assert b'"extFields":{' + remark + b':"v"}' in key


def test_every_character_alone_is_escaped_or_left_as_java_does() -> None:
    short = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
    for point in (*range(0xD800), *range(0xE000, 0x10000), 0x10000, 0x1F680, 0x10FFFF):
        text = chr(point)
        expected = short.get(text, text)
        if expected == text and (point < 0x20 or 0x7F <= point <= 0x9F or point in (0x2028, 0x2029)):
            expected = f"\\u{point:04X}"
        header = encode_json_header(RemotingCommand(code=0, remark=text)).decode()
        assert f'"remark":"{expected}",' in header, hex(point)


@given(COMMANDS)
def test_round_trip(command: RemotingCommand) -> None:
    assert decode_json_header(encode_json_header(command), None) == command


@given(COMMANDS)
def test_both_ways_of_reading_agree(command: RemotingCommand) -> None:
    """An unknown key sends the same header through the tolerant reader, a bare one through the dialect's."""
    header = encode_json_header(command)
    assert decode_json_header(b'{"unknown":null,' + header[1:], None) == command
    assert decode_json_header(b"{unknown:null," + header[1:], None) == command


def test_order_of_ext_fields_is_kept() -> None:
    """Java writes them in the order of its HashMap; a relayed command goes out as it came."""
    header = '{"code":0,"extFields":{"b":"1","a":"2"},"flag":0,"language":"JAVA","opaque":0,'
    header += '"serializeTypeCurrentRPC":"JSON","version":0}'
    assert encode_json_header(decode(header)) == header.encode()


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("{}", {"code": 0, "version": 0, "flag": 0, "opaque": 0, "language": LanguageCode.JAVA, "ext_fields": None}),
        ('{"code":"17"}', {"code": 17}),
        ('{"code":""}', {"code": 0}),
        ('{"code":null}', {"code": 0}),
        ('{"code":9998.0}', {"code": 9998}),
        ('{"code":9998.9}', {"code": 9998}),
        ('{"code":true}', {"code": 1}),
        ('{"opaque":-2147483648}', {"opaque": -(2**31)}),
        ('{"opaque":"+2147483647"}', {"opaque": 2**31 - 1}),
        ('{"remark":5}', {"remark": "5"}),
        ('{"remark":null}', {"remark": None}),
        ('{"remark":""}', {"remark": ""}),
        ('{"remark":true}', {"remark": "true"}),
        ("{'code':17,'remark':'r'}", {"code": 17, "remark": "r"}),
        ('{code:17,remark:"r"}', {"code": 17, "remark": "r"}),
        (' {\n"code" :\t17 } ', {"code": 17}),
        ('{"code":1,"code":17}', {"code": 17}),
        ('{"code":1,"CODE":17}', {"code": 17}),
        ('{"ext_fields":{"a":"b"},"Opaque":4}', {"ext_fields": {"a": "b"}, "opaque": 4}),
        ('{"unknown":1.5,"more":null,"code":17}', {"code": 17}),
        ('{"$ref":"$","code":17}', {"code": 17}),
        ('{"extFields":{"$ref":"$.code"},"code":17}', {"ext_fields": {"$ref": "$.code"}}),
        ("{'extFields':{'$ref':'$.code'},'code':17}", {"ext_fields": {"$ref": "$.code"}}),
        ('{"serializeTypeCurrentRPC":7,"code":17}', {"code": 17, "serialize_type": SerializeType.JSON}),
        ('{"serializeTypeCurrentRPC":"ROCKETMQ"}', {"serialize_type": SerializeType.JSON}),
        ('{"language":3}', {"language": LanguageCode.PYTHON}),
        ('{"language":"go"}', {"language": LanguageCode.GO}),
        ('{"language":"KLINGON"}', {"language": None}),
        ('{"language":null}', {"language": None}),
        ('{"extFields":null}', {"ext_fields": None}),
        ("{extFields:null,language:null}", {"ext_fields": None, "language": None}),
        ('{"extFields":{}}', {"ext_fields": {}}),
        ('{"extFields":{"a":1,"b":true,"c":"x"}}', {"ext_fields": {"a": "1", "b": "true", "c": "x"}}),
        (
            '{"extFields":{"a":-1.5e3,"b":12345678901234567890}}',
            {"ext_fields": {"a": "-1500.0", "b": "12345678901234567890"}},
        ),
        ('{"extFields":{"a":null,"b":"x"}}', {"ext_fields": {"b": "x"}}),
        ('{"extFields":{"a":"1","a":"2"}}', {"ext_fields": {"a": "2"}}),
    ],
)
def test_what_java_tolerates(header: str, expected: dict[str, object]) -> None:
    command = decode(header)
    assert {name: getattr(command, name) for name in expected} == expected


@pytest.mark.parametrize(
    "header",
    [
        "",
        " ",
        "null",
        "[]",
        "17",
        '"text"',
        "garbage",
        "{",
        '{"code"',
        '{"code":',
        '{"code":1',
        '{"code":1}}',
        '{"code":1} x',
        '{"opaque":3000000000}',
        '{"opaque":-2147483649}',
        '{"opaque":"3000000000"}',
        '{"code":"x"}',
        '{"code":[1]}',
        '{"code":{}}',
        '{"code":1e99}',
        '{"code":1e999999999}',
        '{"code":' + "9" * 5000 + "}",
        '{"version":2147483648}',
        '{"language":13}',
        '{"language":-1}',
        '{"language":[]}',
        '{"extFields":[]}',
        '{"extFields":"x"}',
        '{"extFields":1}',
        "\x00",
    ],
)
def test_what_costs_the_connection(header: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(header)


@pytest.mark.parametrize("opening", ['{"a":', "[", '{"extFields":{"a":', '{"remark":['])
def test_nesting_without_end_is_refused(opening: str) -> None:
    """A frame has room for millions of brackets; the stack has not."""
    with pytest.raises(RemoteProtocolError):
        decode(opening * 100_000)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ('{"m":{"a":1}}', "expected a text, number, boolean or null for 'm', found an object"),
        ('{"m":[]}', "expected a text, number, boolean or null for 'm', found an array"),
        ('{"extFields":{"a":{"k":1}}}', "expected a text, number, boolean or null for 'a', found an object"),
        ('{"extFields":{"a":[1]}}', "expected a text, number, boolean or null for 'a', found an array"),
        ('{"extFields":{"a":{"$ref":"$.code"}}}', "expected a text, number, boolean or null for 'a', found an object"),
        ('{"remark":{"$ref":"$.code"}}', "expected a text, number, boolean or null for 'remark', found an object"),
        ('{"a":[1],"a":1}', None),  # the last one counts
        ("{0:1}", "expected a key that is text, found 0"),
        ("{null:1}", "expected a key that is text, found None"),
        ('{{"a":1}:1}', "expected a key that is text, found FrozenBean({'a': 1})"),
        ("{extFields:{5:1}}", "expected a key that is text in extFields, found 5"),
    ],
)
def test_a_header_is_flat(header: str, message: str | None) -> None:
    if message is None:
        decode(header)
        return
    with pytest.raises(RemoteProtocolError) as caught:
        decode(header)
    assert str(caught.value) == f"JSON header: {message}"


@pytest.mark.parametrize("opening", ['{"x":0,', "{x:0,", "{"])
def test_ext_fields_are_a_thousand_at_most(opening: str) -> None:
    for count in (EXT_FIELDS_MAX, EXT_FIELDS_MAX + 1):
        header = opening + '"extFields":{' + ",".join(f'"k{each}":"v"' for each in range(count)) + "}}"
        if count <= EXT_FIELDS_MAX:
            assert len(decode(header).ext_fields or ()) == count
        else:
            with pytest.raises(RemoteProtocolError, match="at most 1000 entries of extFields, found 1001"):
                decode(header)
    with pytest.raises(RemoteProtocolError, match="at most 1000 keys, found 1001"):
        decode("{" + ",".join(f'"k{each}":0' for each in range(1001)) + "}")


def test_a_long_header_is_standard_json() -> None:
    """The dialect's reader is slow, so it gets what a person writes; a byte that is no UTF-8 does not make it one."""
    remark = "r" * DIALECT_SIZE_MAX
    assert decode(f'{{"x":0,"remark":"{remark}"}}').remark == remark
    assert decode_json_header(b'{"remark":"\xff' + remark.encode() + b'"}', None).remark == "\ufffd" + remark
    for form in ("{{'remark':'{}'}}", '{{"remark":"{}","m":[]}}', '{{"remark":"\\ud83d{}"}}'):
        with pytest.raises(RemoteProtocolError, match="expected a flat object in standard JSON"):
            decode(form.format(remark))


@pytest.mark.parametrize("name", WORST_JSON)
def test_no_header_takes_long(name: str) -> None:
    """A header is decoded on the loop, before access control: 50 ms of processor time is for the longest of all."""
    for size in (DIALECT_SIZE_MAX - 100, HEADER_LENGTH_MAX):
        for header in (worst_json(name, size), b'{"code":105,"extFields":{"a":' + worst_json(name, size - 100) + b"}}"):

            def decode_it(header: bytes = header) -> None:
                try:
                    decode_json_header(header, None)
                except RemoteProtocolError:
                    pass

            assert processor_seconds(decode_it) < SLICE_SECONDS_MAX, (name, size)


def test_malformed_utf8_is_replaced() -> None:
    command = decode_json_header(b'{"code":1,"remark":"a\xffb"}', None)
    assert (command.code, command.remark) == (1, "a\ufffdb")


def test_surrogate_pairs_join_and_halves_become_question_marks() -> None:
    """A half would raise at the first attempt to send or store the text."""
    command = decode(r'{"remark":"\ud83d\ude80","extFields":{"k":"a\ud83db"}}')
    assert (command.remark, command.ext_fields) == ("🚀", {"k": "a?b"})
    assert decode(r"""{'extFields':{'\ude80':'\ud83d\ude80'}}""").ext_fields == {"?": "🚀"}
    assert decode('{"remark":"\ufffd","x":0}').remark == "\ufffd"
    assert b'"remark":"a?b"' in encode_json_header(RemotingCommand(code=0, remark="a\ud83db"))


@pytest.mark.parametrize("name", ["code", "flag", "opaque", "version"])
@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_number_beyond_int32_is_our_own_mistake(name: str, value: int) -> None:
    command = RemotingCommand(code=0)
    setattr(command, name, value)
    with pytest.raises(LocalProtocolError, match=f"JSON header: expected int32, found .*{name} {value}"):
        encode_json_header(command)


def test_language_that_was_not_known_is_left_out() -> None:
    assert b"language" not in encode_json_header(RemotingCommand(code=0, language=None))


JSON_PIECES = st.sampled_from(
    [
        *"{}[],:\"'\\",
        *"0123456789",
        "-",
        ".",
        "e",
        " ",
        "null",
        "true",
        '"code"',
        '"extFields"',
        '"language"',
        '"remark"',
    ]
    + ["\\u", "d83d", "x", "$ref", "\x00", "é", "NaN", "new ", "/*", "*/", "//", "\n"]
)


@given(st.lists(JSON_PIECES, max_size=40).map("".join))
def test_random_json_decodes_or_is_refused(text: str) -> None:
    for header in (text, "{" + text, '{"code":' + text + "}", '{"extFields":{"a":' + text + "}}"):
        try:
            command = decode(header)
        except RemoteProtocolError:
            continue
        assert decode_json_header(encode_json_header(command), None).code == command.code
