"""A session passes what its account has signed, and nothing for a peer without an account."""

from __future__ import annotations

import base64

import pytest

from rocketpy.broker.acl.plain_access_resource import build_account
from rocketpy.broker.acl.session import NO_SESSION, Session
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.protocol.signing_key import SigningKey

SIGNATURE = SigningKey("12345678").sign(b"content")


def test_what_the_account_has_signed_matches() -> None:
    session = Session("RocketMQ", build_account(PlainAccessConfig("RocketMQ", "12345678")))
    assert session.matches_text(b"content", SIGNATURE)
    assert session.matches(b"content", base64.b64decode(SIGNATURE))
    assert not session.matches_text(b"Content", SIGNATURE)
    assert not session.matches_text(b"content", b"")
    assert not session.matches(b"content", SIGNATURE)
    assert not session.matches(b"content", b"")


def test_a_rest_that_is_not_copied_is_signed_too() -> None:
    session = Session("RocketMQ", build_account(PlainAccessConfig("RocketMQ", "12345678")))
    assert session.matches_text(b"con", SIGNATURE, b"tent")
    assert session.matches(b"con", base64.b64decode(SIGNATURE), b"tent")
    assert not session.matches_text(b"con", SIGNATURE, b"tend")
    assert not session.matches_text(b"content", SIGNATURE, b"content")
    assert not session.matches(b"con", base64.b64decode(SIGNATURE))


@pytest.mark.parametrize("session", [NO_SESSION, Session("", None, needs_nothing=True)])
def test_nothing_matches_without_an_account(session: Session) -> None:
    for content, signature in ((b"content", SIGNATURE), (b"", b"")):
        assert not session.matches_text(content, signature)
        assert not session.matches(content, signature)
    assert session.allowed == set()


def test_the_secret_is_not_shown() -> None:
    account = build_account(PlainAccessConfig("RocketMQ", "12345678"))
    assert "12345678" not in repr(account)
    assert "12345678" not in repr(Session("RocketMQ", account))
