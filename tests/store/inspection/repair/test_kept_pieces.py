"""What a repair keeps is there before anything happens to the original."""

from __future__ import annotations

from pathlib import Path

from rocketpy.errors import StoreError
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.inspection.repair.kept_pieces import NOTES_FILE, KeptPieces
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import Place


def kept_in(place: Place) -> KeptPieces:
    return KeptPieces(place.disk, place.root, timestamp_ms=1_700_000_000_000)


def test_nothing_is_made_before_the_first_piece(place: Place) -> None:
    place.write(f"{place.root}/a", b"abc")
    kept = kept_in(place)
    assert kept.path is None
    kept.keep(f"{place.root}/a", 3, 3, "nothing")
    assert place.disk.list_directory(place.root) == ["a"]


def test_ranges_and_whole_files(place: Place) -> None:
    content = b"a" * 100 + bytes(3 << 20) + b"z" * 100
    place.write(f"{place.root}/sub/a", content)
    place.write(f"{place.root}/b", b"bb")
    kept = kept_in(place)
    kept.keep(f"{place.root}/sub/a", 50, len(content) + 1000, "because")
    kept.move(f"{place.root}/b", "it is broken")
    assert kept.path is not None
    assert place.disk.list_directory(kept.path) == ["0001-sub-a", "0002-b", NOTES_FILE]
    assert place.read(f"{kept.path}/0001-sub-a") == content[50:]
    assert place.read(f"{kept.path}/0002-b") == b"bb"
    assert place.read(f"{place.root}/sub/a") == content
    assert not place.disk.exists(f"{place.root}/b")
    assert place.read(f"{kept.path}/{NOTES_FILE}").decode().splitlines() == [
        f"0001-sub-a: bytes 50 to {len(content)} of {place.root}/sub/a: because",
        f"0002-b: {place.root}/b as a whole: it is broken",
    ]


def test_two_repairs_of_the_same_moment_have_two_directories(place: Place) -> None:
    place.write(f"{place.root}/a", b"abc")
    kept = [kept_in(place), kept_in(place)]
    for each in kept:
        each.keep(f"{place.root}/a", 0, 1, "")
    assert len({each.path for each in kept}) == 2


def test_a_piece_survives_the_loss_of_power() -> None:
    disk = SimDisk(choose=lambda count: 0)
    place = Place(disk, "/store")
    place.write("/store/a", b"abc")
    disk.sync_directory("/store")
    kept = kept_in(place)
    kept.keep("/store/a", 0, 3, "")
    disk.lose_power()
    assert place.read(f"{kept.path}/0001-a") == b"abc"
    assert place.read(f"{kept.path}/{NOTES_FILE}").endswith(b"\n")


def test_a_file_on_another_file_system_is_copied(tmp_path: Path) -> None:
    class NoRename(OsDisk):
        def rename(self, path: str, new_path: str) -> None:
            raise StoreError("cannot rename: Invalid cross-device link", path=path)

    place = Place(NoRename(), str(tmp_path))
    place.write(f"{tmp_path}/a", b"abc")
    kept = kept_in(place)
    kept.move(f"{tmp_path}/a", "it is broken")
    assert not (tmp_path / "a").exists()
    assert [path.read_bytes() for path in Path(str(kept.path)).glob("0002-*")] == [b"abc"]
