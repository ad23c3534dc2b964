"""What an acknowledgement promises, fault by fault: the cells of ``docs/promises.md``, one test a row.

Plain scenes in a world without surprises. That nothing else can happen either is for ``property_tests/crash`` and
``property_tests/test_store_machine.py``, which try every order of events.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from rocketpy.errors import StoreError
from rocketpy.protocol.stored_message import RecordStatus, check_message
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import GetMessageResult, PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.store_model import Sent
from rocketpy.testing.store_world import LifeEnded, StoreWorld

ROOT = "/store"
LOG_FILE = f"{ROOT}/commitlog/00000000000000000000"
NEXT_LOG_FILE = f"{ROOT}/commitlog/00000000000000065536"
BODY_AT = 88
PLENTY = 1 << 50
ASYNC = MessageStoreConfig(
    store_path_root_dir=ROOT,
    mapped_file_size_commit_log=1 << 16,
    mapped_file_size_consume_queue=4000,
    max_message_size=4096,
    max_hash_slot_num=10,
    max_index_num=1000,
    clean_file_forcibly_enable=False,
)
CONFIGS = {
    "ASYNC_FLUSH": ASYNC,
    "SYNC_FLUSH": attrs.evolve(ASYNC, flush_disk_type=FlushDiskType.SYNC_FLUSH),
    "pool": attrs.evolve(ASYNC, transient_store_pool_enable=True),
}
THOROUGHLY_MS = 11_000
"""Longer than any flush or commit waits."""


def nothing(count: int) -> int:
    """Of what was not synced the disk has nothing."""
    return 0


@pytest.fixture(params=list(CONFIGS))
def mode(request: pytest.FixtureRequest) -> str:
    """A column of the table."""
    name: str = request.param
    return name


class Scene:
    """A store and what was acknowledged: long ago, and just now."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.world = StoreWorld(CONFIGS[mode], disk=SimDisk(choose=nothing))
        self.world.open()
        self.old: list[bytes] = []
        self.new: list[bytes] = []
        self.places: list[int] = []  # physical offsets of all of them

    @property
    def record_size(self) -> int:
        """All records are of one size."""
        return self.places[1] - self.places[0]

    def send(self, count: int, bodies: list[bytes]) -> None:
        """Send until the broker would answer SEND_OK."""
        for _ in range(count):
            body = (b"%d." % (len(self.old) + len(self.new))).ljust(60, b".")
            sent = self.world.put("T", 0, body)
            assert isinstance(sent, Sent)
            self.world.end_burst()
            bodies.append(body)
            self.places.append(sent.physical_offset)
        if self.mode == "SYNC_FLUSH":
            self.world.pass_time(1)
            assert self.world.durable_end == self.world.store.max_physical_offset

    def begin(self) -> None:
        """Twenty messages that were acknowledged long ago, and five just now."""
        self.send(20, self.old)
        self.world.pass_time(THOROUGHLY_MS)
        self.send(5, self.new)

    def end_by_a_failed(self, call: str) -> None:
        """The disk fails, and the broker ends before it acknowledges anything more."""
        self.begin()
        assert isinstance(self.world.put("T", 0, b"not acknowledged"), Sent)
        self.world.disk.fail_call(call)
        with pytest.raises(LifeEnded) as ended:
            self.world.end_burst()
            self.world.pass_time(THOROUGHLY_MS)
        assert isinstance(ended.value.cause, StoreError)

    def open_again(self) -> list[bytes]:
        """Return the bodies that are there."""
        found = self.world.open()
        return [sent.body for sent in found.queues.get(("T", 0), ())]


@pytest.fixture
def scene(mode: str) -> Iterator[Scene]:
    """A store of this column, open."""
    made = Scene(mode)
    yield made
    made.world.kill()


def test_the_broker_is_killed(scene: Scene) -> None:
    scene.begin()
    scene.world.kill()
    there = scene.old if scene.mode == "pool" else scene.old + scene.new
    assert scene.open_again() == there


def test_the_power_is_lost(scene: Scene) -> None:
    scene.begin()
    scene.world.lose_power(nothing)
    there = scene.old + scene.new if scene.mode == "SYNC_FLUSH" else scene.old
    assert scene.open_again() == there


def test_the_power_is_lost_after_a_while(scene: Scene) -> None:
    scene.begin()
    scene.world.pass_time(THOROUGHLY_MS)
    scene.world.lose_power(nothing)
    assert scene.open_again() == scene.old + scene.new


def test_the_broker_is_stopped_in_order(scene: Scene) -> None:
    scene.begin()
    assert scene.world.stop()
    scene.world.lose_power(nothing)
    assert scene.open_again() == scene.old + scene.new


