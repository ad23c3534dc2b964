"""What may happen in a life: the alphabet of the workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from property_tests.crash.life import FLUSH_INTERVAL_MS, KEY, ROOT, SMALL, Life
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.layout import ORDERLY_END_FILE, UNIT, UNIT_SIZE
from rocketpy.store.message_store import MessageStore
from rocketpy.store.recovery.marker_files import load_orderly_end

LARGE = 6000  # the size of a body, as SMALL is; two large ones never fit into one file, and each touches several pages
_BATCHES = 7  # of three messages: they fill four files of a queue, more than recovery reads to its end
_INDEX_BUILDS_MS = 20


def _open(life: Life) -> None:
    life.tell(life.model.recovered, life.world.open())


def _put(life: Life) -> None:
    life.put(SMALL)


def _put_large(life: Life) -> None:
    life.put(LARGE)


def _put_batch(life: Life) -> None:
    life.put_batch(3)


def _put_naming(life: Life) -> None:
    """Send a message of another topic that claims to be in a queue: recovery must not trust it."""
    life.put_naming("A")


def _acknowledge(life: Life) -> None:
    """End the burst, and wait until its messages are durable."""
    life.end_burst(waits=True)
    life.world.flush()


def _checkpoint(life: Life) -> None:
    """End the burst without waiting, and let time pass until the queues are flushed and the checkpoint is written."""
    life.end_burst(waits=False)
    life.world.pass_time(1.1 * FLUSH_INTERVAL_MS)


def _put_meanwhile(life: Life) -> None:
    """The same, and one more message comes while the disk works on the first sync."""

    def meanwhile() -> None:
        life.put(SMALL)
        life.end_burst(waits=False)

    life.end_burst(waits=False)
    life.world.meanwhile = meanwhile
    life.world.pass_time(1.1 * FLUSH_INTERVAL_MS)
    life.world.meanwhile = None


def _put_late(life: Life) -> None:
    """One more message comes just before the first flush, which covers it before the index has its key."""
    life.end_burst(waits=False)
    life.world.pass_time(FLUSH_INTERVAL_MS - _INDEX_BUILDS_MS / 4)
    life.put(SMALL)
    life.end_burst(waits=False)
    life.world.pass_time(_INDEX_BUILDS_MS)


def _restart(life: Life) -> None:
    """Stop in order and start again."""
    life.world.stop()
    life.tell(life.model.written)
    life.tell(life.model.stopped)
    _open(life)


def _restart_with_longer_queue(life: Life) -> None:
    """Between stop and start a queue becomes that of a copy of the store: it has a unit more than the log has messages.

    The log may soon have a message of the same size there, with other tags.
    """
    life.world.stop()
    life.tell(life.model.written)
    life.tell(life.model.stopped)
    disk, directory = life.world.disk, f"{ROOT}/consumequeue/A/0"
    for name in disk.list_directory(directory)[-1:] if disk.is_directory(directory) else []:
        file = disk.open(f"{directory}/{name}")
        units = [UNIT.unpack_from(file.read(at, UNIT_SIZE)) for at in range(0, file.size() - UNIT_SIZE, UNIT_SIZE)]
        count = sum(size > 0 for _, size, _ in units)
        note = load_orderly_end(disk, f"{ROOT}/{ORDERLY_END_FILE}")
        if note is not None and 0 < count < len(units):
            file.write(count * UNIT_SIZE, UNIT.pack(note.end_offset, units[count - 1][1], 7))
        file.sync()
        file.close()
    _open(life)


def _restart_without_queue(life: Life) -> None:
    """Between stop and start a queue of several files goes, and the start makes all of it again."""
    for _ in range(_BATCHES):
        life.put_batch(3)
    life.end_burst(waits=True)
    life.world.stop()
    life.tell(life.model.written)
    life.tell(life.model.stopped)
    disk, directory = life.world.disk, f"{ROOT}/consumequeue/B/0"
    for name in disk.list_directory(directory):
        disk.unlink(f"{directory}/{name}")
    disk.sync_directory(directory)
    _open(life)


def _search(life: Life) -> None:
    """Look all messages up by their key."""
    world = life.world
    life.end_burst(waits=False)
    world.pass_time(_INDEX_BUILDS_MS)
    assert not world.store.index_behind, "the index has had its time"
    for topic in "AB" if life.has_index else "":
        result = world.ask(partial(_places_of_key, topic))
        expected = [each.physical_offset for each in life.model.log if each.topic == topic]
        assert result == expected, f"the index has {result} of topic {topic}, expected {expected}"


async def _places_of_key(topic: str, store: MessageStore) -> list[int]:
    found = await store.query_message(topic, KEY, 1000, 0, 1 << 62)
    return sorted({each.physical_offset for each in decode_messages(found.body) if each.topic == topic})


def _clock_back(life: Life) -> None:
    """The wall clock is set back by an hour."""
    life.world.clock.advance_ms(-3_600_000)


def _sync_fails(life: Life) -> None:
    """The next sync of a file will fail, and have written nothing."""
    life.world.disk.fail_call("sync")


OPERATIONS: Mapping[str, Callable[[Life], None]] = {
    "open": _open,
    "put": _put,
    "put large": _put_large,
    "put batch": _put_batch,
    "put naming": _put_naming,
    "acknowledge": _acknowledge,
    "checkpoint": _checkpoint,
    "put meanwhile": _put_meanwhile,
    "put late": _put_late,
    "restart": _restart,
    "restart with longer queue": _restart_with_longer_queue,
    "restart without queue": _restart_without_queue,
    "search": _search,
    "clock back": _clock_back,
    "sync fails": _sync_fails,
}
