"""The contents of a filled range: valid records without a gap, whose queue offsets follow each other."""

from __future__ import annotations

import pytest

from rocketpy.protocol.stored_message import BLANK_SIZE_MIN, CheckedMessage, RecordStatus, check_message
from rocketpy.store.inspection.repair.log_filling import CannotFill, Hole, LogFilling, Piece
from rocketpy.store.inspection.repair.placeholders import FILLER_SIZE_MAX, FILLER_SIZE_MIN
from rocketpy.store.inspection.verify.inventory import QueueFiles, StoreFile
from rocketpy.store.inspection.verify.log_walk import Damage
from rocketpy.store.inspection.verify.queue_continuity import QueueContinuity
from rocketpy.store.inspection.verify.queue_verdict import QueuePart
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.layout import UNIT
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import Place

NOW = 1_700_000_000_000


def record(topic: str, queue_offset: int, physical_offset: int, size: int = 200) -> CheckedMessage:
    return CheckedMessage(RecordStatus.MESSAGE, size, topic, 0, queue_offset, physical_offset, store_timestamp=NOW)


class Scene:
    """A log of T and U with a hole at 1000 to 3000."""

    def __init__(self) -> None:
        self.place = Place(SimDisk(), "/s")
        self.continuity = QueueContinuity(log_min_offset=0)
        self.parts: list[QueuePart] = []
        self.suspects: list[CheckedMessage] = []

    def before(self, *records: CheckedMessage) -> None:
        self.continuity.see(records)
        self.continuity.see_damage(Damage(1000, 3000, "", 0, ""))

    def after(self, *records: CheckedMessage) -> None:
        self.continuity.see(records)

    def units(self, topic: str, first: int, *units: tuple[int, int]) -> None:
        """Queue offsets from ``first`` on have units with these physical offsets and sizes."""
        path = f"/s/{topic}/0/{0:020d}"
        self.place.write(path, b"".join(UNIT.pack(*unit, 0) for unit in units), first * 20)
        size = self.place.disk.file_size(path)
        queue = QueueFiles(topic, 0, f"/s/{topic}/0", (StoreFile(path, 0, size, size),))
        self.parts.append(QueuePart(queue, first, first + len(units)))

    def hole(self, *, end: int = 3000, is_file_end: bool = False) -> Hole:
        return Hole(
            path="/s/log",
            base_offset=0,
            begin_offset=1000,
            end_offset=end,
            is_file_end=is_file_end,
            is_new_file=False,
            timestamp_ms=NOW,
            parts=self.parts,
            suspects=self.suspects,
        )

    def filling(self, hole: Hole) -> LogFilling:
        return LogFilling(ReadOnlyFiles(self.place.disk), self.continuity, self.continuity.needed, [hole])


def content_of(pieces: list[Piece]) -> bytes:
    content = b""
    for piece in pieces:
        assert piece.offset == 1000 + len(content)
        content += piece.head + bytes(piece.zero_size) + piece.tail
    return content


def records_in(pieces: list[Piece]) -> list[tuple[str, int, int, int]]:
    """Topic (empty for a filler), queue offset, offset and size of each record; a BLANK is left out."""
    content = content_of(pieces)
    found, position = [], 0
    while position < len(content):
        each = check_message(content, position, len(content) - position)
        if each.status is RecordStatus.BLANK:
            assert each.size == len(content) - position
            break
        assert each.status is RecordStatus.MESSAGE, (position, each.why)
        assert each.physical_offset == 1000 + position
        topic = "" if each.sys_flag & 4 else each.topic
        found.append((topic, each.queue_offset, 1000 + position, each.size))
        position += each.size
    return found


def test_units_say_exactly_what_stood_there() -> None:
    scene = Scene()
    scene.before(record("T", 0, 0), record("U", 0, 200))
    scene.units("T", 1, (1000, 300), (1700, 300))
    scene.units("U", 1, (1300, 400))
    scene.after(record("T", 3, 3000))
    filling = scene.filling(scene.hole())
    assert records_in(list(filling.pieces(scene.hole()))) == [
        ("T", 1, 1000, 300),
        ("U", 1, 1300, 400),
        ("T", 2, 1700, 300),
        ("", 0, 2000, 1000),
    ]
    assert (filling.placeholder_count, filling.first_break, filling.first_invented) == (3, None, None)


