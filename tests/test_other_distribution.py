"""The rocket simulator of the same package name is noticed, our own distribution is not mistaken for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.other_distribution import other_rocketpy, other_rocketpy_warning


@pytest.mark.parametrize("name", ["rocketpy-1.10.0.dist-info", "RocketPy-1.0.dist-info", "rocketpy-1.2.egg-info"])
def test_the_rocket_simulator_is_found_wherever_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / "site" / name).mkdir(parents=True)
    path = [str(tmp_path / "missing"), str(tmp_path), str(tmp_path / "site")]
    assert other_rocketpy(path) == str(tmp_path / "site" / name)
    assert "rocket flight simulator" in (other_rocketpy_warning(path) or "")


@pytest.mark.parametrize("name", ["rocketpy_mq-0.1.dist-info", "rocketpy-mq-0.1.dist-info", "rocketpy", "rocketpy-x"])
def test_our_own_distribution_is_not(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert other_rocketpy_warning([str(tmp_path)]) is None
