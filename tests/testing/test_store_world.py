"""A world in which a store lives: what each call does, and that nothing happens without one."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from rocketpy.errors import StoreError
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import ProcessDied
from rocketpy.testing.store_model import Sent
from rocketpy.testing.store_world import LifeEnded, StoreWorld

CONFIG = MessageStoreConfig(
    store_path_root_dir="/store",
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=400,
    max_message_size=1000,
    max_hash_slot_num=8,
    max_index_num=40,
)
KEY = ("T", 0)


def nothing(count: int) -> int:
    """Of what is not durable nothing survives."""
    return 0


@pytest.fixture(params=FlushDiskType)
def world(request: pytest.FixtureRequest) -> Iterator[StoreWorld]:
    with StoreWorld(attrs.evolve(CONFIG, flush_disk_type=request.param)) as world:
        yield world


def put(world: StoreWorld, count: int = 1, *, size: int = 10) -> list[Sent]:
    """Put messages that are accepted."""
    messages = []
    for number in range(count):
        message = world.put("T", 0, b"%d" % number + b"." * size, keys=("k", "l"), tags="A", flag=number)
        assert isinstance(message, Sent)
        messages.append(message)
    return messages


def test_what_was_put_is_there_after_a_stop(world: StoreWorld) -> None:
    found = world.open()
    assert not found.queues
    assert not found.log
    assert not found.abort_file_was_there
    messages = put(world, 3, size=100)
    assert world.store.max_physical_offset == 0, "the burst goes on"
    messages += put(world, 57, size=100)
    world.end_burst()
    assert world.contents() == ({KEY: messages}, messages)
    assert world.stop()
    assert not world.is_open
    found = world.open()
    assert (found.queues, found.log) == ({KEY: messages}, messages)
    assert not found.abort_file_was_there
    assert len(world.disk.list_directory("/store/commitlog")) >= 3, "it rolls over"


def test_a_kill_loses_what_was_not_written(world: StoreWorld) -> None:
    world.open()
    messages = put(world, 3)
    world.end_burst()
    put(world, 3)
    change_count = world.disk.change_count
    world.kill()
    assert world.disk.change_count - change_count <= 1, "the one in which it died"
    found = world.open()
    assert found.log == messages
    assert found.abort_file_was_there


def test_a_loss_of_power_loses_what_was_not_flushed(world: StoreWorld) -> None:
    world.open()
    messages = put(world, 3)
    world.end_burst()
    assert world.durable_end == 0
    assert world.flush()
    assert world.durable_end == world.store.max_physical_offset
    put(world, 3)
    world.end_burst()
    world.lose_power(nothing)
    assert world.open().log == messages


def test_the_sender_knows_when_the_disk_has_its_message() -> None:
    with StoreWorld(attrs.evolve(CONFIG, flush_disk_type=FlushDiskType.SYNC_FLUSH)) as world:
        world.open()
        world.disk_delay_ms = 10
        put(world)
        world.end_burst()
        assert world.durable_end == 0
        before = world.disk.calls["sync"]
        world.pass_time(9)
        assert world.disk.calls["sync"] == before
        world.pass_time(9)
        assert world.disk.calls["sync"] > before
        assert world.durable_end == 0, "the worker thread has not said so yet"
        world.pass_time(9)
        assert world.durable_end == world.store.max_physical_offset


def test_a_process_dies_at_the_chosen_call(world: StoreWorld) -> None:
    world.open()
    messages = put(world)
    world.disk.die_at_call(1)
    with pytest.raises(LifeEnded, match="write of /store/commitlog/00000000000000000000") as raised:
        world.end_burst()
    assert isinstance(raised.value.cause, ProcessDied)
    assert not world.is_open
    assert world.open().log in ([], messages)


def test_a_process_dies_while_it_recovers_and_while_it_stops(world: StoreWorld) -> None:
    world.open()
    messages = put(world)
    world.end_burst()
    world.disk.die_at_call(2)
    with pytest.raises(LifeEnded):
        world.stop()
    world.disk.die_at_call(4)
    with pytest.raises(LifeEnded):
        world.open()
    assert world.open().log == messages


def test_a_store_that_fails_ends_its_process(world: StoreWorld) -> None:
    world.open()
    put(world)
    world.disk.fail_call("write")
    with pytest.raises(LifeEnded, match="simulated failure") as raised:
        world.end_burst()
    assert isinstance(raised.value.cause, StoreError)
    world.open()
    put(world)
    world.end_burst()
    world.disk.fail_call("sync")
    with pytest.raises(LifeEnded):
        world.flush()
    assert world.open().abort_file_was_there
    world.disk.fail_call("read_nowait")
    with pytest.raises(LifeEnded):
        world.contents()


def test_our_own_mistakes_are_not_taken_for_a_death(world: StoreWorld) -> None:
    world.open()

    async def ask(store: object) -> None:
        raise AssertionError("a mistake")

    with pytest.raises(BaseException) as raised:
        world.ask(ask)
    assert raised.group_contains(AssertionError, match="a mistake")
    assert not world.is_open


def test_a_batch_is_accepted_as_a_whole(world: StoreWorld) -> None:
    world.open()
    messages = world.put_batch("T", 3, [b"a", b"b"], keys=("k",))
    assert isinstance(messages, list)
    assert [each.queue_offset for each in messages] == [0, 1]
    assert world.put_batch("T", 3, [b"a", b"b" * 1001]) is PutMessageStatus.MESSAGE_ILLEGAL
    world.end_burst()
    assert world.contents() == ({("T", 3): messages}, messages)


def test_the_unit_of_a_delayed_message_says_when_it_is_to_be_delivered(world: StoreWorld) -> None:
    world.open()
    message = world.put("T", 1, b"later", delay_level=2)
    world.end_burst()
    assert isinstance(message, Sent)
    assert (message.topic, message.tags_code) == ("SCHEDULE_TOPIC_XXXX", 2000)
    assert world.contents()[1] == [message]
    world.pass_time(1234)
    world.kill()
    world.disk.unlink("/store/consumequeue/SCHEDULE_TOPIC_XXXX/1/00000000000000000000")
    assert world.open().queues == {("SCHEDULE_TOPIC_XXXX", 1): [message]}, "rebuilt from the record"


def test_wall_time_and_trios_time_pass_together(world: StoreWorld) -> None:
    begin = world.clock.timestamp_ms()
    world.open()
    for _ in range(10):
        world.pass_time(0.5)
    world.pass_time(1_000)
    assert world.clock.timestamp_ms() == begin + 1005


def test_with_a_pool_a_burst_is_written_later() -> None:
    with StoreWorld(attrs.evolve(CONFIG, transient_store_pool_enable=True)) as world:
        world.open()
        put(world, 3)
        world.end_burst()
        assert world.written_end == 0
        world.pass_time(1_000)
        assert world.written_end == world.store.wrote_offset > 0


def test_what_cannot_be_flushed_in_time_is_said(world: StoreWorld) -> None:
    world.open()
    put(world)
    world.end_burst()
    world.disk_delay_ms = 100_000
    assert not world.flush()
    world.disk_delay_ms = 0
