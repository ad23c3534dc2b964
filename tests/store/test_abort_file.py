"""The abort file survives every crash between its creation and its removal."""

from __future__ import annotations

from rocketpy.store.abort_file import AbortFile
from rocketpy.testing.sim_disk import SimDisk


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
