"""Members of groups."""

from __future__ import annotations

from rocketpy.protocol.bodies.codec import decode_body, encode_text
from rocketpy.protocol.bodies.connection import Connection, ProducerInfo, ProducerTableInfo


def test_an_unknown_language_is_none() -> None:
    assert decode_body('{"clientId":"c","clientAddr":"a","language":"ZIG"}', Connection) == Connection("c", "a")
    assert decode_body('{"clientId":"c","clientAddr":"a","language":3}', Connection).language == "PYTHON"
    assert encode_text(Connection("c", "a")) == '{"clientAddr":"a","clientId":"c","version":0}'


def test_the_address_of_a_producer_has_javas_name() -> None:
    table = ProducerTableInfo({"G": [ProducerInfo("c", "/1.2.3.4:5", "JAVA", 409, 7)]})
    assert encode_text(table) == (
        '{"data":{"G":[{"clientId":"c","language":"JAVA","lastUpdateTimestamp":7,"remoteIP":"/1.2.3.4:5","version":409}]}}'
    )
    assert decode_body(encode_text(table), ProducerTableInfo) == table
