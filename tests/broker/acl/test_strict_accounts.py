"""Additional checks of aclStrict; none without it, or for addresses of a global white list."""

from __future__ import annotations

import pytest

from rocketpy.broker.acl.permission import PUB, SUB
from rocketpy.broker.acl.plain_permission import PlainPermissionManager
from rocketpy.broker.acl.strict_accounts import StrictAccounts
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.signature import SessionCredentials
from tests.broker.acl.accounts import ADMIN, make_manager, peer_at, signed

END = RequestCode.END_TRANSACTION
WHITE, AT_HOME, ELSEWHERE = "10.10.103.7", "192.168.9.1", "10.0.0.1"
"""In the global white list; in that of the user's account; in none."""
REMOVED = SessionCredentials("was-removed", "12345678")


def strict() -> StrictAccounts:
    return StrictAccounts(make_manager(is_strict=True))


@pytest.mark.parametrize("manager", [None, make_manager(is_strict=False)])
def test_without_it_nothing_is_asked(manager: PlainPermissionManager | None) -> None:
    accounts, peer = StrictAccounts(manager), peer_at(ELSEWHERE)
    assert not accounts.is_strict
    assert accounts.access_key(peer, signed(END)) is None
    accounts.check(peer, signed(END), "secret", SUB)
    accounts.check_owner(peer, signed(END), "theAdmin", "it")


def test_a_request_is_its_account_s() -> None:
    accounts = strict()
    assert accounts.is_strict
    assert accounts.access_key(peer_at(ELSEWHERE), signed(END)) == "RocketMQ"
    assert accounts.access_key(peer_at(AT_HOME), signed(END)) == "RocketMQ"
    assert accounts.access_key(peer_at(WHITE), signed(END)) is None, "whose key it has is not looked at there"


@pytest.mark.parametrize(
    ("resource", "permission", "is_allowed"),
    [("orders", SUB, True), ("invoices", PUB, False), ("secret", SUB, False), ("%RETRY%readers", SUB, True),
     ("%RETRY%others", SUB, False)],
)  # fmt: skip
def test_a_permission_is_asked_for_when_the_message_is_known(resource: str, permission: int, is_allowed: bool) -> None:
    accounts = strict()
    for address in (AT_HOME, WHITE):
        accounts.check(peer_at(address), signed(END), resource, permission)
    accounts.check(peer_at(ELSEWHERE), signed(END, by=ADMIN), resource, permission)
    if is_allowed:
        accounts.check(peer_at(ELSEWHERE), signed(END), resource, permission)
        return
    with pytest.raises(RequestError, match="AclException: No default permission for "):
        accounts.check(peer_at(ELSEWHERE), signed(END), resource, permission)


def test_about_what_an_account_owns_its_own_connections_are_asked_while_it_exists() -> None:
    assert strict().key_to_ask("RocketMQ") == "RocketMQ"
    assert strict().key_to_ask(None) is None
    assert strict().key_to_ask("was-removed") == ""
    assert StrictAccounts(make_manager(is_strict=False)).key_to_ask("was-removed") is None


def test_an_account_that_was_removed_since_may_do_nothing() -> None:
    accounts = strict()
    with pytest.raises(RequestError):
        accounts.check(peer_at(ELSEWHERE), signed(END, by=REMOVED), "orders", SUB)
    with pytest.raises(RequestError):
        accounts.check_owner(peer_at(AT_HOME), signed(END, by=REMOVED), "RocketMQ", "it")


def test_what_belongs_to_an_account_is_for_it_and_for_administrators() -> None:
    accounts = strict()
    for owner in (None, "RocketMQ"):
        accounts.check_owner(peer_at(ELSEWHERE), signed(END), owner, "it")
        accounts.check_owner(peer_at(ELSEWHERE), signed(END, by=ADMIN), owner, "it")
        accounts.check_owner(peer_at(WHITE), signed(END), owner, "it")
    for address in (ELSEWHERE, AT_HOME):
        with pytest.raises(RequestError) as refusal:
            accounts.check_owner(peer_at(address), signed(END), "another", "the half message")
        assert refusal.value.remark.endswith("accessKey=RocketMQ is not the account that sent the half message")
