"""Every test of the store that touches a disk runs on the simulated and on the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import Place


@pytest.fixture(params=["sim", "os"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A disk, and a directory on it for a store."""
    if request.param == "sim":
        return Place(SimDisk(), "/store")
    return Place(OsDisk(), str(tmp_path / "store"))