def test_the_disk_is_full(scene: Scene) -> None:
    scene.begin()
    scene.world.disk.capacity_bytes = 0
    refused = PutMessageStatus.PUT_OK
    while refused is PutMessageStatus.PUT_OK:
        answer = scene.world.put("T", 0, b"more" * 1000)
        if isinstance(answer, PutMessageStatus):
            refused = answer
        else:
            scene.new.append(answer.body)
            scene.world.end_burst()
    assert refused in (PutMessageStatus.SERVICE_NOT_AVAILABLE, PutMessageStatus.CREATE_MAPEDFILE_FAILED)
    assert scene.world.store.writable_or_why() is not None
    scene.world.pass_time(THOROUGHLY_MS)
    queues, _ = scene.world.contents()
    assert [sent.body for sent in queues["T", 0]] == scene.old + scene.new

    assert_it_goes_on_with_room(scene)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_the_disk_is_full_and_the_log_s_file_is_sparse(scene: Scene, end: str) -> None:
    """A Java broker leaves it so, and so does a backup: what is written there must be reserved first."""
    scene.begin()
    scene.world.pass_time(THOROUGHLY_MS)
    log_end = scene.world.store.max_physical_offset
    getattr(scene.world, end)()
    make_sparse(scene.world.disk, log_end)
    scene.world.remove(NEXT_LOG_FILE)
    leave_free(scene.world.disk, pages=8)
    assert scene.open_again() == scene.old + scene.new
    fill(scene)
    assert 0 < scene.world.store.wrote_offset - log_end < 1 << 15, "there is room for some"
    assert_it_goes_on_with_room(scene)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_the_disk_is_full_when_the_broker_starts(scene: Scene, end: str) -> None:
    """All that was accepted has its space: so it opens, serves, and refuses what is sent."""
    scene.begin()
    scene.world.pass_time(1_000)  # until a pool is empty
    getattr(scene.world, end)()
    leave_free(scene.world.disk, pages=0)
    assert scene.open_again() == scene.old + scene.new
    fill(scene)
    scene.world.kill()
    assert scene.open_again() == scene.old + scene.new
    fill(scene)
    assert scene.world.stop()
    assert scene.open_again() == scene.old + scene.new


def test_the_disk_is_full_when_the_broker_starts_after_a_loss_of_power(scene: Scene) -> None:
    """Units that the power took may find no space. Then the start is refused, and loses nothing."""
    scene.begin()
    scene.world.pass_time(THOROUGHLY_MS)
    scene.world.lose_power(nothing)
    scene.world.remove(f"{ROOT}/consumequeue")  # all of them went: there was no checkpoint yet that says otherwise
    scene.world.remove(f"{ROOT}/checkpoint")
    leave_free(scene.world.disk, pages=0)
    for _ in range(2):
        with pytest.raises(LifeEnded, match=f"no space: .*{ROOT}/consumequeue/T/0/"):
            scene.world.open()
    scene.world.disk.capacity_bytes = PLENTY
    assert scene.open_again() == scene.old + scene.new


def assert_it_goes_on_with_room(scene: Scene) -> None:
    scene.world.disk.capacity_bytes = PLENTY
    scene.world.pass_time(THOROUGHLY_MS)
    scene.send(1, scene.new)
    scene.world.pass_time(THOROUGHLY_MS)
    scene.world.kill()
    assert scene.open_again() == scene.old + scene.new


def make_sparse(disk: SimDisk, log_end: int) -> None:
    """Give back the space after the end of the log, and keep the file's length."""
    file = disk.open(LOG_FILE)
    size = file.size()
    file.truncate(log_end)
    file.truncate(size)
    file.sync()
    file.close()


def leave_free(disk: SimDisk, *, pages: int) -> None:
    disk.capacity_bytes = PLENTY
    disk.capacity_bytes = PLENTY - disk.free_bytes(ROOT) + 4096 * pages


def fill(scene: Scene) -> None:
    """Send until the disk has no space, and note what was acknowledged. The broker must live on."""
    for _ in range(100):
        answer = scene.world.put("T", 0, b"more" * 1000)
        if isinstance(answer, PutMessageStatus):
            assert answer is PutMessageStatus.SERVICE_NOT_AVAILABLE
            break
        scene.new.append(answer.body)
        scene.world.end_burst()
        scene.world.pass_time(1_000)
    else:
        raise AssertionError("there is always room")
    why = scene.world.store.writable_or_why()
    assert why is not None
    assert "no space" in why or "full" in why
    queues, _ = scene.world.contents()
    assert [sent.body for sent in queues["T", 0]] == scene.old + scene.new


