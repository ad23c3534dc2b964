"""One round of a run in which all come and go: each kind of visit does what it came for, and leaves nothing.

What grows by little takes more rounds, as ``python -m bench.soak --come-and-go`` makes them; nothing here depends on
how fast the machine is.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.soak.come_and_go import SERVERS, open_run

pytestmark = pytest.mark.blackbox


def test_visitors_leave_no_socket_and_no_name_on_disk(tmp_path: Path, counts: list[str]) -> None:
    with open_run(tmp_path, pause_s=0.5, round_s=0.5, idle_s=0.0) as run:
        run.round(1)
        comparisons, violations = run.leave()
    assert violations == []
    held = [each for each in comparisons if "threads" not in each.title]  # they end after ten idle seconds
    assert len(held) == 4 * len(SERVERS)
    assert [str(each) for each in held if not each.is_flat] == []
    counts.append(f"come and go: {run.visits.total()} visits of {len(run.visits)} kinds left nothing")
