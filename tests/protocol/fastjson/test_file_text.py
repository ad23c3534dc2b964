"""The text of a file: its value, and which keys come twice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.fastjson import loads
from rocketpy.protocol.fastjson.file_notes import SHOWN_MAX, FileNotes
from rocketpy.protocol.fastjson.file_text import loads_file


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('{"a":1,"b":{"a":1}}', []),
        ('{"a":1,"a":2}', ["a"]),
        ('{"t":{"x":{"a":1}},"u":[{"b":1,"c":2,"b":3}]}', ["b"]),
        ('{"offsetTable":{"T@g":{0:5,1:6,0:7}}}', ["0"]),
        ('{\n\t"offsetTable":{\n\t\t"T@g":{0:5,1:6\n\t\t}\n\t}\n}', []),
        ('{"a":"{0:1,0:2}"}', []),
        ('{"a":"{0:1","b":1,"b":2}', ["b"]),
        ('{"a":1,"a":', []),
        ("[" * 100_000, []),
        ("", []),
        (
            "{" + ",".join(f'"{number}":1,"{number}":2' for number in range(50)) + "}",
            [str(n) for n in range(SHOWN_MAX)],
        ),
    ],
)
def test_the_keys_that_come_twice_in_one_object(text: str, keys: list[str]) -> None:
    notes = FileNotes()
    with suppress(RemoteProtocolError):
        loads_file(text, notes)
    assert notes.warnings == [f"{key!r} comes twice in one object, the last one counts" for key in keys]
    assert len(keys) <= SHOWN_MAX


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "null",
        '{"a":[1,2.5,true,null,"x"]}',
        '{"a":"{0:1,b:2}"}',
        '{"a":"\\ud83d\\ude80 \\uD83D"}',
        '{"a":"\t\u00e9"}',
        '{"a":1,}',
        "{'a':5L}",
        '{{"topic":"T"}:7}',
        '{"a":NaN}',
        "{",
        "[" * 120 + "]" * 120,
        "[" * 500 + "]" * 500,
        "[" * 100_000,
    ],
)
def test_the_value_is_that_of_the_reader_of_the_dialect(text: str) -> None:
    assert _read(lambda: loads_file(text, FileNotes())) == _read(lambda: loads(text, references=False))


def _read(reader: Callable[[], object]) -> object:
    """Return a value, or the words with which it is refused."""
    try:
        return reader()
    except RemoteProtocolError as failure:
        return str(failure)


def test_bare_integers_are_text_in_the_value() -> None:
    assert loads_file('{"offsetTable":{"T@g":{0:5, -1 :6}}}', FileNotes()) == {
        "offsetTable": {"T@g": {"0": 5, "-1": 6}}
    }
