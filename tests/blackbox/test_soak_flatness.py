"""The judge of a run in which all come and go finds what grows, and only that."""

from __future__ import annotations

import random

import pytest

from bench.soak.flatness import EXACT, MEASUREMENTS_MIN, Allowance, compare, judge, settled_thirds, table

ROUNDS = 40
LEAK = 13 * 1024 * 35 / (1 << 20)
"""MiB of a round: 13 KB for each of 35 visits, as statistics of deleted topics once cost."""


def noisy(*, begin: float = 60.0, growth: float = 0.0, noise: float = 0.5, rounds: int = ROUNDS) -> list[float]:
    """Return measurements that grow by an amount in each round, with noise about them."""
    chance = random.Random(3)
    return [begin + growth * number + chance.uniform(-noise, noise) for number in range(rounds)]


def test_noise_is_flat_and_a_leak_of_each_visit_is_not() -> None:
    allowance = Allowance(amount=2.0, share=0.03)
    assert judge("memory", "MiB", noisy(), allowance).is_flat
    assert not judge("memory", "MiB", noisy(growth=LEAK), allowance).is_flat


def test_the_warm_up_is_left_out_and_what_comes_after_it_is_not() -> None:
    filling = [10.0 + min(number, 9) for number in range(ROUNDS)]
    assert judge("a cache that fills", "", filling, EXACT).is_flat
    late = [10.0] * (ROUNDS // 2) + [11.0] * (ROUNDS // 2)
    assert not judge("a descriptor that stays", "", late, EXACT).is_flat


def test_single_measurements_and_what_shrinks_do_not_count() -> None:
    values = [10.0] * ROUNDS
    values[-1] = values[-3] = 1000.0
    assert judge("disturbed twice", "", values, EXACT).is_flat
    assert judge("shrinks", "", noisy(growth=-1.0), EXACT).is_flat


def test_the_allowance_is_the_larger_of_amount_and_share() -> None:
    allowance = Allowance(amount=2.0, share=0.1)
    assert compare("", "", 10.0, 12.0, allowance).is_flat
    assert not compare("", "", 10.0, 12.1, allowance).is_flat
    assert compare("", "", 100.0, 110.0, allowance).is_flat
    assert not compare("", "", 100.0, 110.1, allowance).is_flat
    assert not compare("descriptors", "", 20, 21).is_flat


@pytest.mark.parametrize("count", range(MEASUREMENTS_MIN, 60))
def test_each_third_has_two_measurements_or_more_and_none_of_the_other(count: int) -> None:
    first, last = settled_thirds(range(count))
    assert len(first) == len(last) >= 2
    assert first[0] == count // 4
    assert last[-1] == count - 1
    assert first[-1] < last[0]


def test_too_few_measurements_are_not_judged() -> None:
    with pytest.raises(ValueError, match="7 measurements are too few"):
        judge("", "", [1.0] * (MEASUREMENTS_MIN - 1), EXACT)


def test_the_table_names_what_grows() -> None:
    flat, growing = compare("threads", "", 4, 4), compare("sockets", "", 4, 5)
    assert table([flat])[-1] == "everything is flat"
    lines = table([flat, growing])
    assert lines[-1] == "growing: sockets"
    assert [line.split()[-1] for line in lines[1:-1]] == ["flat", "GROWS"]
