"""A small store dies at every disk call, in turn, by kill or by power loss, and once more while it recovers.

What was acknowledged is there, in order, once: after a kill everything whose burst had ended, after a power loss
everything whose sync had returned. What is there besides was sent, and nothing is there twice.
"""

from __future__ import annotations

from random import Random

import attrs
import pytest

from rocketpy.errors import StoreError
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import ProcessDied, SimDisk
from tests.store.parts import Parts, Place

QUEUES = (("A", 0), ("A", 1), ("B", 0))
BURSTS = 24
LOG_FILE_SIZE = 2048
QUEUE_FILE_SIZE = 200


@attrs.define
class Witness:
    """What was promised, outside the disk."""

    sent: list[tuple[int, bytes]] = attrs.Factory(list)  # queue's index and body, in order
    written: int = 0  # so many of them were in a burst that ended
    synced: int = 0  # so many of them were in the log when it was synced
    durable_before_ms: int = 0  # the checkpoint, less its three seconds of caution
    crashes: int = 0


def run(place: Place, witness: Witness) -> None:
    """Recover, check, and send some bursts; syncs now and then."""
    parts = Parts(
        place,
        is_clean=witness.crashes == 0,
        durable_before_ms=witness.durable_before_ms,
        log_file_size=LOG_FILE_SIZE,
        queue_file_size=QUEUE_FILE_SIZE,
    )
    check(parts, witness)
    for burst in range(BURSTS):
        parts.clock.advance_ms(1000)  # from the same time again in each life: the clock is set back
        for number in range(3):
            queue = (burst + number * burst) % len(QUEUES)
            body = b"%d.%d.%d " % (witness.crashes, burst, number) * (1 + number * 3)
            topic, queue_id = QUEUES[queue]
            witness.sent.append((queue, body))
            status, _, _ = parts.put(body, topic, queue_id)
            assert status is PutMessageStatus.PUT_OK
        parts.appender.end_burst()
        witness.written = len(witness.sent)
        if burst % 3 == 2:
            flush_log(parts, witness)
        if burst % 5 == 4:
            flush_queues(parts, witness)


def flush_log(parts: Parts, witness: Witness) -> None:
    flush_range = parts.commit_log.begin_flush()
    if flush_range is not None:
        flush_range.sync()
        parts.commit_log.end_flush(flush_range, is_synced=True)
    witness.synced = len(witness.sent)


def flush_queues(parts: Parts, witness: Witness) -> None:
    """A thorough flush; the checkpoint's time is captured before it begins, and means log and queues."""
    timestamp_ms = parts.commit_log.wrote_timestamp_ms
    flush_log(parts, witness)
    while (flush_range := parts.queues.begin_flush()) is not None:
        flush_range.sync()
        parts.queues.end_flush(flush_range, is_synced=True)
    witness.durable_before_ms = timestamp_ms - 3000


def check(parts: Parts, witness: Witness, *, power_lost: bool = False) -> None:
    """Compare the store with the witness, and let the witness forget what the store has lost."""
    promised = witness.synced if power_lost else witness.written
    found = {queue: parts.bodies(*QUEUES[queue]) for queue in range(len(QUEUES))}
    count = sum(map(len, found.values()))
    assert count >= promised
    there: dict[int, list[bytes]] = {queue: [] for queue in found}
    for queue, body in witness.sent[:count]:
        there[queue].append(body)
    assert found == there, "a prefix of what was sent, in order"
    for directory, size in ((parts.place.commit_log, LOG_FILE_SIZE), (parts.place.consume_queue, QUEUE_FILE_SIZE)):
        for path, content in parts.place.files(directory).items():
            assert path.endswith(".staged") or len(content) == size, f"Java would not open a store with this {path}"
    del witness.sent[count:]
    witness.written = witness.synced = count


def calls_of_a_run() -> int:
    disk = SimDisk()
    run(Place(disk, "/store"), Witness())
    return disk.change_count


def live_and_die(disk: SimDisk, witness: Witness, call: int) -> None:
    disk.die_at_call(call)
    with pytest.raises(ProcessDied):
        run(Place(disk, "/store"), witness)
    witness.crashes += 1


@pytest.mark.parametrize("power_lost", [False, True])
def test_death_at_every_call(power_lost: bool) -> None:
    calls = calls_of_a_run()
    assert calls > 100
    for call in range(1, calls + 1):
        random = Random(call)
        disk, witness = SimDisk(choose=random.randrange), Witness()
        live_and_die(disk, witness, call)
        revive(disk, witness, power_lost=power_lost)
        recovered = reopened(disk, witness)
        check(recovered, witness, power_lost=power_lost)
        recovered.kill()


@pytest.mark.parametrize("power_lost", [False, True])
def test_a_second_death_during_recovery_or_soon_after(power_lost: bool) -> None:
    calls = calls_of_a_run()
    for seed in range(150):
        random = Random(seed)
        disk, witness = SimDisk(choose=random.randrange, sector_size=random.choice((64, 512))), Witness()
        for _ in range(4):
            live_and_die_checked(disk, witness, random.randrange(1, calls), power_lost=power_lost)
            revive(disk, witness, power_lost=power_lost)
        recovered = reopened(disk, witness)
        check(recovered, witness, power_lost=power_lost)
        recovered.kill()


def live_and_die_checked(disk: SimDisk, witness: Witness, call: int, *, power_lost: bool) -> None:
    """Like live_and_die, after an earlier death: what is promised then depends on how it died."""
    if power_lost:
        witness.written = witness.synced
    try:
        disk.die_at_call(call)
        run(Place(disk, "/store"), witness)
    except ProcessDied:
        pass
    witness.crashes += 1


def revive(disk: SimDisk, witness: Witness, *, power_lost: bool) -> None:
    if power_lost:
        disk.lose_power()
    else:
        disk.kill_process()


def reopened(disk: SimDisk, witness: Witness) -> Parts:
    return Parts(
        Place(disk, "/store"),
        is_clean=False,
        durable_before_ms=witness.durable_before_ms,
        log_file_size=LOG_FILE_SIZE,
        queue_file_size=QUEUE_FILE_SIZE,
    )


def test_a_disk_that_fails_once_is_never_trusted_again() -> None:
    """A failed sync may have marked pages as clean: rewriting them before the next sync makes them safe."""
    disk = SimDisk(choose=lambda count: 0)
    parts = Parts(Place(disk, "/store"))
    parts.put_all([b"one", b"two"])
    flush_range = parts.commit_log.begin_flush()
    assert flush_range is not None
    disk.fail_call("sync")
    with pytest.raises(StoreError):
        flush_range.sync()
    with pytest.raises(StoreError):
        flush_range.sync()
    disk.kill_process()
    again = Parts(Place(disk, "/store"), is_clean=False, rewrite=True)
    assert again.bodies() == [b"one", b"two"]
    disk.lose_power()
    assert Parts(Place(disk, "/store"), is_clean=False).bodies() == [b"one", b"two"]
