"""Which keys of a file come twice."""

from __future__ import annotations

import pytest

from rocketpy.protocol.fastjson.repeated_keys import SHOWN_MAX, repeated_keys


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
    assert repeated_keys(text) == keys
    assert len(keys) <= SHOWN_MAX
