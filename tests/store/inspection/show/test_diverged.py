"""What a slave has cut off and kept, as it is listed."""

from __future__ import annotations

from rocketpy.store.inspection.show.diverged import KeptTail, kept_tails
from rocketpy.testing.sim.disk import SimDisk
from tests.store.ha.records import FILE, a_log, a_record
from tests.store.ha.test_recorded_log import ranges


def write(disk: SimDisk, path: str, content: bytes) -> None:
    disk.make_directories(path.rpartition("/")[0])
    file = disk.open(path, create=True)
    file.write(0, content)
    file.close()


def test_each_part_is_listed_with_its_records_and_their_times() -> None:
    disk = SimDisk()
    assert list(kept_tails(disk, "/store")) == []
    content = a_log(20)
    begin = next(each.offset for each in ranges(content) if each.offset > 1.2 * FILE)
    for base in (begin, *range(2 * FILE, len(content), FILE)):
        end = min(base - base % FILE + FILE, len(content))
        write(disk, f"/store/diverged/{begin:020d}-20231114T221320123Z/{base:020d}", content[base:end])
    write(disk, "/store/diverged/00000000000000000000-20231114T221320123Z/00000000000000000000", a_record(0))
    write(disk, "/store/diverged/00000000000000000000-20231114T221320123Z/notes", b"foreign")
    write(disk, "/store/diverged/torn/00000000000000000000", b"\0" * 500)
    disk.make_directories("/store/diverged/empty")
    count = sum(each.offset >= begin and not each.is_blank for each in ranges(content))
    stored_ms = 1_700_000_000_001
    first = "/store/diverged/00000000000000000000-20231114T221320123Z"
    assert list(kept_tails(disk, "/store")) == [
        KeptTail(first, 0, len(a_record(0)), 1, stored_ms, stored_ms),
        KeptTail(f"/store/diverged/{begin:020d}-20231114T221320123Z", begin, len(content), count, stored_ms, stored_ms),
        KeptTail("/store/diverged/torn", 0, 500, 0, 0, 0),
    ]
