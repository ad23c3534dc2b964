"""Queue files that cannot be right are rebuilt from the log, after a clean shutdown too."""

from __future__ import annotations

import pytest

from rocketpy.errors import DamagedStoreError
from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.store.recovery.checkpoint import DurableEnds
from tests.store.parts import LOG_FILE_SIZE, QUEUE_FILE_SIZE, Parts, Place

COUNT = 50  # in three files of 20 units
BODIES = [f"{number:03d}".encode() * 10 for number in range(COUNT)]
UNITS_PER_FILE = QUEUE_FILE_SIZE // UNIT_SIZE


def stopped(place: Place) -> list[int]:
    """Create a store that was shut down cleanly; return the offsets of its messages."""
    parts = Parts(place)
    places = parts.put_all(BODIES)
    parts.close()
    return places


def test_a_queue_whose_end_leads_out_of_the_log_is_rebuilt(place: Place) -> None:
    places = stopped(place)
    last = (COUNT - 1) % UNITS_PER_FILE * UNIT_SIZE
    place.write(place.queue_file("TopicTest", 0, 2 * QUEUE_FILE_SIZE), UNIT.pack(1 << 60, 100, 0), last)
    ends = DurableEnds(log_flushed_offset=places[-1], durable_offset=places[-1], unit_count=1)
    again = Parts(place, durable_ends=ends)
    assert again.bodies() == BODIES


def test_a_first_unit_that_is_damaged_hides_no_message(place: Place) -> None:
    stopped(place)
    place.write(place.queue_file("TopicTest", 0), UNIT.pack(-1, 100, 0))
    assert Parts(place).bodies() == BODIES  # a queue without a valid unit is rebuilt
    place.write(place.queue_file("TopicTest", 0), UNIT.pack(1 << 40, 100, 0))
    again = Parts(place)
    assert again.queues.find("TopicTest", 0).min_offset == 0
    assert "unit 0 of topic TopicTest" in again.get(0).damage
    assert again.get(1).message_count > 0


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_file_of_a_wrong_name_is_an_error_and_deletes_nothing(place: Place, is_clean: bool) -> None:
    stopped(place)
    stray = place.log_file(5)
    place.write(stray, bytes(LOG_FILE_SIZE))
    before = place.files(place.root)
    with pytest.raises(DamagedStoreError, match="expected no file before offset 8192") as raised:
        Parts(place, is_clean=is_clean)
    assert raised.value.path == stray
    assert place.files(place.root) == before
