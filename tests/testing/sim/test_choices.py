"""Trying every choice: each once, whatever the scene asks next because of it."""

from __future__ import annotations

import pytest

from rocketpy.testing.sim.choices import Choose, all_outcomes


def test_every_combination_is_tried_once() -> None:
    seen = []

    def scene(choose: Choose) -> tuple[int, ...]:
        first = choose(2)
        seen.append(outcome := (first, *(choose(3) for _ in range(first + 1))))
        return outcome

    outcomes = all_outcomes(scene)
    assert len(outcomes) == len(seen) == 3 + 9
    assert (1, 2, 2) in outcomes


def test_a_scene_without_choices_runs_once() -> None:
    assert all_outcomes(lambda choose: "only") == {"only"}


def test_too_many_choices_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 100 runs"):
        all_outcomes(lambda choose: [choose(2) for _ in range(20)] and 0, runs_max=100)
