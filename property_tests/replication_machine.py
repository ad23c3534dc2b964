"""The rules by which replicating stores live, fail and change their roles, and the model that they are held against.

A step is something that a producer, a machine, the network, a foreign peer or a person can do. What stores may show and
producers may be answered is for :class:`~rocketpy.testing.replication_model.ReplicationModel` to judge, at the moment
when it happens: see :class:`~rocketpy.testing.pair_world.PairWorld`. A failing example is a script of these steps; it
belongs into ``test_replication_machine.py``.

::

    producers                                         foreign peers
      put, put_batch, put_delayed,                      forge: reports of no slave
      put_transactional, fill_file,                     lie:   frames of no master
      end_burst, wait_again                                |            |
            |            reports                           v            |
            v         <-- cut, slow_down, reset, heal --   master       |
      master "a" -------------------------------------> slave "b"  <----+   (slave "c", where there are three)
            |           frames                             |
            +----------- promote, demote ------------------+    roles change; a second master may go on alone

    each machine   start, start_and_die, stop, kill, lose_power, die_soon, wipe
    each disk      disk_fills_up, disk_has_space_again, disk_call_fails
    what is true   judged at each step by the world; compare_units, search; all_faults_end: equal, or an alarm
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from property_tests.hunts import broken_unless_done
from property_tests.store_machine import NOTHING, Survives
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import RECORD_HEAD, encode_blank, encode_message
from rocketpy.store.config import BrokerRole, FlushDiskType, MessageStoreConfig
from rocketpy.store.ha.protocol import encode_frame_header, encode_report
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.pair_world import PairWorld
from rocketpy.testing.replication_model import Invariant, ReplicationBroken
from rocketpy.testing.sim.network import Link
from rocketpy.testing.store_world import LifeEnded

BODY_SIZE_MAX = 1000
RECORD_OVERHEAD = 91 + len("T")
CONFIG = MessageStoreConfig(
    store_path_root_dir="/store",
    max_message_size=BODY_SIZE_MAX,
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=200,
    max_hash_slot_num=8,
    max_index_num=40,
    flush_commit_log_least_pages=0,
    flush_consume_queue_thorough_interval=5_000,
    clean_file_forcibly_enable=False,  # a full disk refuses messages; it does not delete what the model expects
    ha_send_heartbeat_interval=1_000,
    ha_housekeeping_interval=4_000,
)
SYNC, ASYNC = FlushDiskType.SYNC_FLUSH, FlushDiskType.ASYNC_FLUSH
PREPARED, COMMITTED, ROLLED_BACK = 0x4, 0x8, 0xC
NAMES = ("a", "b", "c")

names = st.sampled_from(["a", "b"])
queues = st.sampled_from([("T", 0), ("T", 1), ("Topic", 0)])
sizes = st.sampled_from([0, 10, 100, 500, BODY_SIZE_MAX])
survivors = st.integers(-2, 255).map(Survives)
disk_calls = st.integers(1, 30)
ways = st.sampled_from(["both", "to the slave", "to the master"])
ends = st.sampled_from(["stop", "kill", "power", "none"])
reports = st.sampled_from(["huge", "negative", "minus one", "half", "past the end", "request", "back", "beyond"])
lies = st.sampled_from(
    ["offset", "negative size", "huge size", "physical offset", "CRC", "queue offset", "wrong BLANK", "zeros", "half"]
)


def has_master(machine: ReplicationMachine) -> bool:
    return machine.world.is_open(machine.master)


def has_pair(machine: ReplicationMachine) -> bool:
    return has_master(machine) and bool(machine.world.slaves())


class ReplicationMachine(RuleBasedStateMachine):
    """Machines with a store each. One is to be the master; the others are its slaves when they are started."""

    def __init__(self) -> None:
        super().__init__()
        self.world = PairWorld(CONFIG)
        self.world.__enter__()
        self.world.follow("a")
        self.master = "a"
        self.role = BrokerRole.SYNC_MASTER
        self.body_count = 0
        self.one_size: int | None = None
        self.is_broken = False  # an invariant was: the rest would only hide it

    def teardown(self) -> None:
        """In the end all faults are over: every slave has caught up, or shows an alarm."""
        try:
            if not self.is_broken:
                self.end_well()
        finally:
            self.world.__exit__()

    def end_well(self) -> None:
        self.all_faults_end()
        world, master = self.world, self.master
        is_replicating = [
            slave
            for slave in world.slaves()
            if (client := world.replica(slave).client) and not client.statistics().alarm
        ]
        if self.role is BrokerRole.SYNC_MASTER and is_replicating:
            with self.living():
                world.pass_time(15)  # until no producer waits, and a disk that was full is looked at again
                accepted = world.producers.put(master, "T", 0, self.body(10))
                self.require(accepted is PutMessageStatus.PUT_OK, f"the last put is refused: {accepted.name}")
                world.pass_time(5)
                answer = world.producers.answers[-1]
                self.require(answer is PutMessageStatus.PUT_OK, f"the last put: {answer.name}")

    def require(self, is_so: bool, what: str) -> None:
        if not is_so:
            raise ReplicationBroken(Invariant.PROGRESS_OR_ALARM, what)

    @contextmanager
    def living(self) -> Iterator[None]:
        """Around what may be the last act of a store, if that was arranged; the world raises any other end."""
        with broken_unless_done(self):
            try:
                yield
            except LifeEnded:
                pass

    def body(self, size: int) -> bytes:
        """Return a body that no other message has, if the size allows it."""
        self.body_count += 1
        if self.one_size is not None:
            size = self.one_size  # records of two histories then have the same bounds
        return (b"%d." % self.body_count).ljust(size, b"x")[: max(size, 8)]

    def role_of(self, name: str) -> BrokerRole:
        return self.role if name == self.master else BrokerRole.SLAVE

    # ---- lives ----------------------------------------------------------------------------------------------------

    @initialize(
        sync=st.sampled_from([True, True, True, False]),
        flush=st.sampled_from([SYNC, ASYNC]),
        count=st.sampled_from([2, 2, 2, 3]),
        batch=st.sampled_from([60, 300, 32_768]),
        cuts=st.booleans(),
        one_size=st.one_of(st.none(), st.just(10)),
    )
    def first_start(
        self,
        sync: bool = True,
        flush: FlushDiskType = ASYNC,
        count: int = 2,
        batch: int = 32_768,
        cuts: bool = False,
        one_size: int | None = None,
    ) -> None:
        self.world.__exit__()
        config = attrs.evolve(
            CONFIG, flush_disk_type=flush, ha_transfer_batch_size=batch, ha_truncate_diverged_log=cuts
        )
        self.world = PairWorld(config, names=NAMES[:count])
        self.world.__enter__()
        self.role = BrokerRole.SYNC_MASTER if sync else BrokerRole.ASYNC_MASTER
        self.one_size = one_size
        with self.living():
            self.world.follow(self.master)
            for name in NAMES[:count]:
                self.world.start(name, self.role_of(name))
            self.world.pass_time(2)

    @rule(name=names)
    def start(self, name: str) -> None:
        with self.living():
            if not self.world.is_open(name):
                self.world.start(name, self.role_of(name))

    @rule(name=names, call=disk_calls)
    def start_and_die(self, name: str, call: int) -> None:
        if not self.world.is_open(name):
            self.world.disks.die_at_call(name, call)
            self.start(name)

    @rule(name=names)
    def stop(self, name: str) -> None:
        with self.living():
            if self.world.is_open(name):
                self.world.stop(name)

    @rule(name=names, and_start=st.booleans())
    def kill(self, name: str, and_start: bool = False) -> None:
        with self.living():
            self.world.kill(name)
        if and_start:
            self.start(name)

    @rule(name=names, survives=survivors, and_start=st.booleans())
    def lose_power(self, name: str, survives: Survives = NOTHING, and_start: bool = False) -> None:
        with self.living():
            self.world.lose_power(name, survives.choose())
        if and_start:
            self.start(name)

    @rule(name=names, call=disk_calls)
    def die_soon(self, name: str, call: int) -> None:
        if self.world.is_open(name):
            self.world.disks.die_at_call(name, call)

    @rule(name=names)
    def wipe(self, name: str) -> None:
        with self.living():
            self.world.wipe(name)

    @rule(name=names, end=ends, survives=survivors)
    def promote(self, name: str, end: str = "kill", survives: Survives = NOTHING) -> None:
        """A slave becomes the master; the old one ends, or goes on as a second master whom no slave follows.

        Not a slave that began with a later file than its master: its queues would begin at 0 again.
        """
        if name == self.master or self.world.replica(name).log_begin:
            return
        with self.living():
            world, old, self.master = self.world, self.master, name
            if end == "stop" and world.is_open(old):
                world.stop(old)
            elif end == "kill":
                world.kill(old)
            elif end == "power":
                world.lose_power(old, survives.choose())
            if world.is_open(name):
                world.stop(name)
            world.follow(name)
            world.start(name, self.role)

    @rule(name=names)
    def demote(self, name: str) -> None:
        """A second master becomes a slave of the other one."""
        with self.living():
            if name != self.master and name in self.world.masters():
                self.world.stop(name)
                self.world.start(name, BrokerRole.SLAVE)

    # ---- producers ------------------------------------------------------------------------------------------------

    @precondition(has_master)
    @rule(
        queue=queues, size=sizes, key=st.sampled_from(["", "k"]), tags=st.sampled_from(["", "t"]), and_end=st.booleans()
    )
    def put(self, queue: tuple[str, int], size: int, key: str = "", tags: str = "", and_end: bool = True) -> None:
        with self.living():
            self.world.producers.put(self.master, *queue, self.body(size), keys=[key] if key else [], tags=tags)
        self.maybe_end_burst(and_end)

    @precondition(has_master)
    @rule(queue=queues, some=st.lists(sizes, min_size=1, max_size=4), and_end=st.booleans())
    def put_batch(self, queue: tuple[str, int], some: Sequence[int], and_end: bool = True) -> None:
        with self.living():
            self.world.producers.put_batch(self.master, *queue, [self.body(size) for size in some])
        self.maybe_end_burst(and_end)

    @precondition(has_master)
    @rule(level=st.integers(1, 3), waits=st.booleans())
    def put_delayed(self, level: int, waits: bool = True) -> None:
        with self.living():
            self.world.producers.put(self.master, "later", 0, self.body(10), delay_level=level, waits=waits)

    @precondition(has_master)
    @rule(kind=st.sampled_from([PREPARED, COMMITTED, ROLLED_BACK]))
    def put_transactional(self, kind: int) -> None:
        with self.living():
            self.world.producers.put(self.master, "T", 0, self.body(10), sys_flag=kind)

    @precondition(has_master)
    @rule(left=st.sampled_from([0, 8, 9, 20]))
    def fill_file(self, left: int) -> None:
        """Put messages until exactly so many bytes are left in the file; it rolls over with the next one."""
        file_size = CONFIG.mapped_file_size_commit_log
        self.one_size = None
        for _ in range(8):
            store = self.world.replica(self.master).store
            if store is None:
                return
            room = file_size - store.wrote_offset % file_size - left - RECORD_OVERHEAD
            if room < 8:
                return
            size = room if room <= BODY_SIZE_MAX else min(BODY_SIZE_MAX, room - RECORD_OVERHEAD - 8)
            self.put(("T", 0), size, and_end=False)

    @precondition(has_master)
    @rule()
    def end_burst(self) -> None:
        with self.living():
            self.world.producers.end_burst(self.master)

    @precondition(has_master)
    @rule()
    def wait_again(self) -> None:
        """A producer waits for the last record, which may have been written long ago."""
        self.end_burst()
        if has_master(self):
            with self.living():
                self.world.producers.wait_again(self.master)

    def maybe_end_burst(self, and_end: bool) -> None:
        if and_end and has_master(self):
            self.end_burst()

    # ---- time, network --------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.001, 0.1, 1.5, 6.0]))
    def time_passes(self, seconds: float) -> None:
        with self.living():
            self.world.pass_time(seconds)

    @rule(name=names, way=ways)
    def cut(self, name: str, way: str = "both") -> None:
        if name != self.master:
            source, target = (name, self.master) if way == "to the master" else (self.master, name)
            self.world.cut(source, target, one_way=way != "both")

    @rule()
    def heal(self) -> None:
        with self.living():
            self.world.heal()

    @rule(name=names)
    def reset(self, name: str) -> None:
        if name != self.master:
            with self.living():
                self.world.reset(self.master, name)

    @rule(name=names, way=ways, bytes_per_s=st.sampled_from([50.0, 2_000.0]))
    def slow_down(self, name: str, way: str, bytes_per_s: float) -> None:
        if name != self.master:
            source, target = (name, self.master) if way == "to the master" else (self.master, name)
            self.world.slow_down(source, target, Link(delay_s=0.05, jitter_s=0.1, bytes_per_s=bytes_per_s))

    @rule(name=names, way=ways)
    def sends_return_late(self, name: str, way: str) -> None:
        if name != self.master:
            source, target = (name, self.master) if way == "to the master" else (self.master, name)
            self.world.return_late(source, target)

    # ---- disks ----------------------------------------------------------------------------------------------------

    @rule(name=names, pages=st.integers(0, 6))
    def disk_fills_up(self, name: str, pages: int) -> None:
        self.world.disks.fill(name, 4096 * pages)

    @precondition(lambda machine: machine.world.faulty)
    @rule(name=names)
    def disk_has_space_again(self, name: str) -> None:
        self.world.disks.free(name)

    @rule(name=names, method=st.sampled_from(["write", "sync", "sync_directory"]), call=st.integers(1, 6))
    def disk_call_fails(self, name: str, method: str, call: int) -> None:
        if self.world.is_open(name):
            self.world.disks.fail_call(name, method, call)

    # ---- foreign peers --------------------------------------------------------------------------------------------

    @precondition(has_master)
    @rule(report=reports, is_new=st.booleans())
    def forge(self, report: str, is_new: bool = True) -> None:
        """A peer that is no slave reports what no slave could: never exactly what it was sent."""
        store = self.world.replica(self.master).store
        assert store is not None, "the master is open"
        end = store.max_physical_offset
        request = encode_report(end) if is_new else b""  # true for a log that is a copy of ours
        sent = {
            "huge": encode_report(1 << 40),
            "negative": encode_report(-100),
            "minus one": encode_report(-1),
            "half": b"\xff" * 5,
            "past the end": encode_report(end + 1),
            "request": request or encode_report(end + 1),
            "back": request + encode_report(-2),
            "beyond": request + encode_report(end + 500),
        }[report]
        with self.living():
            self.world.impostors.forge(self.master, sent, is_new=is_new)

    @precondition(has_pair)
    @rule(which=st.integers(0, 1), lie=lies)
    def lie(self, which: int, lie: str) -> None:
        """A master that is none sends a slave what no master has."""
        slaves = self.world.slaves()
        with self.living():
            self.world.impostors.lie(slaves[which % len(slaves)], _LIES[lie])

    # ---- what is true ---------------------------------------------------------------------------------------------

    @rule()
    def compare_units(self) -> None:
        with self.living():
            for name in self.world.masters():
                self.world.producers.end_burst(name)
            self.world.compare_units()

    @rule(topic=st.sampled_from(["T", "Topic"]))
    def search(self, topic: str) -> None:
        with self.living():
            for name in self.world.masters():
                self.world.producers.end_burst(name)
            self.world.search(topic, "k")

    @precondition(lambda machine: not machine.world.is_calm)
    @rule()
    def all_faults_end(self) -> None:
        for name in self.world.masters():
            with self.living():
                self.world.producers.end_burst(name)  # whoever dies of that is started again below
        with self.living():
            world = self.world
            world.heal()
            for name in NAMES[: len(world.replicas)]:
                world.disks.free(name)
                world.disks.stay_alive(name)
                if name != self.master and name in world.masters():
                    world.kill(name)
                if name in world.faulty:
                    world.kill(name)
                if not world.is_open(name):
                    world.start(name, self.role_of(name))
            world.calm()
            world.search("T", "k")
            for name, replica in world.replicas.items():
                self.require(replica.is_open, f"{name} is not open, although no fault is left")


# ---- what a master that is none may send ----------------------------------------------------------------------------


def _record(offset: int, *, queue_offset: int = 0, physical_offset: int | None = None) -> bytes:
    return encode_message(
        MessageExt(
            topic="T",
            body=b"a lie",
            properties={},
            queue_offset=queue_offset,
            physical_offset=offset if physical_offset is None else physical_offset,
            born_timestamp=1,
            born_host="10.0.0.77:1",
            store_timestamp=1,
            store_host="10.0.0.77:1",
        )
    )


def _frame(offset: int, body: bytes) -> bytes:
    return encode_frame_header(offset, len(body)) + body


def _wrong_crc(offset: int) -> bytes:
    record = bytearray(_record(offset))
    record[record.index(b"a lie")] ^= 1
    return _frame(offset, bytes(record))


def _wrong_queue_offset(offset: int) -> bytes:
    """One that a queue cannot have: a slave does not know the last one before its start, or before its log begins."""
    return _frame(offset, _record(offset, queue_offset=max(50, offset // RECORD_HEAD.size + 1)))


def _wrong_blank(offset: int) -> bytes:
    """One of 8 bytes, or of 16 where 8 are what is left of the file."""
    left = -offset % CONFIG.mapped_file_size_commit_log
    return _frame(offset, encode_blank(8 if left != 8 else 16))


_LIES: dict[str, Callable[[int], bytes]] = {
    "offset": lambda at: _frame(at + 8, _record(at + 8)),
    "negative size": lambda at: struct.pack(">qi", at, -100),
    "huge size": lambda at: struct.pack(">qi", at, 1 << 30),
    "physical offset": lambda at: _frame(at, _record(at, physical_offset=at + 4096)),
    "CRC": _wrong_crc,
    "queue offset": _wrong_queue_offset,
    "wrong BLANK": _wrong_blank,
    "zeros": lambda at: _frame(at, bytes(100)),
    "half": lambda at: _frame(at, _record(at)[:40]),
}
