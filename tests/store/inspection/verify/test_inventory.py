"""Which files are meant to be where, and how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.inspection.verify.findings import Severity
from rocketpy.store.inspection.verify.inventory import Inventory, measured, read_inventory


def files(*base_offsets_and_lengths: tuple[int, int]) -> list[tuple[str, int, int]]:
    return [(str(base_offset), base_offset, length) for base_offset, length in base_offsets_and_lengths]


@pytest.mark.parametrize(
    ("found", "sizes", "usual"),
    [
        ([], [], 0),
        ([(0, 100)], [100], 100),
        ([(0, 100), (100, 100), (200, 100)], [100, 100, 100], 100),
        ([(0, 100), (100, 40), (200, 100)], [100, 100, 100], 100),  # too short in the middle
        ([(0, 100), (100, 100), (200, 40)], [100, 100, 100], 100),  # cut short at the end
        ([(0, 100), (100, 130), (200, 100)], [100, 100, 100], 100),  # too long
        ([(0, 100), (200, 100), (300, 100)], [100, 100, 100], 100),  # one is missing
        ([(0, 100), (100, 0), (200, 100)], [100, 100, 100], 100),  # no bytes
        ([(0, 100), (100, 100), (200, 50), (250, 50)], [100, 100, 50, 100], 100),  # made with another setting
        ([(0, 30), (100, 100)], [100, 100], 100),
    ],
)
def test_how_long_files_are_meant_to_be(found: list[tuple[int, int]], sizes: list[int], usual: int) -> None:
    result, usual_size = measured(files(*found))
    assert ([file.size for file in result], usual_size) == (sizes, usual)
    assert [file.length for file in result] == [length for _, length in found]


def make(root: Path, *names_and_lengths: tuple[str, int]) -> Inventory:
    for name, length in names_and_lengths:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(length))
    return read_inventory(OsDisk(), str(root))


def test_everything_has_its_place(tmp_path: Path) -> None:
    found = make(
        tmp_path,
        (f"commitlog/{0:020d}", 100),
        (f"consumequeue/%RETRY%g/3/{0:020d}", 40),
        (f"consumequeue_ext/T/0/{0:020d}", 64),
        (f"consumequeue/T/deleted-before-{70:020d}", 0),
        ("index/20260131235959123", 10),
        ("config/topics.json.bak", 2),
        ("consumequeue/T/0.staged", 1),
    )
    assert found.findings == []
    assert [file.base_offset for file in found.log_files] == [0]
    assert list(found.queues) == [("%RETRY%g", 3)]
    assert list(found.extensions) == [("T", 0)]
    assert found.deleted_before == {"T": 70}
    assert [each.size for each in found.index_files] == [10]
    assert [Path(path).name for path in found.config_files] == ["topics.json"]


def test_a_file_that_begins_within_another_is_the_wrong_one(tmp_path: Path) -> None:
    found = make(tmp_path, *((f"commitlog/{base:020d}", 100) for base in (0, 100, 130, 200)))
    assert [file.base_offset for file in found.log_files] == [0, 100, 200]
    assert [Path(path).name for path in found.misplaced] == [f"{130:020d}"]
    assert [each.severity for each in found.findings] == [Severity.ERROR]


def test_files_without_bytes_at_the_end_are_no_files(tmp_path: Path) -> None:
    found = make(tmp_path, *((f"commitlog/{base:020d}", length) for base, length in ((0, 100), (100, 0), (200, 0))))
    assert [file.base_offset for file in found.log_files] == [0]
    assert [Path(path).name for path in found.log_leftovers] == [f"{200:020d}", f"{100:020d}"]
    assert {each.severity for each in found.findings} == {Severity.NOTICE}


@pytest.mark.parametrize("name", ["00", "01", "2147483648"])
def test_a_queue_has_one_name_and_others_are_foreign(tmp_path: Path, name: str) -> None:
    """As a start sees it: the second name for a queue would hide the first."""
    found = make(tmp_path, (f"consumequeue/T/0/{0:020d}", 40), (f"consumequeue/T/{name}/{0:020d}", 40))
    assert list(found.queues) == [("T", 0)]
    (finding,) = found.findings
    assert finding.severity is Severity.NOTICE
    assert name in finding.path
