"""Members of groups."""

from __future__ import annotations

from rocketpy.protocol.bodies.codec import decode_body, encode_text
from rocketpy.protocol.bodies.connection import Connection


def test_an_unknown_language_is_none() -> None:
    assert decode_body('{"clientId":"c","clientAddr":"a","language":"ZIG"}', Connection) == Connection("c", "a")
    assert decode_body('{"clientId":"c","clientAddr":"a","language":3}', Connection).language == "PYTHON"
    assert encode_text(Connection("c", "a")) == '{"clientAddr":"a","clientId":"c","version":0}'
