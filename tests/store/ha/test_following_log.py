"""The log of a slave: byte for byte the master's, with the queues and the index that a recovery of it would make."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from random import Random

import attrs
import pytest
import trio

from rocketpy.clock import ManualClock
from rocketpy.errors import DescriptorShortageError, DiskFullError, RemoteProtocolError, ShortageError, StoreError
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import check_message, decode_messages, encode_blank, encode_message
from rocketpy.store.config import BrokerRole, FlushDiskType
from rocketpy.store.ha.verified_stream import VerifiedPiece, VerifiedStream
from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.store.message_store import MessageStore
from rocketpy.store.queue.extension import is_ext_address
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import ProcessDied, SimDisk
from tests.patience import PATIENCE_SECONDS
from tests.store.ha.two_stores import (
    FILE_SIZE,
    Producers,
    dispatched,
    follow,
    log_bytes,
    log_of,
    opened_as,
    pieces,
    recovered,
)
from tests.store.opened_store import Killed, kill
from tests.store.parts import Place

MASTER, SLAVE = BrokerRole.ASYNC_MASTER, BrokerRole.SLAVE


@attrs.define
class Pair:
    """A master with messages, and a slave that has none of them yet."""

    master: MessageStore
    slave: MessageStore
    producers: Producers
    slave_place: Place

    def follow(self, *, random: Random | None = None) -> None:
        follow(self.master, self.slave, random=random)

    def assert_is_equal(self) -> None:
        assert log_bytes(self.slave) == log_bytes(self.master)
        assert log_of(self.slave).end_offset == self.slave.wrote_offset == self.master.max_physical_offset


@asynccontextmanager
async def a_pair(place: Place, *, seed: int = 1, **changes: object) -> AsyncIterator[Pair]:
    """Open both; ``changes`` are settings of the slave, which has a disk of its own if the disk is simulated."""
    ours = Place(place.disk, f"{place.root}/m")
    theirs = Place(SimDisk() if isinstance(place.disk, SimDisk) else place.disk, f"{place.root}/s")
    clock = ManualClock()
    async with opened_as(MASTER, ours, clock=clock) as master, opened_as(SLAVE, theirs, **changes) as slave:
        yield Pair(master, slave, Producers(master, Random(seed), clock), theirs)


# ---- the whole ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_ext", [False, True])
@pytest.mark.parametrize("seed", range(6))
async def test_what_is_stored_is_what_a_recovery_of_the_same_log_makes(seed: int, has_ext: bool, place: Place) -> None:
    async with a_pair(place, seed=seed, enable_consume_queue_ext=has_ext) as pair:
        random = Random(seed)
        for _ in range(random.randrange(2, 12)):
            pair.producers.put_some(random.randrange(12))
            if random.random() < 0.3:
                pair.producers.delete_topic()
            pair.follow(random=random)
        pair.assert_is_equal()
        stored = await dispatched(pair.slave, pair.slave_place)
        rebuilt = await recovered(pair.slave_place, enable_consume_queue_ext=has_ext)
        assert stored.ends == rebuilt.ends
        assert stored == rebuilt
        assert any(stored.found.values())
        assert bool(stored.queue_files) is not has_ext


@pytest.mark.parametrize("has_ext", [False, True])
@pytest.mark.parametrize("is_multi_dispatch", [False, True])
@pytest.mark.parametrize("seed", range(3))
async def test_many_records_at_once_are_stored_as_recovery_would(
    seed: int, is_multi_dispatch: bool, has_ext: bool, place: Place
) -> None:
    """Records of all kinds, so many in a piece that they are looked at column by column."""
    changes = {
        "mapped_file_size_commit_log": 1 << 16,
        "enable_multi_dispatch": is_multi_dispatch,
        "enable_consume_queue_ext": has_ext,
    }
    ours, theirs = Place(place.disk, f"{place.root}/m"), Place(place.disk, f"{place.root}/s")
    clock = ManualClock()
    async with opened_as(MASTER, ours, clock=clock, **changes) as master, opened_as(SLAVE, theirs, **changes) as slave:
        producers = Producers(master, Random(seed), clock)
        for round_number in range(4):
            if is_multi_dispatch or round_number % 2:
                producers.put_some(60)
            else:
                for _ in range(60):
                    producers.random.choice((producers.plain, producers.batch, producers.delayed))()
                master.end_burst()
            if round_number == 2:
                producers.delete_topic()
            for each in pieces(master, log_of(slave).end_offset, size_max=1 << 16):
                log_of(slave).append(each)
        assert log_bytes(slave) == log_bytes(master)
        stored = await dispatched(slave, theirs)
        assert stored == await recovered(theirs, **changes)
        assert any(stored.found.values())


async def test_readers_of_the_slave_find_what_those_of_the_master_find(place: Place) -> None:
    async with a_pair(place) as pair:
        pair.producers.put_some(60)
        pair.follow()
        for topic, queue_id in pair.master.queues():
            for queue_offset in range(pair.master.max_offset_in_queue(topic, queue_id)):
                here, there = (
                    store.get_message_nowait(topic, queue_id, queue_offset, 1) for store in (pair.slave, pair.master)
                )
                assert here is not None
                assert here == there
        here_too, there_too = (
            await dispatched(pair.slave, pair.slave_place),
            await dispatched(pair.master, pair.slave_place),
        )
        assert (here_too.units, here_too.found) == (there_too.units, there_too.found)
        ours, theirs = pair.slave.statistics(), pair.master.statistics()
        assert (ours.put_count, ours.commit_log_max_offset) == (theirs.put_count, theirs.commit_log_max_offset)
        assert ours.put_bytes == theirs.put_bytes


async def test_a_store_of_a_slave_takes_nothing_but_its_master_s_log(place: Place) -> None:
    async with a_pair(place) as pair:
        assert pair.master.following_log is None
        pair.producers.put_some(3)
        pair.follow()
        status, _, _ = pair.slave.put("A", 0, b"body", b"", 0, (), 0, 0, 1, b"\x0a\0\0\1\0\0\0\1", 0)
        assert status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert pair.slave.writable_or_why() == "the broker is a slave: only its master appends"
        pair.assert_is_equal()


async def test_each_queue_that_got_messages_is_noted_once_for_a_piece(place: Place) -> None:
    arrivals: list[tuple[str, int, int]] = []
    async with (
        opened_as(MASTER, Place(place.disk, f"{place.root}/m")) as master,
        opened_as(
            SLAVE, Place(place.disk, f"{place.root}/s"), message_arriving=lambda *arrival: arrivals.append(arrival)
        ) as slave,
    ):
        producers = Producers(master, Random(1))
        for topic in ("A", "B"):
            producers.plain(topic=topic, queue_id=1)
        master.end_burst()
        follow(master, slave)
        arrivals.clear()
        for topic in ("A", "B", "A"):
            producers.plain(topic=topic, queue_id=1)
        master.end_burst()
        follow(master, slave)
        assert arrivals == [("A", 1, 3), ("B", 1, 2)]


@pytest.mark.parametrize("role", BrokerRole)
async def test_a_stopped_slave_goes_on_in_any_role(role: BrokerRole, place: Place) -> None:
    async with a_pair(place) as pair:
        pair.producers.put_some(40)
        pair.follow()
        contents = log_bytes(pair.master)
        stored = await dispatched(pair.slave, pair.slave_place)
        slave_place = pair.slave_place
    async with opened_as(role, slave_place) as store:
        assert log_bytes(store) == contents
        assert await dispatched(store, slave_place) == stored
        if role is SLAVE:
            assert log_of(store).end_offset == len(contents[1])
        else:
            producers = Producers(store, Random(5))
            producers.put_some(20)
            assert log_bytes(store)[1].startswith(contents[1])
            assert store.max_physical_offset > len(contents[1])


# ---- where pieces belong --------------------------------------------------------------------------------------------


def a_record(offset: int, queue_offset: int = 0, *, topic: str = "T", body: bytes = b"body") -> bytes:
    return encode_message(
        MessageExt(
            topic=topic,
            body=body,
            queue_offset=queue_offset,
            physical_offset=offset,
            born_host="10.0.0.1:1",
            store_host="10.0.0.2:2",
            store_timestamp=5,
            born_timestamp=4,
        )
    )


def piece(content: bytes, offset: int, *, file_size: int = FILE_SIZE) -> VerifiedPiece:
    (found,) = VerifiedStream(offset, file_size=file_size).receive(content)
    return found


def unit_offsets(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[int]:
    """Return the physical offsets of a queue's messages."""
    found: list[int] = []
    queue_offset, end = store.min_offset_in_queue(topic, queue_id), store.max_offset_in_queue(topic, queue_id)
    while queue_offset < end:
        result = store.get_message_nowait(topic, queue_id, queue_offset, 32)
        assert result is not None
        messages = decode_messages(result.body)
        assert messages, (queue_offset, end)
        found += [each.physical_offset for each in messages]
        queue_offset = result.next_begin_offset
    return found