def test_heads_say_it_where_queues_are_gone() -> None:
    scene = Scene()
    scene.before(record("T", 0, 0))
    scene.suspects = [record("T", 1, 1000, 500), record("T", 2, 1500, 500)]
    scene.after(record("T", 3, 3000))
    filling = scene.filling(scene.hole())
    assert records_in(list(filling.pieces(scene.hole())))[:2] == [("T", 1, 1000, 500), ("T", 2, 1500, 500)]
    assert filling.first_invented is None


def test_offsets_that_are_missing_go_where_there_is_room() -> None:
    scene = Scene()
    scene.before(record("T", 0, 0), record("U", 0, 200))
    scene.after(record("T", 3, 3000), record("U", 2, 3200))
    filling = scene.filling(scene.hole())
    found = records_in(list(filling.pieces(scene.hole())))
    assert [each[:2] for each in found] == [("T", 1), ("T", 2), ("U", 1), ("", 0)]
    assert (filling.first_invented, filling.first_break) == (1000, None)


def test_unknown_places_keep_the_order_of_a_queue_around_known_ones() -> None:
    scene = Scene()
    scene.before(record("T", 0, 0))
    scene.units("T", 2, (1500, 300))
    scene.after(record("T", 4, 3000))
    filling = scene.filling(scene.hole())
    found = [each for each in records_in(list(filling.pieces(scene.hole()))) if each[0]]
    assert [each[1] for each in found] == [1, 2, 3]
    assert found[0][2] < 1500 == found[1][2] < found[2][2]


def test_units_of_a_queue_that_has_no_hole_are_not_trusted() -> None:
    scene = Scene()
    scene.before(record("T", 0, 0))
    scene.units("T", 7, (1000, 300))
    scene.after(record("T", 1, 3000))
    filling = scene.filling(scene.hole())
    assert records_in(list(filling.pieces(scene.hole()))) == [("", 0, 1000, 2000)]


def test_a_queue_that_ends_in_the_hole() -> None:
    scene = Scene()
    scene.before(record("T", 0, 0))
    scene.units("T", 1, (1000, 1000), (2000, 1000))
    filling = scene.filling(scene.hole())
    assert records_in(list(filling.pieces(scene.hole()))) == [("T", 1, 1000, 1000), ("T", 2, 2000, 1000)]


def test_too_many_missing_offsets_break_the_queue() -> None:
    scene = Scene()
    scene.before(record("T", 0, 0))
    scene.after(record("T", 100, 30_000))
    filling = scene.filling(scene.hole())
    assert len(records_in(list(filling.pieces(scene.hole())))) <= 2000 // FILLER_SIZE_MIN
    assert filling.first_break == 30_000


@pytest.mark.parametrize("size", range(1, FILLER_SIZE_MIN))
def test_too_small_for_any_record(size: int) -> None:
    scene = Scene()
    hole = scene.hole(end=1000 + size)
    with pytest.raises(CannotFill):
        list(scene.filling(hole).pieces(hole))


@pytest.mark.parametrize("size", [FILLER_SIZE_MIN, 100, FILLER_SIZE_MAX, FILLER_SIZE_MAX + 1, 2 * FILLER_SIZE_MAX + 91])
def test_fillers_cover_anything_larger(size: int) -> None:
    scene = Scene()
    hole = scene.hole(end=1000 + size)
    assert sum(each[3] for each in records_in(list(scene.filling(hole).pieces(hole)))) == size


@pytest.mark.parametrize("size", [BLANK_SIZE_MIN, 50, 99, 100, 101, 5000])
def test_a_file_ends_in_a_blank(size: int) -> None:
    scene = Scene()
    hole = scene.hole(end=1000 + size, is_file_end=True)
    pieces = list(scene.filling(hole).pieces(hole))
    assert len(content_of(pieces)) == size
    covered = sum(each[3] for each in records_in(pieces))
    assert size - covered >= BLANK_SIZE_MIN
