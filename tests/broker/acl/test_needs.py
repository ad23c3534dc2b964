"""A declaration says nothing by default; what the declarations of all codes read is in test_needed_permissions."""

from __future__ import annotations

from rocketpy.broker.acl.needs import ADMIN, ANY_ACCOUNT, STRICT_ADMIN, Needs
from rocketpy.protocol.command import RemotingCommand


def test_a_signature_is_enough_where_nothing_else_is_declared() -> None:
    request = RemotingCommand(310, {"topic": "orders", "b": "orders", "group": "g"})
    assert Needs() == ANY_ACCOUNT
    assert (ANY_ACCOUNT.resources(request, 10), ANY_ACCOUNT.strict_resources(request, 10)) == ({}, {})
    assert (ANY_ACCOUNT.is_admin, ANY_ACCOUNT.is_strict_admin, ANY_ACCOUNT.properties_field) == (False, False, None)


def test_an_administrator_is_one_under_acl_strict_too() -> None:
    assert (ADMIN.is_admin, ADMIN.is_strict_admin) == (True, True)
    assert (STRICT_ADMIN.is_admin, STRICT_ADMIN.is_strict_admin) == (False, True)