async def test_an_empty_log_begins_with_any_file(place: Place) -> None:
    async with opened_as(SLAVE, place) as slave:
        log = log_of(slave)
        assert (log.is_empty, log.end_offset, log.file_size) == (True, 0, FILE_SIZE)
        begin = 7 * FILE_SIZE
        with pytest.raises(RemoteProtocolError, match=f"at {begin + 9}: expected the beginning of a file.*{FILE_SIZE}"):
            log.append(piece(a_record(begin + 9), begin + 9))
        assert (log.is_empty, log.end_offset) == (True, 0)
        record = a_record(begin, 30)
        log.append(piece(record, begin))
        assert (log.is_empty, log.end_offset) == (False, begin + len(record))
        assert (slave.min_offset_in_queue("T", 0), slave.max_offset_in_queue("T", 0)) == (30, 31)
    async with opened_as(SLAVE, place) as slave:
        assert log_bytes(slave) == (begin, record)
        assert unit_offsets(slave) == [begin]


async def test_a_log_without_a_record_begins_anew_where_the_next_piece_says(place: Place) -> None:
    """Its first piece found a file, and no space for more; meanwhile the master has rolled to the next file."""
    async with opened_as(SLAVE, place) as slave:
        slave.appender.add_file()
        await wait_until(lambda: len(place.disk.list_directory(place.commit_log)) == 2)  # the next one is prepared
        log = log_of(slave)
        assert log.is_empty
        begin = 3 * FILE_SIZE
        log.append(piece(a_record(begin), begin))
        assert place.disk.list_directory(place.commit_log)[0] == f"{begin:020d}"
        assert not log.is_empty
    async with opened_as(SLAVE, place) as slave:
        assert log_bytes(slave) == (begin, a_record(begin))