def test_a_sync_fails(scene: Scene) -> None:
    """The broker ends before it acknowledges anything more."""
    scene.end_by_a_failed("sync")
    assert scene.world.disk.exists(f"{ROOT}/abort")
    found = scene.open_again()
    there = scene.old if scene.mode == "pool" else scene.old + scene.new
    assert found[: len(there)] == there


def test_a_sync_fails_and_then_the_power_goes(scene: Scene) -> None:
    scene.end_by_a_failed("sync")
    scene.world.lose_power(nothing)
    there = scene.old + scene.new if scene.mode == "SYNC_FLUSH" else scene.old
    assert scene.open_again()[: len(there)] == there


def test_a_sync_fails_and_the_power_goes_when_the_broker_runs_again(scene: Scene) -> None:
    """What the failed sync marked as clean, no later sync writes: recovery wrote it again."""
    scene.end_by_a_failed("sync")
    served = scene.open_again()
    assert served[: len(scene.old)] == scene.old
    scene.world.pass_time(THOROUGHLY_MS)
    scene.world.lose_power(nothing)
    assert scene.open_again() == served


def test_a_write_fails(scene: Scene) -> None:
    scene.end_by_a_failed("write")
    found = scene.open_again()
    there = scene.old if scene.mode == "pool" else scene.old + scene.new
    assert found[: len(there)] == there
    assert found[len(there) :] in ([], [b"not acknowledged"], scene.new, [*scene.new, b"not acknowledged"])


@pytest.mark.parametrize("method", ["read_nowait", "read"])
def test_a_read_fails(scene: Scene, method: str) -> None:
    """The broker ends, as it cannot say what is there."""
    scene.begin()
    scene.world.pass_time(THOROUGHLY_MS)

    async def pull(store: MessageStore) -> GetMessageResult | None:
        if method == "read":
            scene.world.disk.evict(LOG_FILE)
            return await store.get_message("T", 0, 0, 32)
        return store.get_message_nowait("T", 0, 0, 32)

    scene.world.disk.fail_call(method)
    with pytest.raises((LifeEnded, StoreError)):
        scene.world.ask(pull)
    scene.world.kill()
    assert scene.open_again() == scene.old + scene.new


def test_a_bit_flips_after_the_durable_end(scene: Scene) -> None:
    """After a kill it is indistinguishable from a torn write. The log ends there, and nothing is invented."""
    scene.begin()
    scene.world.pass_time(THOROUGHLY_MS)
    scene.world.kill()
    scene.world.disk.flip_bit(LOG_FILE, scene.places[20] + BODY_AT)
    assert scene.open_again() == scene.old


def test_a_bit_flips_before_the_durable_end(scene: Scene) -> None:
    """It is not checked until it is read or verified; the rest is there. A client sees it by the checksum."""
    scene.begin()
    scene.world.pass_time(10 * THOROUGHLY_MS)
    scene.world.kill()
    scene.world.disk.flip_bit(LOG_FILE, scene.places[3] + BODY_AT)

    scene.world.open()
    result = scene.world.store.get_message_nowait("T", 0, 0, 32)
    assert result is not None
    assert result.message_count == 25
    records = [result.body[place - scene.places[0] :][: scene.record_size] for place in scene.places]
    broken = [check_message(record, 0, len(record)).status is RecordStatus.DAMAGED for record in records]
    assert broken == [number == 3 for number in range(25)]


def test_the_head_of_a_record_before_the_durable_end_is_damaged(scene: Scene) -> None:
    """The pull that reaches it is refused with its offset; everything before and after is served."""
    scene.begin()
    scene.world.pass_time(10 * THOROUGHLY_MS)
    scene.world.kill()
    scene.world.disk.flip_bit(LOG_FILE, scene.places[3] + 5)
    scene.world.open()
    counts = []
    for offset in (0, 3, 4):
        result = scene.world.store.get_message_nowait("T", 0, offset, 32)
        assert result is not None
        counts.append(result.message_count)
        assert bool(result.damage) == (offset == 3)
    assert counts == [3, 0, 21]


def test_the_wall_clock_is_set_back(scene: Scene) -> None:
    scene.begin()
    scene.world.clock.advance_ms(-10_000_000)
    scene.send(3, scene.new)
    scene.world.pass_time(10 * THOROUGHLY_MS)
    scene.world.clock.advance_ms(-10_000_000)
    scene.world.lose_power(nothing)
    assert scene.open_again() == scene.old + scene.new
