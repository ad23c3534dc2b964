"""A whole store without descriptors: it refuses what needs one, loses nothing, and goes on when there are some again.

A shortage may meet any call that needs a descriptor, so each of them meets one, in turn; and a limit may last. The
store's life never ends of it. What was accepted is there, before and after a kill, a loss of power and a clean stop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import attrs
import pytest

from rocketpy.errors import DescriptorShortageError
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.append.batch import MessageBatch
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.store_model import Sent, StoreModel
from rocketpy.testing.store_world import StoreWorld
from tests.store.parts import BORN_HOST, Parts, Place

CONFIG = MessageStoreConfig(
    store_path_root_dir="/store",
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=200,
    max_hash_slot_num=8,
    max_index_num=20,
    flush_commit_log_thorough_interval=1000,
    flush_consume_queue_thorough_interval=1000,
)
QUEUES = [("A", 0), ("A", 1), ("B", 0), ("C", 7), *(("D", queue_id) for queue_id in range(6))]


def run_script(world: StoreWorld, model: StoreModel) -> int:
    """Send bursts to several queues, some in batches, and let the services work; return how many were refused."""
    refused = 0
    for burst in range(8):
        for number in range(3):
            queue = QUEUES[(burst + number) % len(QUEUES)]
            body = b"%d.%d" % (burst, number) * 40
            answer: Sent | list[Sent] | PutMessageStatus
            if number == 2:
                answer = world.put_batch(*queue, [body, body + b"x"], keys=["key"])
            else:
                answer = world.put(*queue, body, keys=["key"])
            if isinstance(answer, PutMessageStatus):
                assert answer is PutMessageStatus.SERVICE_NOT_AVAILABLE
                assert "no file descriptor" in (world.store.writable_or_why() or "")
                refused += 1
            else:
                model.sent([answer] if isinstance(answer, Sent) else answer)
        world.end_burst()
        model.written(world.written_end)
        world.pass_time(700)
        model.synced(world.durable_end)
    return refused


def calls_of_script(config: MessageStoreConfig) -> int:
    world, model = StoreWorld(config), StoreModel()
    with world:
        model.recovered(world.open())
        before = world.disk.descriptor_call_count
        assert run_script(world, model) == 0
        assert world.stop()
        return world.disk.descriptor_call_count - before


CONFIGS = {
    "async": CONFIG,
    "sync": attrs.evolve(CONFIG, flush_disk_type=FlushDiskType.SYNC_FLUSH),
    "few files": attrs.evolve(CONFIG, consume_queue_files_open_max=8),
    "pool": attrs.evolve(CONFIG, transient_store_pool_enable=True),
    "extensions": attrs.evolve(CONFIG, enable_consume_queue_ext=True),
}


def shortages() -> Iterator[tuple[str, int, int]]:
    """Every call of a script by default; of the variants every seventh."""
    for name, config in CONFIGS.items():
        count = calls_of_script(config)
        assert count > 20, "the script needs descriptors"
        for number in range(1, count + 1, 1 if name == "async" else 7):
            yield name, number, 1
            if number % 7 == 1:
                yield name, number, 4


def test_wherever_descriptors_run_out_the_store_lives_and_loses_nothing() -> None:
    for name, number, count in shortages():
        world, model = StoreWorld(CONFIGS[name]), StoreModel()
        with world:
            model.recovered(world.open())
            world.disk.run_out_of_descriptors(number, count)
            run_script(world, model)
            # It is over at the latest now, and everything works again: also what was left over.
            world.disk.run_out_of_descriptors(1, 0)
            world.pass_time(2500)
            model.written(world.written_end)
            model.synced(world.durable_end)
            for queue in QUEUES:
                answer = world.put(*queue, b"after", keys=["key"])
                assert isinstance(answer, Sent), (name, number, count)
                model.sent([answer])
            world.end_burst()
            world.pass_time(2500)
            model.written(world.written_end)
            model.synced(world.durable_end)
            assert world.store.statistics().commit_log_flushed_offset == world.store.max_physical_offset
            model.shown(*world.contents())
            if number % 2:
                world.lose_power(lambda _: 0)
                model.died(power_lost=True)
            else:
                assert world.stop()
                model.stopped()
            model.recovered(world.open())


def test_reads_without_descriptors_fail_one_by_one_and_work_again() -> None:
    config = attrs.evolve(CONFIG, consume_queue_files_open_max=8)
    world = StoreWorld(config)
    with world:
        world.open()
        for topic in "ABCDEFGHIJKL":
            assert isinstance(world.put(topic, 0, b"body " + topic.encode(), keys=["key"]), Sent)
            world.end_burst()
        world.pass_time(1000)
        store, disk = world.store, world.disk
        disk.run_out_of_descriptors(1, 1000)
        with pytest.raises(DescriptorShortageError):
            store.get_message_nowait("A", 0, 0, 32)
        for question in (
            lambda store: store.get_message("A", 0, 0, 32),
            lambda store: store.query_message("A", "key", 32, 0, 1 << 62),
            lambda store: store.offset_in_queue_by_time("A", 0, 5),
        ):
            assert isinstance(world.ask(partial(failure_of, question)), DescriptorShortageError)
        disk.run_out_of_descriptors(1, 0)
        result = store.get_message_nowait("A", 0, 0, 32)
        assert result is not None
        assert [message.body for message in decode_messages(result.body)] == [b"body A"]


async def failure_of(
    question: Callable[[MessageStore], Awaitable[object]], store: MessageStore
) -> DescriptorShortageError | None:
    try:
        await question(store)
    except DescriptorShortageError as failure:
        return failure
    return None


def test_queues_whose_files_are_open_take_messages_all_the_same() -> None:
    """Only a message that needs a new descriptor is refused; the next one is tried at once, not a second later."""
    disk = SimDisk()
    parts = Parts(Place(disk, "/store"))
    parts.put_all([b"one"])
    disk.descriptors_max = disk.descriptor_count
    assert parts.put(b"no", "Other")[0] is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert "cannot open: no file descriptor is left" in (parts.appender.writable_or_why() or "")
    assert parts.put(b"two")[0] is PutMessageStatus.PUT_OK
    disk.descriptors_max += 1
    assert parts.put(b"other", "Other")[0] is PutMessageStatus.PUT_OK
    assert parts.appender.writable_or_why() is None
    parts.appender.end_burst()
    assert parts.bodies() == [b"one", b"two"]
    assert parts.bodies("Other") == [b"other"]


def test_a_store_without_descriptors_takes_one_of_its_own_idle_files() -> None:
    disk = SimDisk()
    parts = Parts(Place(disk, "/store"))
    parts.put_all([b"a"], topic="A")
    parts.put_all([b"b"], topic="B")
    disk.descriptors_max = disk.descriptor_count
    parts.queues.find("A", 0).files[0].close()
    disk.descriptors_max -= 1
    assert parts.put(b"a2", "A")[0] is PutMessageStatus.PUT_OK
    parts.appender.end_burst()
    assert not parts.queues.find("B", 0).files[0].is_open


def test_the_end_of_a_burst_opens_no_file() -> None:
    """What was accepted must not meet a shortage: more queues than may be open, files that are full, batches."""
    disk = SimDisk()
    parts = Parts(Place(disk, "/store"), open_max=2, queue_file_size=60, log_file_size=1 << 16)
    for number in range(12):
        for queue_id in range(4):
            assert parts.put(b"%d" % number, "T", queue_id)[0] is PutMessageStatus.PUT_OK
    batch = MessageBatch.of([(0, b"x%d" % number, b"", 0, ()) for number in range(7)])
    assert parts.appender.put_batch("Batch", 0, batch, 0, 1, BORN_HOST, 0)[0] is PutMessageStatus.PUT_OK
    before = disk.descriptor_call_count
    parts.appender.end_burst()
    assert disk.descriptor_call_count == before
    assert len(parts.bodies("Batch")) == 7
    assert len(parts.bodies("T", 3)) == 12


def test_a_burst_for_many_queues_keeps_few_files_open() -> None:
    """Files of pending units stay open, so a burst ends early where they would be more than half of those that may."""
    parts = Parts(Place(SimDisk(), "/store"), open_max=16, log_file_size=1 << 20)
    most = 0
    for number in range(500):
        assert parts.put(b"x", "T", number)[0] is PutMessageStatus.PUT_OK
        most = max(most, len(parts.open_files))
    assert most <= 17, "and one that is being opened"
    parts.appender.end_burst()
    assert [parts.queues.find("T", number).max_offset for number in range(500)] == [1] * 500


def test_nor_do_the_copies_of_a_message_in_other_queues() -> None:
    disk = SimDisk()
    parts = Parts(Place(disk, "/store"), open_max=1, has_multi_dispatch=True)
    parts.put_all([b"before"], topic="%LMQ%a")
    properties = b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02"
    assert parts.put(b"one", properties=properties)[0] is PutMessageStatus.PUT_OK
    before = disk.descriptor_call_count
    parts.appender.end_burst()
    assert disk.descriptor_call_count == before
    assert parts.queues.find("%LMQ%a", 0).max_offset == 2
    assert parts.queues.find("%LMQ%b", 0).max_offset == 1


def test_deletion_without_descriptors_goes_on_later() -> None:
    """Files of log, queues and index go in the end, and a loss of power in between leaves no gap."""
    config = attrs.evolve(CONFIG, delete_commit_log_files_interval=10, delete_consume_queue_files_interval=10)

    def begin(world: StoreWorld) -> None:
        world.open()
        for number in range(36):
            assert isinstance(world.put("A", number % 2, b"%d" % number * 100, keys=["key"]), Sent)
            world.end_burst()
        world.pass_time(5_000)
        world.clock.advance_ms(80 * 3_600_000)
        assert isinstance(world.put("A", 0, b"young", keys=["key"]), Sent)
        world.end_burst()
        world.store.execute_delete_files_manually()

    def is_deleted(world: StoreWorld) -> bool:
        store = world.store
        index_files = world.disk.peek("/store/index")  # which needs no descriptor
        return store.min_physical_offset > 0 and store.min_offset_in_queue("A", 1) > 0 and len(index_files) == 1

    def wait_deleted(world: StoreWorld) -> None:
        for _ in range(60):
            if not is_deleted(world):
                world.pass_time(5_000)
        assert is_deleted(world)

    with StoreWorld(config) as world:
        begin(world)
        before = world.disk.descriptor_call_count
        wait_deleted(world)
        count = world.disk.descriptor_call_count - before
    for number in range(1, count + 1, 3):
        with StoreWorld(config) as world:
            begin(world)
            world.disk.run_out_of_descriptors(number, 3)
            wait_deleted(world)
            world.lose_power(lambda _: 0)
            world.open()
            assert world.store.max_offset_in_queue("A", 1) == 18


@pytest.mark.parametrize("number", range(1, 12))
def test_an_index_that_is_read_again_waits_for_descriptors(number: int) -> None:
    with StoreWorld(CONFIG) as world:
        world.open()
        for each in range(30):
            assert isinstance(world.put("A", 0, b"%d" % each * 50, keys=[f"k{each}"]), Sent)
            world.end_burst()
        world.pass_time(1_000)
        world.kill()
        world.disk.unlink(f"{CONFIG.root}/recovery-note")  # with it the index would be kept
        world.begin()
        world.disk.run_out_of_descriptors(number, 4)
        world.pass_time(20_000)
        assert not world.store.index_behind
        for each in range(30):
            found = world.ask(lambda store, each=each: store.query_message("A", f"k{each}", 9, 0, 1 << 62))  # type: ignore[misc]
            assert len(decode_messages(found.body)) == 1
