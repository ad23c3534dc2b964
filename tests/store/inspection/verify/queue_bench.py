"""A store of one queue, taken apart: its records, and units that can be overwritten."""

from __future__ import annotations

import attrs

from rocketpy.protocol.stored_message import CheckedMessage, check_message
from rocketpy.store.inspection.verify.inventory import read_inventory
from rocketpy.store.inspection.verify.queue_inspection import QueueInspection
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import Parts, Place

KEY = ("TopicTest", 0)
COUNT = 6


@attrs.define(eq=False)
class Bench:
    """A store of some messages in one queue, taken apart."""

    place: Place
    records: list[CheckedMessage]

    def unit(self, number: int, physical_offset: int, size: int, code: int) -> None:
        """Overwrite one unit."""
        self.place.write(self.place.queue_file(*KEY), UNIT.pack(physical_offset, size, code), number * UNIT_SIZE)

    def inspect(self, records: list[CheckedMessage] | None = None) -> QueueInspection:
        opened = ReadOnlyFiles(self.place.disk)
        inspection = QueueInspection(read_inventory(self.place.disk, self.place.root), opened)
        inspection.see(self.records if records is None else records)
        opened.close()
        return inspection


def make_bench() -> Bench:
    """Return a sound one of COUNT messages."""
    place = Place(SimDisk(), "/store")
    parts = Parts(place)
    places = parts.put_all([b"%d" % number for number in range(COUNT)])
    parts.close()
    log = place.read(place.log_file())
    records = []
    for physical_offset in places:
        size = int.from_bytes(log[physical_offset : physical_offset + 4], "big")
        content = log[physical_offset : physical_offset + size]
        records.append(check_message(content, 0, size, check_crc=True))
    return Bench(place, records)
