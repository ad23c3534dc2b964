"""Signing keys: HMAC-SHA1 by the definition, a comparison of the whole, and no secret that shows."""

from __future__ import annotations

import base64
import hmac

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.signing_key import SigningKey


@given(key=st.text(min_size=1, max_size=150), content=st.binary(max_size=300))
def test_signing_is_hmac_sha1(key: str, content: bytes) -> None:
    wanted = hmac.digest(key.encode("utf-8", "replace"), content, "sha1")
    signing_key = SigningKey(key)
    assert signing_key.sign(content) == base64.b64encode(wanted)
    assert signing_key.matches_digest(content, wanted)
    assert not signing_key.matches_digest(content + b"x", wanted)
    assert not signing_key.matches_digest(content, b"")


@given(content=st.binary(max_size=300), other=st.binary(max_size=40), text=st.text(max_size=40))
def test_only_the_signature_itself_matches(content: bytes, other: bytes, text: str) -> None:
    key = SigningKey("12345678")
    right = key.sign(content)
    assert key.matches_text(content, right)
    assert key.matches(content, right.decode())
    assert key.matches_text(content, other) == (other == right)
    assert key.matches_digest(content, other) == (other == base64.b64decode(right))
    assert key.matches(content, text) == (text == right.decode())
    for wrong in (right[:-1], right + b"=", right.swapcase(), b""):
        assert not key.matches_text(content, wrong)


@given(content=st.binary(max_size=300), at=st.integers(0, 300), flipped=st.integers(0, 7))
def test_content_in_two_parts_is_signed_as_one(content: bytes, at: int, flipped: int) -> None:
    key = SigningKey("12345678")
    text = key.sign(content)
    assert key.matches_text(content[:at], text, content[at:])
    assert key.matches_digest(content[:at], base64.b64decode(text), content[at:])
    if content:
        at %= len(content)
        changed = content[:at] + bytes((content[at] ^ 1 << flipped,)) + content[at + 1 :]
        assert not key.matches_text(changed[:at], text, changed[at:])
        assert not key.matches_digest(changed[:at], base64.b64decode(text), changed[at:])


def test_a_signature_does_not_change_the_next_one() -> None:
    key = SigningKey("12345678")
    assert [key.sign(each) for each in (b"one", b"two", b"one")] == [
        base64.b64encode(hmac.digest(b"12345678", each, "sha1")) for each in (b"one", b"two", b"one")
    ]


def test_the_secret_is_not_shown() -> None:
    assert "12345678" not in repr(SigningKey("12345678"))


def test_keys_are_the_same_if_their_secrets_are() -> None:
    assert SigningKey("a-secret").is_same(SigningKey("a-secret"))
    assert not SigningKey("a-secret").is_same(SigningKey("a-secret "))
