"""Retry limit of a group, and which groups are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.broker.send.retry_limit import known_group
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.codes import ResponseCode
from tests.broker.tables_of_a_broker import Tables


def test_a_group_appears_when_it_may(tables: Tables) -> None:
    assert known_group(tables.groups, "G") == SubscriptionGroupConfig("G")
    assert "G" in tables.groups.subscription_group_table


def test_an_unknown_group_is_named(tables_with: Callable[..., Tables]) -> None:
    groups = tables_with(auto_create_subscription_group=False).groups
    for group, shown in (("G", "G"), ("g" * 5000, "g" * 255 + "...")):
        with pytest.raises(RequestError) as refusal:
            known_group(groups, group)
        assert refusal.value.response_code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert refusal.value.remark == (
            f"subscription group not exist, {shown} \nSee http://rocketmq.apache.org/docs/faq/ for further details."
        )


def test_a_broker_with_too_many_groups_says_so(tables_with: Callable[..., Tables]) -> None:
    groups = tables_with(auto_create_subscription_group_max=1).groups
    with pytest.raises(RequestError, match="see autoCreateSubscriptionGroupMax") as refusal:
        known_group(groups, "G")
    assert refusal.value.response_code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
