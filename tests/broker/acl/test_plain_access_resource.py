"""Accounts: what makes one, and what it may do."""

from __future__ import annotations

import pytest

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.permission import PUB, SUB, group_resource
from rocketpy.broker.acl.plain_access_resource import build_account
from rocketpy.protocol.bodies.acl import PlainAccessConfig

ACCOUNT = PlainAccessConfig("account-1", "secret-1")


@pytest.mark.parametrize(
    ("access_key", "secret_key"), [("", "1234567"), ("123456", "1234567"), ("1234567", "123456"), ("1234567", None)]
)
def test_keys_have_seven_characters_and_the_secret_is_not_repeated(access_key: str, secret_key: str | None) -> None:
    with pytest.raises(AclError, match="cannot be null and length should longer than 6") as failure:
        build_account(PlainAccessConfig(access_key, secret_key))
    assert secret_key is None or f"secretKey={secret_key}" not in str(failure.value)


def test_what_is_listed_comes_before_the_defaults() -> None:
    config = PlainAccessConfig(
        "account-1",
        "secret-1",
        default_topic_perm="PUB|SUB",
        default_group_perm="SUB",
        topic_perms=["orders=PUB", "orders=SUB", " secrets = DENY "],  # the last one counts
        group_perms=["writers=PUB"],
    )
    account = build_account(config)
    account.check("anything", PUB)
    account.check("orders", SUB)
    account.check(group_resource("readers"), SUB)
    for resource, needed in (("orders", PUB), ("secrets", SUB), (group_resource("writers"), SUB)):
        with pytest.raises(AclError):
            account.check(resource, needed)


def test_an_administrator_may_do_everything_unless_something_is_listed() -> None:
    build_account(PlainAccessConfig("account-1", "secret-1", admin=True)).check("anything", PUB)
    with pytest.raises(AclError):
        build_account(PlainAccessConfig("account-1", "secret-1", admin=True, topic_perms=["a=PUB"])).check("b", PUB)
