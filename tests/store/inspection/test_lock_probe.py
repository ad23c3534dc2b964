"""Whether a broker has a store open is asked without touching anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rocketpy.store.inspection.lock_probe import is_locked

HOLDER = """
import sys
from rocketpy.store.disk.os_disk import OsDisk
lock = OsDisk().lock(sys.argv[1])
print(flush=True)
input()
"""


def test_a_lock_of_another_process_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(str(path))
    assert not path.exists()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        before = path.stat().st_mtime_ns
        assert is_locked(str(path))
        assert path.stat().st_mtime_ns == before
    finally:
        holder.communicate("\n")
    assert not is_locked(str(path))
