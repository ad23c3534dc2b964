"""The abort file survives every crash between its creation and its removal."""

from __future__ import annotations

import pytest

from rocketpy.errors import StoreError
from rocketpy.store.recovery.abort_file import AbortFile
from rocketpy.testing.sim_disk import SimDisk
from tests.store.parts import Place


def test_it_is_there_after_a_crash_and_gone_after_an_orderly_end() -> None:
    disk = SimDisk()
    disk.make_directories("/store")
    abort_file = AbortFile(disk, "/store/abort")
    assert not abort_file.exists()
    abort_file.create()
    disk.lose_power(lambda count: 0)
    assert abort_file.exists()
    assert disk.file_size("/store/abort") == 0
    abort_file.create()
    abort_file.remove()
    disk.lose_power(lambda count: 0)
    assert not abort_file.exists()


def test_a_directory_of_that_name_is_an_error(place: Place) -> None:
    place.disk.make_directories(f"{place.root}/abort")
    with pytest.raises(StoreError, match="found a directory"):
        AbortFile(place.disk, f"{place.root}/abort").exists()
