"""How a file of the index is laid out is found, whatever it was made with."""

from __future__ import annotations

from random import Random

import pytest

from rocketpy.store.index.file import IndexLayout, create_index_file
from rocketpy.store.inspection.verify.index_inspection import layout_of
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.testing.sim.disk import SimDisk


@pytest.mark.parametrize(
    ("slots", "entries"), [(500, 2000), (20, 40), (7, 100), (1000, 20), (3001, 13), (250_000, 160)]
)
@pytest.mark.parametrize("keys", [0, 1, 2, 12])
@pytest.mark.parametrize("seed", range(3))
def test_layouts(slots: int, entries: int, keys: int, seed: int) -> None:
    random = Random(seed)
    layout = IndexLayout(slots, entries)
    disk = SimDisk()
    disk.make_directories("/index")
    file = create_index_file(disk, "/index/a", "/index.staged", layout, None)
    if keys:
        places = sorted(random.randrange(1 << 32) for _ in range(keys))
        places[0] *= seed > 0  # the first message of a log
        hashes = [random.randrange(1 << 31) for _ in range(keys)]
        file.put(hashes, places, [1_700_000_000_000 + number for number in range(keys)])
    file.close()
    found = layout_of(ReadOnlyFiles(disk), "/index/a", layout.file_size)
    assert found is not None
    assert found.file_size == layout.file_size
    if keys > 1 or (keys and seed):
        assert found == layout


def test_garbage_has_no_layout() -> None:
    disk = SimDisk()
    disk.make_directories("/index")
    file = disk.open("/index/a", create=True)
    file.write(0, Random(1).randbytes(42_040))
    file.close()
    assert layout_of(ReadOnlyFiles(disk), "/index/a", 42_040) is None
