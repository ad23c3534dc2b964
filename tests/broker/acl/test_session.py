"""A session passes nothing for a peer without an account, and hides the secret; the guards' tests hold the rest."""

from __future__ import annotations

import pytest

from rocketpy.broker.acl.plain_access_resource import build_account
from rocketpy.broker.acl.session import NO_SESSION, Session
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.protocol.signing_key import SigningKey

SIGNATURE = SigningKey("12345678").sign(b"content")


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
