"""One budget over all listeners, and what one address may have of it."""

from __future__ import annotations

from rocketpy.remoting.connection_budget import ConnectionBudget


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
    budget = ConnectionBudget(1, 1)
    for number in range(100):
        assert budget.take(str(number)) is None
        budget.release(str(number))
    assert not budget._count_of
