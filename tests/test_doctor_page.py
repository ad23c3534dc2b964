"""``docs/doctor.md`` has a row for every check of the doctor, and none for another."""

from __future__ import annotations

import re
from pathlib import Path

from rocketpy.client.diagnosis.brokers import CLOCK_SKEW_MS, DISK_FULL_RATIO, SLAVE_LAG_BYTES
from rocketpy.client.diagnosis.doctor import MEMBERS_ASKED, WATCH_SECONDS
from rocketpy.client.diagnosis.groups import STUCK_MS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "doctor.md").read_text()
ROWS = re.findall(r"^\| `([a-z-]+)` \| (problem|note) \| (.+) \|$", PAGE, re.MULTILINE)


def test_every_check_has_its_row() -> None:
    sources = [path.read_text() for path in (ROOT / "rocketpy" / "client" / "diagnosis").glob("*.py")]
    made = {
        (check, kind) for source in sources for kind, check in re.findall(r"\b(problem|note)\(\s*\"([a-z-]+)\"", source)
    }
    assert {(check, kind) for check, kind, _ in ROWS} == made
    assert [row[0] for row in ROWS] == sorted(row[0] for row in ROWS)
    assert len(ROWS) == PAGE.count("\n| ") - 1


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    rows = {check: text for check, _, text in ROWS}
    assert f"more than {CLOCK_SKEW_MS // 1000} s" in rows["clock-skew"]
    assert f"{DISK_FULL_RATIO:.0%}".replace("%", " %") in rows["disk-full"]
    assert f"{SLAVE_LAG_BYTES >> 20} MiB" in rows["slave-lag"]
    assert STUCK_MS == 60_000, "a minute"
    assert f"({WATCH_SECONDS:.0f} by default)" in PAGE
    assert f"{MEMBERS_ASKED} of them at most" in PAGE