async def test_a_piece_that_does_not_continue_the_log_is_refused(place: Place) -> None:
    async with opened_as(SLAVE, place) as slave:
        log, record = log_of(slave), a_record(0)
        log.append(piece(record, 0))
        end = len(record)
        for offset in (0, end - 1, end + 1, FILE_SIZE):
            with pytest.raises(RemoteProtocolError, match=f"at {offset}: expected offset {end}, the end of this log"):
                log.append(piece(a_record(offset), offset))
        assert log.end_offset == end
        log.append(piece(a_record(end, 1), end))
        assert unit_offsets(slave) == [0, end]


async def test_a_blank_closes_the_file_as_the_master_has_closed_it(place: Place) -> None:
    record = a_record(0)
    rest = encode_blank(FILE_SIZE - len(record)) + b"\xa5" * (FILE_SIZE - len(record) - 8)
    async with opened_as(SLAVE, place) as slave:
        log = log_of(slave)
        log.append(piece(record, 0))
        log.append(piece(rest, len(record)))
        assert log.end_offset == FILE_SIZE
        assert place.read(place.log_file(0)) == record + rest
        log.append(piece(a_record(FILE_SIZE, 1), FILE_SIZE))
        assert unit_offsets(slave) == [0, FILE_SIZE]


@pytest.mark.parametrize("masters", [2 * FILE_SIZE, FILE_SIZE // 2])
async def test_another_file_size_than_the_master_s_is_named(masters: int, place: Place) -> None:
    async with opened_as(SLAVE, place) as slave:
        log, end = log_of(slave), 0
        with pytest.raises(RemoteProtocolError, match=f"{FILE_SIZE}.*must be the same on both sides"):
            while True:
                record = a_record(end, body=b"x" * 300)
                if end % masters + len(record) + 8 > masters:
                    record = encode_blank(masters - end % masters) + bytes(masters - end % masters - 8)
                log.append(piece(record, end, file_size=masters))
                end += len(record)
        assert log.end_offset == end < FILE_SIZE


# ---- queues ---------------------------------------------------------------------------------------------------------


async def test_a_queue_begins_again_with_offset_0(place: Place) -> None:
    """Its topic was deleted on the master, and created again."""
    async with opened_as(SLAVE, place) as slave:
        log = log_of(slave)
        for queue_offset in (*range(30), *range(3)):
            log.append(piece(a_record(log.end_offset, queue_offset), log.end_offset))
        again = unit_offsets(slave)
        assert again == [log.end_offset - each * len(a_record(0)) for each in (3, 2, 1)]
        assert place.disk.list_directory(f"{place.consume_queue}/T/0") == [f"{0:020d}"]
    assert (await recovered(place)).ends == {("T", 0): (0, 3)}
    async with opened_as(SLAVE, place) as slave:
        assert unit_offsets(slave) == again


async def test_a_queue_offset_that_follows_nothing_is_refused(place: Place) -> None:
    async with opened_as(SLAVE, place) as slave:
        log = log_of(slave)
        begin = end = FILE_SIZE
        for queue_offset in (5, 6, 7):
            log.append(piece(a_record(end, queue_offset), end))
            end = log.end_offset
        for wrong in (6, 7, 9, 5000, -1):
            with pytest.raises(RemoteProtocolError, match=f"at {end}: expected queue offset 8 or 0 .* found {wrong}"):
                log.append(piece(a_record(end, wrong), end))
        assert log.end_offset == slave.wrote_offset == end
        assert slave.max_offset_in_queue("T", 0) == 8
        log.append(piece(a_record(end, 8), end))
    assert log_bytes(slave)[0] == begin
    assert (await recovered(place)).ends == {("T", 0): (5, 9)}


async def test_the_records_before_one_that_is_refused_are_stored(place: Place) -> None:
    async with opened_as(SLAVE, place) as slave:
        log, size = log_of(slave), len(a_record(0))
        content = b"".join(a_record(number * size, number) for number in (0, 1, 2)) + a_record(3 * size, 7)
        with pytest.raises(RemoteProtocolError, match="found 7"):
            log.append(piece(content, 0))
        assert log.end_offset == 3 * size
        assert unit_offsets(slave) == [0, size, 2 * size]


async def test_the_second_of_two_runs_from_the_same_queue_offset_is_refused(place: Place) -> None:
    """So many records that they are looked at column by column."""
    async with opened_as(SLAVE, place, mapped_file_size_commit_log=1 << 16) as slave:
        log = log_of(slave)
        size = len(a_record(0))
        content = b"".join([a_record(number * size, number) for number in range(5)])
        log.append(piece(content, 0, file_size=1 << 16))
        offsets = (*range(5, 20), *range(5, 20))
        content = b"".join([a_record(number * size, offset) for number, offset in enumerate(offsets, 5)])
        with pytest.raises(RemoteProtocolError, match=f"at {20 * size}: expected queue offset 20 or 0 .* found 5"):
            log.append(piece(content, 5 * size, file_size=1 << 16))
        assert log.end_offset == 20 * size
        assert unit_offsets(slave) == [number * size for number in range(20)]


async def test_each_of_many_records_has_its_extension(place: Place) -> None:
    async with opened_as(SLAVE, place, mapped_file_size_commit_log=1 << 16, enable_consume_queue_ext=True) as slave:
        size = len(a_record(0))
        for first in (0, 15):
            content = b"".join([a_record(number * size, number) for number in range(first, first + 15)])
            log_of(slave).append(piece(content, first * size, file_size=1 << 16))
        units = place.read(f"{place.consume_queue}/T/0/{0:020d}")[: 20 * UNIT_SIZE]
        assert all(is_ext_address(tags_code) for _, _, tags_code in UNIT.iter_unpack(units))


async def test_after_a_restart_a_queue_goes_on_wherever_its_master_s_does(place: Place) -> None:
    """The slave may have lost the queue, or deleted it because none of its messages was left."""
    async with opened_as(SLAVE, place) as slave:
        log_of(slave).append(piece(a_record(0), 0))
    async with opened_as(SLAVE, place) as slave:
        log = log_of(slave)
        log.append(piece(a_record(log.end_offset, 1), log.end_offset))
        slave.delete_topic_queues("T")
        begin = log.end_offset
        log.append(piece(a_record(begin, 2), begin))
        assert (slave.min_offset_in_queue("T", 0), unit_offsets(slave)) == (2, [begin])


def naming(offset: int, queue_offset: int, names: str, offsets: str) -> bytes:
    properties = {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": offsets}
    return encode_message(
        MessageExt(
            topic="N",
            body=b"named",
            queue_offset=queue_offset,
            physical_offset=offset,
            born_host="10.0.0.1:1",
            store_host="10.0.0.2:2",
            store_timestamp=5,
            born_timestamp=4,
            properties=properties,
        )
    )


async def test_a_false_claim_ends_with_the_next_record_of_the_queue_s_own_topic(place: Place) -> None:
    """No checksum covers the names and offsets of a record, and other brokers let clients write them."""
    async with opened_as(SLAVE, place) as slave:
        log = log_of(slave)
        for number in range(2):
            log.append(piece(a_record(log.end_offset, number), log.end_offset))
        for number, claim in enumerate("234"):
            log.append(piece(naming(log.end_offset, number, "T,%LMQ%a", f"{claim},{number}"), log.end_offset))
        assert slave.max_offset_in_queue("T", 0) == 5
        own = log.end_offset
        log.append(piece(a_record(own, 2), own))
        assert unit_offsets(slave)[2:] == [own]
        stored = await dispatched(slave, place)
        assert stored == await recovered(place)
        assert stored.ends["%LMQ%a", 0] == (0, 3)


async def test_without_multi_dispatch_no_record_is_in_more_than_its_own_queue(place: Place) -> None:
    async with opened_as(SLAVE, place, enable_multi_dispatch=False) as slave:
        log_of(slave).append(piece(naming(0, 0, "T", "0"), 0))
        assert list(slave.queues()) == [("N", 0)]


# ---- shortages ------------------------------------------------------------------------------------------------------


@attrs.define
class Before:
    """What must be as it was after a shortage."""

    end_offset: int
    wrote_offset: int
    content: tuple[int, bytes]
    ends: dict[tuple[str, int], int]

    @classmethod
    def of(cls, slave: MessageStore) -> Before:
        return cls(
            log_of(slave).end_offset,
            slave.wrote_offset,
            log_bytes(slave),
            {key: slave.max_offset_in_queue(*key) for key in slave.queues()},
        )


async def test_on_a_full_disk_nothing_is_stored_until_there_is_space() -> None:
    place = Place(SimDisk(), "/store")
    async with a_pair(place, mapped_file_size_consume_queue=40_000) as pair:
        disk = pair.slave_place.disk
        assert isinstance(disk, SimDisk)
        pair.producers.put_some(150)
        refused = 0
        while pair.slave.max_physical_offset < pair.master.max_physical_offset:
            disk.capacity_bytes = disk.used_bytes("/") + 600 * (refused % 9)
            for each in pieces(pair.master, log_of(pair.slave).end_offset):
                before = Before.of(pair.slave)
                try:
                    log_of(pair.slave).append(each)
                except DiskFullError:
                    refused += 1
                    if each.record_count < 2:
                        assert Before.of(pair.slave) == before
                    disk.capacity_bytes += 2 * FILE_SIZE
                    break
        assert refused > 5
        disk.capacity_bytes = 1 << 30
        pair.assert_is_equal()
        assert await dispatched(pair.slave, pair.slave_place) == await recovered(
            pair.slave_place, mapped_file_size_consume_queue=40_000
        )


async def test_without_space_for_its_first_file_a_log_stays_empty() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    async with opened_as(SLAVE, place) as slave:
        log = log_of(slave)
        disk.capacity_bytes = disk.used_bytes("/") + 100
        begin = 2 * FILE_SIZE
        with pytest.raises(DiskFullError):
            log.append(piece(a_record(begin), begin))
        assert (log.is_empty, log.end_offset, slave.wrote_offset) == (True, 0, 0)
        disk.capacity_bytes = 1 << 30
        log.append(piece(a_record(0), 0))
        assert log_bytes(slave) == (0, a_record(0))


async def test_a_piece_for_more_queues_than_may_be_open_is_stored(place: Place) -> None:
    async with opened_as(SLAVE, place, consume_queue_files_open_max=8) as slave:
        log, content = log_of(slave), b""
        for queue_offset in (0, 1):
            for number in range(20):
                content += a_record(len(content), queue_offset, topic=f"T{number}")
        log.append(piece(content, 0))
        assert log.end_offset == len(content)
        assert [slave.max_offset_in_queue(f"T{number}", 0) for number in range(20)] == [2] * 20
        assert slave.statistics().open_files <= 10


@pytest.mark.parametrize("number", range(1, 6))
async def test_without_a_descriptor_it_goes_on_later(number: int) -> None:
    place = Place(SimDisk(), "/store")
    async with a_pair(place, consume_queue_files_open_max=8) as pair:
        disk = pair.slave_place.disk
        assert isinstance(disk, SimDisk)
        shortages = 0
        for _ in range(30):
            pair.producers.put_some(4)
            disk.run_out_of_descriptors(number, 3)
            try:
                pair.follow()
            except DescriptorShortageError:
                shortages += 1
            disk.run_out_of_descriptors(1, 0)
            pair.follow()
        assert shortages
        pair.assert_is_equal()
        assert await dispatched(pair.slave, pair.slave_place) == await recovered(pair.slave_place)


async def test_without_space_for_the_index_nothing_is_stored() -> None:
    place = Place(SimDisk(), "/store")
    async with a_pair(place, max_hash_slot_num=2000) as pair:
        disk = pair.slave_place.disk
        assert isinstance(disk, SimDisk)
        await wait_until(lambda: not pair.slave.index_behind)  # it is complete, and takes keys from now on
        pair.producers.put_some(20)
        pair.follow()
        disk.capacity_bytes = disk.used_bytes("/") + 100
        assert (await pair.slave.query_message("A", "u1", 1, 0, 1 << 62)).body == b""
        end = log_of(pair.slave).end_offset
        pair.producers.put_some(1)
        with pytest.raises(ShortageError, match="the index has no space"):
            pair.follow()
        assert log_of(pair.slave).end_offset == end
        disk.capacity_bytes = 1 << 30
        await wait_until(lambda: not pair.slave.index_behind)
        pair.follow()
        pair.assert_is_equal()


async def test_a_failed_write_is_final() -> None:
    place = Place(SimDisk(), "/store")
    failure: StoreError | None = None
    with pytest.raises(ExceptionGroup) as ended:
        async with a_pair(place) as pair:
            disk = pair.slave_place.disk
            assert isinstance(disk, SimDisk)
            pair.producers.put_some(20)
            (first, *more) = pieces(pair.master, 0)
            log_of(pair.slave).append(first)
            disk.fail_call("write")
            for _ in range(2):
                with pytest.raises(StoreError) as raised:
                    log_of(pair.slave).append(more[0])
                assert failure in (None, raised.value)
                failure = raised.value
            raise raised.value
    assert ended.group_contains(StoreError, match="simulated failure")


# ---- the services of the store --------------------------------------------------------------------------------------


async def wait_until(is_so: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        while not is_so():
            await trio.sleep(0.002)


@pytest.mark.parametrize("flush_disk_type", FlushDiskType)
@pytest.mark.parametrize("is_timed", [False, True])
async def test_the_log_becomes_durable(flush_disk_type: FlushDiskType, is_timed: bool, place: Place) -> None:
    changes = {"flush_interval_commit_log": 20, "flush_commit_log_least_pages": 0, "flush_commit_log_timed": is_timed}
    async with a_pair(place, flush_disk_type=flush_disk_type, **changes) as pair:
        for _ in range(3):
            pair.producers.put_some(10)
            pair.follow()
            await wait_until(lambda: pair.slave.durable_offset == log_of(pair.slave).end_offset)


async def test_a_slave_deletes_its_own_expired_files(autojump_clock: trio.testing.MockClock) -> None:
    place = Place(SimDisk(), "/store")
    later = ManualClock(1_900_000_000_000)
    async with a_pair(place, clock=later, file_reserved_time=0, delete_when="") as pair:
        pair.producers.put_some(100)
        pair.follow()
        await pair.slave.flush()
        assert len(pair.slave_place.disk.list_directory(pair.slave_place.commit_log)) > 3
        pair.slave.execute_delete_files_manually()
        await trio.sleep(100)
        begin = pair.slave.min_physical_offset
        assert begin > 0
        pair.producers.put_some(10)
        pair.follow()
        assert log_bytes(pair.slave) == (begin, log_bytes(pair.master)[1][begin:])
        stored, rebuilt = await dispatched(pair.slave, pair.slave_place), await recovered(pair.slave_place)
        assert {key: units for key, units in stored.units.items() if units} == rebuilt.units


# ---- crashes --------------------------------------------------------------------------------------------------------


async def test_a_killed_slave_goes_on_from_its_last_record(place: Place) -> None:
    async with opened_as(MASTER, Place(place.disk, f"{place.root}/m")) as master:
        theirs = Place(place.disk, f"{place.root}/s")
        producers = Producers(master, Random(3))
        for number in range(6):
            producers.put_some(25)
            scope = opened_as(SLAVE, theirs)
            slave = await scope.__aenter__()
            follow(master, slave)
            assert log_bytes(slave) == log_bytes(master)
            if number % 2:
                await dispatched(slave, theirs)  # then the index has the last message, which is indexed again
            await kill(scope)
        async with opened_as(SLAVE, theirs) as slave:
            assert log_bytes(slave) == log_bytes(master)
            stored, rebuilt = await dispatched(slave, theirs), await recovered(theirs)
            assert set(stored.keys) == set(rebuilt.keys)
            assert attrs.evolve(stored, keys=rebuilt.keys) == rebuilt


@pytest.mark.parametrize("has_more", [False, True])
async def test_a_durable_file_end_stays(has_more: bool) -> None:
    """In the last file of a log recovery does not count a BLANK; so there is no moment at which one is last."""
    disk = SimDisk()
    place, record = Place(disk, "/store"), a_record(0)
    scope = opened_as(SLAVE, place)
    slave = await scope.__aenter__()
    log_of(slave).append(piece(record, 0))
    log_of(slave).append(
        piece(encode_blank(FILE_SIZE - len(record)).ljust(FILE_SIZE - len(record), b"\xa5"), len(record))
    )
    if has_more:
        log_of(slave).append(piece(a_record(FILE_SIZE, 1), FILE_SIZE))
    await slave.flush()
    end = log_of(slave).end_offset
    await kill(scope)
    disk.lose_power(lambda count: 0)
    async with opened_as(SLAVE, place) as slave:
        assert log_of(slave).end_offset == end
        log_of(slave).append(piece(a_record(end, 1 + has_more), end))
        assert slave.max_offset_in_queue("T", 0) == 2 + has_more


async def test_what_a_unit_leads_to_is_written_before_it() -> None:
    disk = SimDisk()
    async with opened_as(MASTER, Place(disk, "/m")) as master, opened_as(SLAVE, Place(disk, "/s")) as slave:
        producers = Producers(master, Random(2))
        producers.put_some(30)
        follow(master, slave)
        producers.put_some(5)
        changed: list[str] = []
        for each in pieces(master, log_of(slave).end_offset):
            disk.before_change = lambda method, path: changed.append(path) if method == "write" else None
            log_of(slave).append(each)
            disk.before_change = None
        assert "commitlog" in changed[0]
        assert any("consumequeue" in path for path in changed[1:])


KILLS = 12


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize("seed", range(5))
async def test_a_crash_in_any_call_loses_nothing_that_was_durable(seed: int, loses_power: bool) -> None:
    random = Random(seed)
    disk = SimDisk(choose=random.randrange)
    place = Place(disk, "/store")
    async with opened_as(MASTER, Place(SimDisk(), "/m")) as master:
        producers = Producers(master, random)
        durable = 0
        for _ in range(KILLS):
            producers.put_some(12)
            if random.random() < 0.5:
                producers.delete_topic()
            scope = opened_as(SLAVE, place)
            slave = await scope.__aenter__()
            assert log_of(slave).end_offset >= durable
            begin, content = log_bytes(slave)
            assert content == log_bytes(master)[1][begin : begin + len(content)]
            assert log_of(slave).end_offset in {0, *ends_of(log_bytes(master)[1])}
            disk.die_at_call(random.randrange(1, 60))
            try:
                follow(master, slave, random=random)
                await slave.flush()
                durable = log_of(slave).end_offset
            except ProcessDied:
                pass
            durable = max(durable, slave.durable_offset if loses_power else durable)
            await end(scope)
            if loses_power:
                disk.lose_power()
            else:
                disk.kill_process()
        async with opened_as(SLAVE, place) as slave:
            follow(master, slave, random=random)
            assert log_bytes(slave) == log_bytes(master)
            stored, rebuilt = await dispatched(slave, place), await recovered(place)
            assert {key: units for key, units in stored.units.items() if units} == rebuilt.units
            assert stored.found == rebuilt.found


def ends_of(content: bytes) -> list[int]:
    """Return where records and BLANKs of a log end."""
    found, position = [], 0
    while position < len(content):
        position += check_message(content, position, len(content) - position).size
        found.append(position)
    return found


async def end(scope: AbstractAsyncContextManager[MessageStore]) -> None:
    """End a store whose process has died: whatever still happens in it fails."""
    killed = Killed()
    with suppress(Killed, ProcessDied, StoreError, BaseExceptionGroup):
        await scope.__aexit__(Killed, killed, None)
