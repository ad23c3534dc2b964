"""Bodies as people and programs can read them."""

from __future__ import annotations

import pytest

from rocketpy.protocol.message import MessageExt
from rocketpy.store.inspection.show.message_fields import body_fields, body_text, message_fields


def test_everything_but_the_body_has_a_name() -> None:
    message = MessageExt("T", b"body", {"TAGS": "A", "KEYS": "k"}, queue_id=2, queue_offset=5, physical_offset=77)
    fields = message_fields(message)
    assert (fields["topic"], fields["tags"], fields["keys"], fields["physical_offset"]) == ("T", "A", "k", 77)
    assert "body" not in fields
    assert fields["msg_id"] == fields["offset_msg_id"]


def test_a_body_is_text_if_it_is_some() -> None:
    assert body_fields("grüß".encode()) == {"body": "grüß"}
    assert body_fields(b"\xff\x00") == {"body_base64": "/wA="}
    assert body_fields(b"text", as_base64=True) == {"body_base64": "dGV4dA=="}


@pytest.mark.parametrize(
    ("body", "size_max", "as_hex", "text"),
    [
        (b"hello", None, False, "hello"),
        (b"hello", 3, False, "hel... (5 bytes)"),
        ("ä".encode() * 3, 3, False, "ä... (6 bytes)"),
        (b"\x00\x01", None, False, "0x0001"),
        (b"\xff" * 9, 2, False, "0xffff... (9 bytes)"),
        (b"hello", None, True, "0x68656c6c6f"),
        (b"", None, False, ""),
    ],
)
def test_a_body_for_a_person(body: bytes, size_max: int | None, as_hex: bool, text: str) -> None:
    assert body_text(body, size_max=size_max, as_hex=as_hex) == text
