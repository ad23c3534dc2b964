"""One budget over all listeners, and what one address may have of it."""

from __future__ import annotations

import weakref

from rocketpy.remoting.limits.connection_budget import ConnectionBudget
from tests.forgotten import Name, is_forgotten


def test_beyond_the_budget_a_connection_is_refused_until_another_ends() -> None:
    budget = ConnectionBudget(2, 100)
    assert budget.take("a") is None
    assert budget.take("b") is None
    assert budget.take("c") == "2 connections are open"
    budget.release("a")
    assert budget.take("c") is None
    assert budget.count == 2


def test_an_address_has_its_share_and_leaves_a_tenth_whatever_is_configured() -> None:
    budget = ConnectionBudget(20, 3)
    assert [budget.take("a") for _ in range(4)] == [None] * 3 + ["3 connections of this address are open"]
    assert budget.take("b") is None
    generous = ConnectionBudget(20, 1_000_000)
    assert [generous.take("a") is None for _ in range(20)] == [True] * 18 + [False] * 2
    assert generous.take("b") is None


def test_an_address_without_connections_is_forgotten() -> None:
    budget = ConnectionBudget(2, 2)
    host = Name("10.0.0.1")
    reference = weakref.ref(host)
    for _ in range(2):
        assert budget.take(host) is None
    del host
    budget.release("10.0.0.1")
    assert not is_forgotten(reference)
    budget.release("10.0.0.1")
    assert is_forgotten(reference)


def test_ipv6_addresses_of_one_network_count_as_one() -> None:
    """A machine has a /64 of them: counted one by one they would have no limit."""
    budget = ConnectionBudget(20, 3)
    for number in range(3):
        assert budget.take(f"2001:db8:0:1::{number}") is None
    assert budget.take("2001:db8:0:1:ffff::9") == "3 connections of 2001:db8:0:1::/64 are open"
    assert budget.take("2001:db8:0:2::1") is None
    budget.release("2001:db8:0:1::2")
    assert budget.take("2001:db8:0:1:ffff::9") is None


def test_ipv4_addresses_over_ipv6_have_a_share_each() -> None:
    budget = ConnectionBudget(20, 1)
    assert [budget.take(f"10.0.0.{number}") for number in range(3)] == [None] * 3
