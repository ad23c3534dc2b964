"""What fastjson 1.2.69 takes beyond standard JSON, and that everything else is refused with its position."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.fastjson import dumps
from rocketpy.protocol.fastjson.reader import FrozenBean, read_document

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
).filter(lambda value: "$ref" not in json.dumps(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:"a",1:"b"}', {0: "a", 1: "b"}),
        ('{-1:"a"}', {-1: "a"}),
        ('{"0":"a"}', {"0": "a"}),
        ("{null:1,true:2,code:3,$x-y:4}", {None: 1, "true": 2, "code": 3, "$x-y": 4}),
        ("{'a':'it\"s'}", {"a": 'it"s'}),
        ("[1,2,]", [1, 2]),
        ("[,1,,2,]", [1, 2]),
        ('{"a":1,}', {"a": 1}),
        ('{,"a":1,,"b":2}', {"a": 1, "b": 2}),
        ('{"a":1,"a":2}', {"a": 2}),
        (" \t\r\n\f\b{ \n'a' : 1 }\b", {"a": 1}),
        ("\ufeff{a:1}", {"a": 1}),
        ("'\\x41\\u0042\\v\\0\\7\\F\\'\\\"\\/\\\\'", "AB\v\0\7\f'\"/\\"),
        ("'\\uD83D\\uDE80'", "\U0001f680"),
        ("'\\uD83D'", "?"),
        ("'raw\ncontrol\x01'", "raw\ncontrol\x01"),
        ("[1L,2S,3B,4.5F,6D,7d]", [1, 2, 3, 4.5, 6.0, 7.0]),
        ("[1.,1e3,-0.5E-2]", [1.0, 1000.0, -0.005]),
        ("[01]", [1]),
        ("[undefined,null,true,false]", [None, None, True, False]),
        ("1" * 40, int("1" * 40)),
        ("", None),
        ("  ", None),
    ],
)
def test_the_dialect_is_read(text: str, value: object) -> None:
    result = read_document(text)
    assert result == value
    assert dumps(result) == dumps(value)


def test_objects_can_be_keys() -> None:
    result = read_document('{{"topic":"T","queueId":0,"more":{"a":[1,{}]}}:7}')
    assert result == {FrozenBean({"more": {"a": [1, {}]}, "queueId": 0, "topic": "T"}): 7}
    nested = read_document('{{"a":{{"b":1}:true}}:1}')
    assert nested == {FrozenBean({"a": {FrozenBean({"b": 1.0}): 1}}): 1}


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0, -1])
def test_integer_keys_are_those_of_java(number: int) -> None:
    assert read_document(f"{{{number}:1}}") == {number: 1}


def test_beans_are_equal_in_any_order_and_keep_their_own() -> None:
    one, other = FrozenBean({"a": 1, "b": [2]}), FrozenBean({"b": [2], "a": 1})
    assert one == other
    assert hash(one) == hash(other)
    assert list(other) == ["b", "a"]
    assert one != {"a": 1, "b": [2]}
    assert len(one) == 2
    assert repr(one) == "FrozenBean({'a': 1, 'b': (2,)})"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected a key or '}', found the end at character 1"),
        ('{"a"}', "expected ':', found '}' at character 4"),
        ('{"a":}', "expected a value, found '}' at character 5"),
        ('{"a":1 "b":2}', "expected ',' or '}', found '\"b\":2}' at character 7"),
        ("[1 2]", "expected ',' or ']', found '2]' at character 3"),
        ("[1", "expected ',' or ']', found the end at character 2"),
        ('{"a":1}x', "expected nothing after the document, found 'x' at character 7"),
        ("'abc", "expected ' to end the string that begins at character 0"),
        ("'\\", "expected an escape, found the end at character 2"),
        ("'\\q'", 'expected an escape, found "q\'" at character 2'),
        ("'\\u00g0'", 'expected hexadecimal digits after \\u, found "00g0\'" at character 3'),
        ("'\\x4'", 'expected hexadecimal digits after \\x, found "4\'" at character 3'),
        ("{1.5:1}", "expected an int64 as a bare key, found 1.5 at character 1"),
        ("{9223372036854775808:1}", "expected an int64 as a bare key, found 9223372036854775808 at character 1"),
        ("{-9223372036854775809:1}", "expected an int64 as a bare key, found -9223372036854775809 at character 1"),
        ("{[1,2]:8}", "expected a key or '}', found '[1,2]:8}' at character 1"),
        ("1." + "1" * 5000, "expected a number, found 5002 characters of it at 0"),
        ("NaN", "expected a value, found 'NaN' at character 0"),
        ("+1", "expected a value, found '+1' at character 0"),
        ("1x", "expected nothing after the document, found 'x' at character 1"),
        ("9" * 5000, "expected a number, found 5000 digits at 0"),
        ("{" * 200, "expected at most 128 levels, found more at character 128"),
    ],
)
def test_anything_else_is_refused_with_its_position(text: str, message: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        read_document(text)
    assert str(caught.value) == f"JSON: {message}"


@given(JSON_VALUES)
def test_standard_json_means_what_it_means_elsewhere(value: object) -> None:
    assert read_document(json.dumps(value)) == json.loads(json.dumps(value), parse_int=lambda text: int(text))
