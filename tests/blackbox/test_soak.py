"""A short soak: members of every kind and brokers as processes, each harm once. ``python -m bench.soak`` is a long one.

Nothing here depends on how fast the machine is: harms come one after the other, and what must come is waited for.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bench.soak.driver import open_soak

pytestmark = pytest.mark.blackbox

SECONDS = {"dev": 0.0, "ci": 0.0, "deep": 600.0}[os.environ.get("ROCKETPY_TIER", "dev")]
SEED = int(os.environ.get("ROCKETPY_SOAK_SEED", "1"))


def test_clients_keep_every_promise_while_brokers_and_members_die(tmp_path: Path, counts: list[str]) -> None:
    begun = time.monotonic()
    with open_soak(tmp_path, SEED, pace=0.3, pause_s=0.05) as soak:
        soak.disturb(SECONDS)
        report = soak.settle()
    assert report.violations == []
    assert all(report.consumed.values()), report.consumed
    assert len(report.harms) >= 14, report.harms
    counts.append(f"soak: {report.acknowledged} acknowledged, {sum(report.harms.values())} harms, all kept")
    counts.append(f"soak: {time.monotonic() - begun:.1f} s")
