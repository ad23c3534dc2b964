"""Both disks, for the tests that each of them must pass: the operating system's and the simulated one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.testing.sim.disk import SimDisk

_KINDS = {"os": OsDisk, "sim": SimDisk}


@pytest.fixture(params=_KINDS)
def disk(request: pytest.FixtureRequest) -> Disk:
    make: Callable[[], Disk] = _KINDS[request.param]
    return make()


@pytest.fixture
def root(disk: Disk, tmp_path: Path) -> str:
    path = str(tmp_path / "root")
    disk.make_directories(path)
    return path
