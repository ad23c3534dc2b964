"""The JSON header: Java's bytes out, and in everything that Java's fastjson takes, refusing what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.codes import LanguageCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.json_header import decode_json_header, encode_json_header

VECTORS = json.loads((Path(__file__).parents[1] / "golden" / "vectors.json").read_text())

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
    """A key that nobody knows sends the same header through the tolerant reader."""
    header = encode_json_header(command)
    assert decode_json_header(b'{"unknown":[null],' + header[1:], None) == command


def test_body_is_passed_through() -> None:
    assert decode_json_header(b"{}", b"body").body == b"body"


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
        ('{"unknown":{"deep":[1,{"x":null}]},"code":17}', {"code": 17}),
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
        ('{"extFields":{"a":{"k":[1]}}}', {"ext_fields": {"a": '{"k":[1]}'}}),
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


def test_references_cannot_make_a_header_grow() -> None:
    """Each line of this header doubles the one before; written out it would have 2**40 values."""
    lines = ['"a0":["x","x"]', *(f'"a{i}":[{{"$ref":"$.a{i - 1}"}},{{"$ref":"$.a{i - 1}"}}]' for i in range(1, 40))]
    with pytest.raises(RemoteProtocolError, match="references"):
        decode("{" + ",".join(lines) + ',"extFields":{"k":{"$ref":"$.a39"}}}')


@pytest.mark.parametrize("path", ["$", "..", "@", "$.extFields", "$.nowhere"])
def test_references_in_a_circle_lead_nowhere(path: str) -> None:
    assert decode(f'{{"extFields":{{"a":{{"x":{{"$ref":"{path}"}}}}}}}}').ext_fields == {"a": '{"x":null}'}


def test_malformed_utf8_is_replaced() -> None:
    command = decode_json_header(b'{"code":1,"remark":"a\xffb"}', None)
    assert (command.code, command.remark) == (1, "a\ufffdb")


def test_surrogate_pairs_join_and_halves_become_question_marks() -> None:
    """A half would raise at the first attempt to send or store the text."""
    command = decode(r'{"remark":"\ud83d\ude80","extFields":{"k":"a\ud83db"}}')
    assert (command.remark, command.ext_fields) == ("🚀", {"k": "a?b"})
    assert decode(r"""{'extFields':{'\ude80':{'\ud83d':'\ud83d\ude80'}}}""").ext_fields == {"?": '{"?":"🚀"}'}
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


@given(st.binary(max_size=100))
def test_random_bytes_decode_or_are_refused(header: bytes) -> None:
    try:
        decode_json_header(header, None)
    except RemoteProtocolError:
        pass


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
