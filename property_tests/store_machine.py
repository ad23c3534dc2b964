"""Rules by which a store lives, dies and is tampered with, and the model that it is held against.

::

   +-------------------------------+                               +---------------------------------------------+
   | closed                        |       first_start, start      | open                                        |
   |                               | start_and_die, start_and_fail |                                             |
   | people  queues_are_deleted    |  ---------------------------> | clients  put, put_batch, put_delayed,       |
   |         index_is_deleted      |                               |          put_naming, put_oversize, fill_file|
   |         queue_is_longer       |                               |                                             |
   |         checkpoint_is_lost    |                               | flushes  end_burst, flush, time_passes      |
   |         note_is_lost          |                               | disk     disk_is_slow, disk_call_fails,     |
   |         note_is_damaged       |                               |          descriptors_run_out, die_soon      |
   |         note_is_older         |    stop, kill, lose_power,    | readers  read_everything, pull,             |
   |         abort_file_is_left    |   each death or failed call   |          search_by_key, search_by_time      |
   |         abort_file_is_removed |       that was arranged       |                                             |
   |         log_becomes_sparse    |  <--------------------------- | crash_and_start: closed, and open again     |
   |         settings_are_changed  |                               |                                             |
   +-------------------------------+                               +---------------------------------------------+

   in either state: lose_power, clock_is_set, disk_fills_up, disk_has_space_again, descriptors_are_back

What a store may show is for :class:`~rocketpy.testing.store_model.StoreModel` to judge, after every recovery; while the
store is open its reads must agree with the model too. No death, and nothing that people do here, is a reason to refuse
the store or to end it (:meth:`StoreMachine.living`). A failing example is a script of these rules; it belongs into
``test_store_machine.py``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from property_tests import power_loss
from property_tests.hunts import broken_unless_done
from rocketpy.errors import DamagedStoreError, DiskFullError
from rocketpy.protocol.properties import PROPERTY_INNER_MULTI_DISPATCH, PROPERTY_INNER_MULTI_QUEUE_OFFSET
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.store.recovery.marker_files import load_orderly_end
from rocketpy.store.results import GetMessageStatus, PutMessageStatus
from rocketpy.testing.sim.disk import ProcessDied, SimDisk
from rocketpy.testing.store_model import Invariant, InvariantBroken, Sent, StoreModel
from rocketpy.testing.store_world import LifeEnded, StoreWorld

T = TypeVar("T")
ROOT = "/store"
NOTE_NAME = "recovery-note"
NOTE_PATH = f"{ROOT}/{NOTE_NAME}"
BODY_SIZE_MAX = 1000
BODY_SIZE_MIN = 8
RECORD_OVERHEAD = 91 + len("T") + len("TAGS\x01A")  # of a message with tags and no more properties
UNLIMITED = 1 << 50
CONFIG = MessageStoreConfig(
    store_path_root_dir=ROOT,
    max_message_size=BODY_SIZE_MAX,
    max_hash_slot_num=8,
    max_index_num=40,
    max_msgs_num_batch=10_000,
    flush_commit_log_least_pages=0,
    clean_file_forcibly_enable=False,  # a full disk refuses messages; it does not delete what the model expects
    flush_consume_queue_thorough_interval=5_000,
)
SYNC, ASYNC = FlushDiskType.SYNC_FLUSH, FlushDiskType.ASYNC_FLUSH


@attrs.frozen(repr=False)
class Survives:
    """What the disk has of what was not synced when the power goes."""

    seed: int

    def __repr__(self) -> str:
        return {power_loss.NOTHING: "NOTHING", power_loss.EVERYTHING: "EVERYTHING"}.get(self.seed, f"some({self.seed})")

    def choose(self) -> Callable[[int], int]:
        """Return who answers the disk."""
        return power_loss.chosen(self.seed)


NOTHING, EVERYTHING = Survives(power_loss.NOTHING), Survives(power_loss.EVERYTHING)


def some(seed: int) -> Survives:
    """Pages, lengths and names, each or not."""
    return Survives(seed)


queue_names = st.sampled_from([("T", 0), ("T", 1), ("Topic", 0)])
keys = st.sampled_from(["", "a", "b"])
sizes = st.sampled_from([0, 10, 100, 500, BODY_SIZE_MAX])
units = st.sampled_from([10, 1, 3, 30])  # of a queue file
survivors = st.integers(-2, 255).map(Survives)
disk_calls = st.integers(1, 40)
disk_methods = st.sampled_from(["read", "read_nowait", "write", "sync", "sync_directory"])


def is_open(machine: StoreMachine) -> bool:
    return machine.world.is_open


def is_closed(machine: StoreMachine) -> bool:
    return not machine.world.is_open


def can_read(machine: StoreMachine) -> bool:
    return machine.world.is_open and not is_short(machine)


def is_short(machine: StoreMachine) -> bool:
    return machine.world.disk.descriptors_max < UNLIMITED


class StoreMachine(RuleBasedStateMachine):
    """One store through its lives. Begins closed, on an empty disk."""

    def __init__(self) -> None:
        super().__init__()
        self.world = StoreWorld(CONFIG, disk=SimDisk(choose=random.Random(0).randrange))
        self.model = StoreModel()
        self.body_count = 0
        self.one_size: int | None = None
        self.life_count = 0  # each life has its own tags: a unit that another one left is seen by them
        self.is_faulty = False  # a disk call was made to fail
        self.may_need_space = True  # something of what is in the log has no unit, or no space for one
        self.older_note = b""
        self.is_broken = False  # a promise was: the rest would only hide it

    def teardown(self) -> None:
        """In the end everything is there once more, after a death of each kind."""
        try:
            if not self.is_broken:
                self.end_well()
        finally:
            self.world.kill()

    def end_well(self) -> None:
        self.world.disk.capacity_bytes = UNLIMITED
        self.world.disk.descriptors_max = UNLIMITED
        self.world.disk_delay_ms = 0
        if self.world.is_open:
            if not self.is_faulty:
                self.read_everything()
            self.kill()
        self.start()
        self.lose_power(survives=NOTHING)
        self.start()

    @property
    def has_abort_file(self) -> bool:
        return self.world.disk.exists(f"{ROOT}/abort")

    @contextmanager
    def living(self, *, may_be_refused: bool = False) -> Iterator[None]:
        """What the store does in here may be its last; only a fault that was arranged is a reason for that.

        A full disk is none. It may refuse a start that would have to make units without space for them.
        """
        with broken_unless_done(self):
            try:
                yield
            except LifeEnded as ended:
                cause = ended.cause
                is_arranged = (
                    isinstance(cause, ProcessDied)
                    or (self.is_faulty and "simulated failure" in str(cause))
                    or (may_be_refused and isinstance(cause, DiskFullError))
                )
                if isinstance(cause, DamagedStoreError):
                    # What happens here is a crash, or what a person may do: a store is never refused for that.
                    raise InvariantBroken(Invariant.ACKNOWLEDGED_IS_THERE, f"the store is refused: {cause}") from ended
                if isinstance(cause, DiskFullError) and not is_arranged:
                    raise InvariantBroken(Invariant.FULL_DISK, f"the store has ended: {cause}") from ended
                if not is_arranged:
                    raise
                self.ended()
        self.model.synced(self.world.durable_end)

    def ended(self, *, power_lost: bool = False) -> None:
        self.model.synced(self.world.durable_end)
        self.model.died(power_lost=power_lost)
        self.is_faulty = False

    def accepted(self, answer: Sent | Sequence[Sent] | PutMessageStatus) -> None:
        if isinstance(answer, Sent):
            self.model.sent([answer])
        elif isinstance(answer, Sequence):
            self.model.sent(answer)

    @property
    def tags(self) -> str:
        """Those of this life."""
        return chr(ord("A") + self.life_count % 26)

    def body(self, size: int) -> bytes:
        """Return a body that no other message has, if the size allows it."""
        self.body_count += 1
        if self.one_size is not None:
            size = self.one_size  # what was cut and what replaces it then have the same bounds
        return (b"%d." % self.body_count).ljust(size, b"x")[: max(size, BODY_SIZE_MIN)]

    # ---- a life ---------------------------------------------------------------------------------------------------

    @initialize(
        flush=st.sampled_from([SYNC, ASYNC]),
        pages=st.integers(1, 3),
        sector_size=st.sampled_from([64, 512]),
        one_size=st.one_of(st.none(), sizes),
        units=units,
        pool=st.booleans(),
    )
    def first_start(
        self,
        flush: FlushDiskType,
        pages: int = 1,
        sector_size: int = 512,
        one_size: int | None = None,
        units: int = 10,
        pool: bool = False,
    ) -> None:
        self.one_size = one_size
        self.world.disk = SimDisk(choose=random.Random(0).randrange, sector_size=sector_size)
        self.settings_are_changed(flush, pages, units, pool)
        self.start()

    @precondition(is_closed)
    @rule()
    def start(self) -> None:
        self.world.disk.descriptors_max = UNLIMITED
        is_full = self.world.disk.capacity_bytes < UNLIMITED
        with self.living(may_be_refused=is_full and self.may_need_space):
            found = self.world.open()
            self.model.recovered(found)
            self.life_count += 1
            self.may_need_space = False

    @precondition(is_closed)
    @rule(call=disk_calls)
    def start_and_die(self, call: int) -> None:
        self.world.disk.die_at_call(call)
        self.start()

    @precondition(is_open)
    @rule()
    def stop(self) -> None:
        with self.living():
            self.world.stop()
            self.is_faulty = False
            self.model.stopped()
        if not self.has_abort_file:
            self.model.stopped()  # that it goes is the very last act: if it died in that, everything else was done

    @precondition(is_open)
    @rule()
    def kill(self) -> None:
        self.world.kill()
        self.ended()

    @rule(survives=survivors)
    def lose_power(self, survives: Survives) -> None:
        self.world.lose_power(survives.choose())
        self.may_need_space = True
        self.ended(power_lost=True)

    @precondition(is_open)
    @rule(survives=st.one_of(st.none(), survivors))
    def crash_and_start(self, survives: Survives | None) -> None:
        if survives is None:
            self.kill()
        else:
            self.lose_power(survives)
        self.start()

    @precondition(is_open)
    @rule(call=disk_calls)
    def die_soon(self, call: int) -> None:
        self.world.disk.die_at_call(call)

    # ---- what clients do ------------------------------------------------------------------------------------------

    @precondition(is_open)
    @rule(queue=queue_names, size=sizes, key=keys, and_end=st.booleans())
    def put(self, queue: tuple[str, int], size: int, key: str = "", and_end: bool = False) -> None:
        with self.living():
            keys = [key] if key else []
            self.accepted(self.world.put(*queue, self.body(size), keys=keys, tags=self.tags, flag=self.body_count))
        if and_end and self.world.is_open:
            self.end_burst()

    @precondition(is_open)
    @rule(queue=queue_names, sizes=st.lists(sizes, min_size=1, max_size=4), key=keys, and_end=st.booleans())
    def put_batch(self, queue: tuple[str, int], sizes: Sequence[int], key: str = "", and_end: bool = False) -> None:
        with self.living():
            bodies = [self.body(size) for size in sizes]
            self.accepted(self.world.put_batch(*queue, bodies, keys=[key] if key else [], tags=self.tags))
        if and_end and self.world.is_open:
            self.end_burst()

    @precondition(is_open)
    @rule(queue=queue_names, size=sizes, offset=st.sampled_from([0, 1, 5]), and_end=st.booleans())
    def put_naming(self, queue: tuple[str, int], size: int, offset: int, and_end: bool = False) -> None:
        """A message of one topic claims to be in a queue of another one, at some offset there."""
        more = {PROPERTY_INNER_MULTI_DISPATCH: queue[0], PROPERTY_INNER_MULTI_QUEUE_OFFSET: str(offset)}
        with self.living():
            self.accepted(self.world.put_batch("Forger", queue[1], [self.body(size)], tags=self.tags, more=more))
        if and_end and self.world.is_open:
            self.end_burst()

    @precondition(is_open)
    @rule(queue=queue_names)
    def put_oversize(self, queue: tuple[str, int]) -> None:
        with self.living():
            answer = self.world.put(*queue, b"x" * (BODY_SIZE_MAX + 1))
            assert isinstance(answer, PutMessageStatus)

    @precondition(is_open)
    @rule(level=st.integers(1, 3), size=sizes)
    def put_delayed(self, level: int, size: int) -> None:
        with self.living():
            self.accepted(self.world.put("later", level - 1, self.body(size), delay_level=level))

    @precondition(is_open)
    @rule(left=st.sampled_from([0, 7, 8, 9, 20]))
    def fill_file(self, left: int) -> None:
        """Put messages until exactly so many bytes are left in the file; it rolls over with the next one."""
        file_size = self.world.config.mapped_file_size_commit_log
        for _ in range(20):
            if not self.world.is_open:
                return
            room = file_size - self.world.store.wrote_offset % file_size - left - RECORD_OVERHEAD
            if room < 8:
                return
            size = room if room <= BODY_SIZE_MAX else min(BODY_SIZE_MAX, room - RECORD_OVERHEAD - 8)
            self.one_size = None
            self.put(("T", 0), size)

    @precondition(is_open)
    @rule()
    def end_burst(self) -> None:
        with self.living():
            self.world.end_burst()
            self.model.written(self.world.written_end)

    def has_ended_burst(self) -> bool:
        """End the burst; return whether the store lives on, which it may not where a disk call was made to fail."""
        self.end_burst()
        return self.world.is_open

    # ---- time, disk, people ---------------------------------------------------------------------------------------

    @precondition(is_open)
    @rule(milliseconds=st.sampled_from([1, 20, 600, 6_000, 70_000]))
    def time_passes(self, milliseconds: int) -> None:
        if self.has_ended_burst():
            with self.living():
                self.world.pass_time(milliseconds)
                self.model.written(self.world.written_end)

    @precondition(is_open)
    @rule()
    def flush(self) -> None:
        if self.has_ended_burst():
            with self.living():
                self.world.flush()
                self.model.written(self.world.written_end)

    @rule(milliseconds=st.sampled_from([-100_000, -3_500, -1, 1, 3_500, 100_000]))
    def clock_is_set(self, milliseconds: int) -> None:
        self.world.clock.advance_ms(milliseconds)

    @precondition(is_open)
    @rule(milliseconds=st.sampled_from([0, 15, 400]))
    def disk_is_slow(self, milliseconds: int) -> None:
        self.world.disk_delay_ms = milliseconds

    @rule(pages=st.integers(0, 12))
    def disk_fills_up(self, pages: int) -> None:
        disk = self.world.disk
        disk.capacity_bytes = UNLIMITED
        disk.capacity_bytes = UNLIMITED - disk.free_bytes(ROOT) + 4096 * pages

    @precondition(is_closed)
    @rule()
    def log_becomes_sparse(self) -> None:
        """The store comes from a backup, or from a Java broker: the last file has its length, and no space for it."""
        disk, directory = self.world.disk, f"{ROOT}/commitlog"
        for name in disk.list_directory(directory)[-1:]:
            file = disk.open(f"{directory}/{name}")
            size = file.size()
            file.truncate(len(file.read(0, size).rstrip(b"\0")))
            file.truncate(size)
            file.sync()
            file.close()

    @precondition(is_open)
    @rule(left=st.integers(0, 4))
    def descriptors_run_out(self, left: int) -> None:
        """Leave so many: no reason for a life to end, whatever it does meanwhile but to begin or to read."""
        self.world.disk.descriptors_max = self.world.disk.descriptor_count + left

    @precondition(is_short)
    @rule()
    def descriptors_are_back(self) -> None:
        self.world.disk.descriptors_max = UNLIMITED

    @precondition(lambda machine: machine.world.disk.capacity_bytes < UNLIMITED)
    @rule()
    def disk_has_space_again(self) -> None:
        self.world.disk.capacity_bytes = UNLIMITED

    @precondition(is_open)
    @rule(method=disk_methods, call=st.integers(1, 5))
    def disk_call_fails(self, method: str, call: int) -> None:
        self.world.disk.fail_call(method, call)
        self.is_faulty = True

    @precondition(is_closed)
    @rule(method=disk_methods, call=st.integers(1, 20))
    def start_and_fail(self, method: str, call: int) -> None:
        self.world.disk.fail_call(method, call)
        self.is_faulty = True
        self.start()

    @precondition(is_closed)
    @rule()
    def checkpoint_is_lost(self) -> None:
        self.world.remove(f"{ROOT}/checkpoint")

    @precondition(is_closed)
    @rule()
    def note_is_lost(self) -> None:
        self.world.remove(NOTE_PATH)

    @precondition(is_closed)
    @rule(position=st.integers(0, 200))
    def note_is_damaged(self, position: int) -> None:
        if self.world.disk.exists(NOTE_PATH):
            self.world.disk.flip_bit(NOTE_PATH, position)

    @precondition(is_closed)
    @rule()
    def note_is_older(self) -> None:
        """The note of an earlier life, in the file of the last one."""
        note = self.world.disk.peek(ROOT).get(NOTE_NAME)
        if note is not None and self.older_note:
            file = self.world.disk.open(NOTE_PATH)
            file.write(0, self.older_note)
            file.close()
        self.older_note = note or self.older_note

    @precondition(is_closed)
    @rule()
    def abort_file_is_left(self) -> None:
        self.world.disk.open(f"{ROOT}/abort", create=True).close()

    @precondition(is_closed)
    @rule()
    def abort_file_is_removed(self) -> None:
        self.world.remove(f"{ROOT}/abort")
        self.model.abort_file_removed()

    @precondition(is_closed)
    @rule(topic=st.sampled_from(["", "/T", "/T/1", "/Topic"]))
    def queues_are_deleted(self, topic: str) -> None:
        self.world.remove(f"{ROOT}/consumequeue{topic}")
        self.may_need_space = True

    @precondition(is_closed)
    @rule(queue=queue_names, size=sizes, count=st.integers(1, 3))
    def queue_is_longer(self, queue: tuple[str, int], size: int, count: int) -> None:
        """After a clean stop the last file of a queue is of a copy of the store that has gone on without this log.

        Its units are of messages that the log may soon have at the same offsets, with the same sizes and other tags.
        """
        disk, directory = self.world.disk, f"{ROOT}/consumequeue/{queue[0]}/{queue[1]}"
        end = load_orderly_end(disk, f"{ROOT}/orderly-end")
        if end is None or self.has_abort_file or not disk.is_directory(directory):
            return
        for name in disk.list_directory(directory)[-1:]:
            file = disk.open(f"{directory}/{name}")
            begin = len(file.read(0, file.size()).rstrip(b"\0"))
            begin += -begin % UNIT_SIZE
            record_size = RECORD_OVERHEAD + max(size, BODY_SIZE_MIN)
            units = [UNIT.pack(end.end_offset + each * record_size, record_size, 7) for each in range(count)]
            file.write(begin, b"".join(units)[: file.size() - begin])
            file.sync()
            file.close()

    @precondition(is_closed)
    @rule()
    def index_is_deleted(self) -> None:
        self.world.remove(f"{ROOT}/index")

    @precondition(is_closed)
    @rule(flush=st.sampled_from([SYNC, ASYNC]), pages=st.integers(1, 3), units=units, pool=st.booleans())
    def settings_are_changed(self, flush: FlushDiskType, pages: int, units: int, pool: bool = False) -> None:
        self.world.config = attrs.evolve(
            CONFIG,
            flush_disk_type=flush,
            mapped_file_size_commit_log=4096 * pages,
            mapped_file_size_consume_queue=20 * units,
            transient_store_pool_enable=pool,
        )

    # ---- what readers see -----------------------------------------------------------------------------------------

    @precondition(can_read)
    @rule()
    def read_everything(self) -> None:
        if not self.has_ended_burst():
            return
        with self.living():
            self.world.pass_time(1_000)  # until a pool is empty
            if not self.world.store.statistics().uncommitted_bytes:
                self.model.written()
                self.model.shown(*self.world.contents())

    @precondition(can_read)
    @rule(queue=queue_names, key=st.sampled_from(["a", "b"]))
    def search_by_key(self, queue: tuple[str, int], key: str) -> None:
        topic, world = queue[0], self.world
        self.end_burst()
        if not world.is_open:
            return
        with self.living():
            world.pass_time(10)
            self.model.written(world.written_end)
            if world.store.index_behind or world.store.writable_or_why():
                return
            result = world.ask(lambda store: store.query_message(topic, key, 10_000, 0, 1 << 62))
            found = sorted(
                each.physical_offset
                for each in decode_messages(result.body)
                if each.topic == topic and each.properties.get("KEYS") == key
            )
            expected = [
                each.physical_offset
                for each in self.model.log[: self.model.written_count]
                if each.topic == topic and b"KEYS\x01%s" % key.encode() in each.properties
            ]
            if found != expected:
                raise InvariantBroken(
                    Invariant.KEYS_LEAD, f"the index has {found} for {key!r} of {topic}, expected {expected}"
                )

    @precondition(can_read)
    @rule(queue=queue_names, which=st.integers(0, 50))
    def search_by_time(self, queue: tuple[str, int], which: int) -> None:
        self.time_passes(1_000)  # until a pool is empty
        if not self.world.is_open:
            return
        with self.living():
            count = self.world.store.max_offset_in_queue(*queue)
            stored = [self.world.ask(lambda store, at=at: store.store_timestamp_of(*queue, at)) for at in range(count)]
            if not stored or stored != sorted(stored) or self.world.store.statistics().uncommitted_bytes:
                return  # the clock was set back, or there will be more soon: then it finds some message
            wanted = stored[which % count]
            found = self.world.ask(lambda store: store.offset_in_queue_by_time(*queue, wanted))
            assert stored[found] == wanted

    @precondition(can_read)
    @rule(queue=queue_names, which=st.integers(0, 50))
    def pull(self, queue: tuple[str, int], which: int) -> None:
        if not self.has_ended_burst():
            return
        with self.living():
            written = self.model.log[: self.model.written_count]
            expected = [each for each in written if (each.topic, each.queue_id) == queue]
            store, begin = self.world.store, which % (len(expected) + 1)
            with self.world.failing():
                result = store.get_message_nowait(*queue, begin, 4)
            if result is None:
                result = self.world.ask(lambda store: store.get_message(*queue, begin, 4))
            if begin == len(expected):
                assert result.status is not GetMessageStatus.FOUND
                return
            bodies = [each.body for each in decode_messages(result.body)]
            assert bodies == [each.body for each in expected[begin : begin + len(bodies)]]
            assert bodies
            assert result.next_begin_offset == begin + len(bodies)
            assert result.max_offset == len(expected)
