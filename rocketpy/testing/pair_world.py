"""Deterministic simulation of replicating stores: faults of machines and network are plain calls.

Each :class:`~rocketpy.testing.replica.Replica` is a real store with the product's own replication around it, on a
machine of its own, over one simulated network, in virtual time. Between two calls of :class:`PairWorld` nothing moves.
What a store shows and what a producer is answered is reported to the
:class:`~rocketpy.testing.replication_model.ReplicationModel` at the moment when it happens; an invariant that is broken
there is raised by the call in which it happened.

::

    with PairWorld(config) as world:
        world.start("a", BrokerRole.SYNC_MASTER); world.start("b", BrokerRole.SLAVE); world.follow("a")
        world.put("a", "T", 0, b"body"); world.end_burst("a")
        world.pass_time(5); world.cut("a", "b"); world.lose_power("a", choose)
        world.calm()                              no fault is left: data or an alarm

A life ends by :meth:`PairWorld.stop`, :meth:`PairWorld.kill` or :meth:`PairWorld.lose_power`, or in a disk call for
which that was arranged. A store that fails otherwise than by an arranged fault raises what ended it.

Only one world of a thread may be open at a time, and none inside a Trio run: see ``stepped_run``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Self

import attrs
import trio

from rocketpy.errors import DiskFullError, RemotingConnectError, StoreError
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.query import CompareRecordResponseHeader
from rocketpy.protocol.java_hash import tags_code as hash_of_tags
from rocketpy.protocol.properties import PROPERTY_DELAY_TIME_LEVEL, PROPERTY_KEYS, PROPERTY_TAGS, encode_properties
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.append.batch import MessageBatch
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.ha.client import HAState
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.replica import HA_PORT, REQUEST_PORT, Replica
from rocketpy.testing.replication_model import Answer, ReplicationBroken, ReplicationModel, Unit
from rocketpy.testing.sim.choices import Choose
from rocketpy.testing.sim.disk import ProcessDied
from rocketpy.testing.sim.network import Link, SimNetwork
from rocketpy.testing.sim.stepped_run import SteppedRun
from rocketpy.testing.sim.stream import SimStream
from rocketpy.testing.store_contents import delay_ms
from rocketpy.testing.store_world import BORN_HOST, LifeEnded

QUIET_SECONDS = 1.0
"""After a disturbance: longer than it takes until both sides know of it, if they can."""

CALM_SECONDS = 30.0
"""Longer than a slave needs for its next attempts, a comparison, and a cut."""

UNLIMITED_BYTES = 1 << 50

_STEP_SECONDS_MAX = 600.0
_LIAR, _FORGER = "10.0.0.77", "10.0.0.66"


@attrs.define(eq=False)
class _Wait:
    """A producer that has no answer yet."""

    master: str
    begin_offset: int
    end_offset: int
    began_at: float
    may_have_slave: bool
    followers: Mapping[str, int]
    """The slaves that surely followed when it began, with the number of their connection."""


class PairWorld:
    """Two or more machines, the network between them, and the model that they are held against."""

    def __init__(self, config: MessageStoreConfig, *, names: Sequence[str] = ("a", "b")) -> None:
        self.model = ReplicationModel()
        self.config = config
        self.network = SimNetwork(randomness=Random(0))
        self.replicas: dict[str, Replica] = {}
        self.answers: list[PutMessageStatus] = []
        """Of all producers, in order."""
        self.is_cut = False
        """Whether a link is cut, or slow."""
        self.is_calm = False
        """Whether nothing has been disturbed since :meth:`calm`."""
        self._failing: set[str] = set()  # those with a call of their disk that is to fail
        self._names = names
        self._shown: dict[str, tuple[int, int]] = {}  # of each open store: its life, and the end of its log
        self._gone_at: dict[str, float] = {}  # when a store was last a running slave; of stores that are none
        self._without_power: set[str] = set()
        self._forged_at = -_STEP_SECONDS_MAX
        self._forged: list[SimStream] = []
        self._disturbed_at = 0.0
        self._waits: list[_Wait] = []
        self._failure: ReplicationBroken | None = None
        self._request: Callable[[], Awaitable[None]] | None = None
        self._wake = trio.lowlevel.ParkingLot()
        self._run = SteppedRun(self._live, time_passes=lambda seconds: None)

    def __enter__(self) -> Self:
        self._run.settle()
        return self

    def __exit__(self, *_: object) -> None:
        """End everything, whatever happened."""
        if not self._run.is_over:
            self._run.cancel(_STEP_SECONDS_MAX)

    # ---- lives ------------------------------------------------------------------------------------------------------

    def replica(self, name: str) -> Replica:
        """Return a machine."""
        return self.replicas[name]

    def is_open(self, name: str) -> bool:
        """Whether a store is open."""
        return self.replicas[name].is_open

    def masters(self) -> list[str]:
        """Return the open stores that are masters."""
        return [name for name, each in self.replicas.items() if each.is_open and not each.is_slave]

    def slaves(self) -> list[str]:
        """Return the open stores that are slaves."""
        return [name for name, each in self.replicas.items() if each.is_open and each.is_slave]

    def start(self, name: str, role: BrokerRole) -> bool:
        """Begin a life in a role; return whether the store is open. It is not after an arranged fault."""
        replica = self.replicas[name]
        replica.role = role
        self._without_power.discard(name)
        self._disturb()
        self._do(lambda: replica.host.start(replica.run))
        if not replica.is_open:
            self._require_arranged(name, replica.host.failure, is_start=True)
        return replica.is_open

    def stop(self, name: str) -> None:
        """End a life in order."""
        self._end(name, self.replicas[name].host.stop)

    def kill(self, name: str) -> None:
        """End a process; it may have ended before."""
        self._end(name, self.replicas[name].host.kill)

    def lose_power(self, name: str, choose: Choose) -> None:
        """End a machine; ``choose`` says what its disk has of what was not synced."""
        replica = self.replicas[name]
        durable_end = replica.durable_end
        self._without_power.add(name)
        self._end(name, lambda: replica.host.lose_power(choose))
        self.model.died(name, durable_end=durable_end)

    def wipe(self, name: str) -> None:
        """Replace a machine by one with an empty disk."""
        replica = self.replicas[name]
        self.lose_power(name, lambda count: 0)
        replica.host.wipe()
        replica.last_durable_end = 0
        self.model.wiped(name)

    def follow(self, master: str) -> None:
        """Let all other machines follow a master, now or when they are slaves."""
        self._disturb()
        for name, replica in self.replicas.items():
            if name != master:
                replica.follow(self.replicas[master].address)

    # ---- disks ------------------------------------------------------------------------------------------------------

    @property
    def faulty(self) -> set[str]:
        """The machines whose disks are full, or have a call that is to fail."""
        return {
            name
            for name, each in self.replicas.items()
            if name in self._failing or each.host.disk.capacity_bytes < UNLIMITED_BYTES
        }

    def fill_disk(self, name: str, free_bytes: int) -> None:
        """Leave so much space on a disk."""
        self._disturb()
        disk = self.replicas[name].host.disk
        disk.capacity_bytes = UNLIMITED_BYTES
        disk.capacity_bytes = UNLIMITED_BYTES - disk.free_bytes(self.config.root) + free_bytes

    def free_disk(self, name: str) -> None:
        """Give a disk all the space it wants."""
        self._disturb()
        self.replicas[name].host.disk.capacity_bytes = UNLIMITED_BYTES

    def fail_call(self, name: str, method: str, call: int) -> None:
        """Let a call of a disk fail, once, in the current life."""
        self._disturb()
        self._failing.add(name)
        self.replicas[name].host.disk.fail_call(method, call)

    def die_at_call(self, name: str, call: int) -> None:
        """Let the process die in a call that changes its disk, instead of in any other one."""
        self._disturb()
        self.replicas[name].host.disk.die_at_call(call)

    def stay_alive(self, name: str) -> None:
        """Take back a death that was arranged."""
        self.die_at_call(name, UNLIMITED_BYTES)

    # ---- producers --------------------------------------------------------------------------------------------------

    def put(
        self,
        master: str,
        topic: str,
        queue_id: int,
        body: bytes,
        *,
        keys: Sequence[str] = (),
        tags: str = "",
        delay_level: int = 0,
        sys_flag: int = 0,
        waits: bool = True,
    ) -> PutMessageStatus:
        """Send a message, and wait for its status where the master's settings say so. The burst stays open."""
        properties = _properties(keys, tags, delay_level)
        encoded, now_ms = tuple(key.encode() for key in keys), self.replicas[master].host.clock.timestamp_ms()
        with self._plain_call(master) as store:
            if delay_level:
                status, begin, _ = store.put_timed(
                    SCHEDULE_TOPIC, delay_level - 1, body, properties, delay_ms(delay_level), encoded, 0, sys_flag,
                    now_ms, BORN_HOST, 0,
                )  # fmt: skip
            else:
                code = hash_of_tags(tags or None)
                status, begin, _ = store.put(
                    topic, queue_id, body, properties, code, encoded, 0, sys_flag, now_ms, BORN_HOST, 0
                )
            if status is PutMessageStatus.PUT_OK and waits:
                self._wait(master, store, begin)
        return status

    def put_batch(
        self, master: str, topic: str, queue_id: int, bodies: Sequence[bytes], *, keys: Sequence[str] = ()
    ) -> PutMessageStatus:
        """Send messages in one batch, and wait for the last one. The burst stays open."""
        properties, encoded = _properties(keys, "", 0), tuple(key.encode() for key in keys)
        batch = MessageBatch.of([(0, body, properties, hash_of_tags(None), encoded) for body in bodies])
        with self._plain_call(master) as store:
            now_ms = self.replicas[master].host.clock.timestamp_ms()
            status, offsets, _ = store.put_batch(topic, queue_id, batch, 0, now_ms, BORN_HOST, 0)
            if status is PutMessageStatus.PUT_OK:
                self._wait(master, store, offsets[0])
        return status

    def end_burst(self, master: str) -> None:
        """Write what was put, and decide on the producers that wait."""
        with self._plain_call(master) as store:
            store.end_burst()

    def wait_again(self, master: str) -> None:
        """Let a producer wait for the last record that is written, whenever it was.

        Nothing happens while the master may count a slave that is gone: it cannot know that the slave's disk is, too.
        """
        now = trio.current_time()
        if any(now - gone_at < self._forgotten_after_s for gone_at in self._gone_at.values()):
            return
        with self._plain_call(master) as store:
            records = self.model.logs[master]
            if records and (store.wrote_offset == max(records) + len(records[max(records)])):
                self._wait(master, store, max(records), is_new=False)
                store.end_burst()

    # ---- time, network, peers ---------------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """End all bursts, and let time pass."""
        for name in self.masters():
            self.end_burst(name)
        self._go(lambda: self._run.pass_time(seconds))
        now = trio.current_time()
        for wait in self._waits:
            self.model.waits(wait.master, waited_s=now - wait.began_at, timeout_s=self._timeout_s)

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Cut the link between two machines, or one direction of it."""
        self._disturb()
        self.is_cut = True
        self.network.cut(self.replicas[source].address, self.replicas[target].address, one_way=one_way)

    def slow_down(self, source: str, target: str, link: Link) -> None:
        """Set one direction of the link between two machines."""
        self._disturb()
        self.is_cut = True
        self.network.set_link(self.replicas[source].address, self.replicas[target].address, link)

    def heal(self) -> None:
        """End all cuts, and make all links fast again."""
        self._disturb()
        self.is_cut = False
        addresses = [each.address for each in self.replicas.values()]
        for source in addresses:
            for target in addresses:
                self.network.heal(source, target)
                self.network.set_link(source, target, Link())
        self._go(self._run.settle)

    def reset(self, source: str, target: str) -> None:
        """Break the connections between two machines."""
        self._disturb()
        self.network.reset(self.replicas[source].address, self.replicas[target].address)
        self._go(self._run.settle)

    def forge(self, master: str, sent: bytes, *, is_new: bool) -> None:
        """Let a peer that is no slave send bytes to a master's port for slaves, on a new connection or its last one."""
        self._forged_at = trio.current_time()
        address = f"{self.replicas[master].address}:{HA_PORT}"

        async def send() -> None:
            with trio.move_on_after(1.0):
                try:
                    if is_new or not self._forged:
                        self._forged.append(await self.network.host(_FORGER).connect(address))
                    await self._forged[-1].send_all(sent)
                except (RemotingConnectError, trio.BrokenResourceError, trio.ClosedResourceError):
                    pass  # the master has closed it, or ends

        self._do(send)

    def lie(self, slave: str, frames: Callable[[int], bytes], *, seconds: float = 2.0) -> None:
        """Let a slave follow a master that claims to have the same log, and answers its first report with frames."""
        self._disturb()
        replica = self.replicas[slave]
        address = replica.addresses.master_addr

        async def pretend(stream: SimStream) -> None:
            async with stream:
                try:
                    report = await stream.receive_some(8)
                    await stream.send_all(frames(int.from_bytes(report, "big")))
                    await stream.receive_some(8)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    pass  # the slave has closed it

        async def serve() -> None:
            side = self.network.host(_LIAR)
            (for_slaves,), (for_questions,) = await side.listen(None, HA_PORT), await side.listen(None, REQUEST_PORT)
            with trio.move_on_after(seconds):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_serve_all, nursery, for_questions, _echo_once)
                    replica.follow(_LIAR)
                    for other in self.replicas.values():
                        self.network.reset(other.address, replica.address)
                    await _serve_all(nursery, for_slaves, pretend)
            self.network.end_process(_LIAR)

        self._do(serve)
        if address is not None:
            replica.follow(address.rpartition(":")[0])
        self._disturb()

    # ---- what is true once the faults are over ----------------------------------------------------------------------

    def compare_units(self) -> None:
        """Report the units of all open stores; masters first, whose units are the expected ones."""
        for name in self.masters() + self.slaves():
            self._do(partial(self._report_units, name))

    def search(self, topic: str, key: str) -> None:
        """Report what all open stores find for a key; masters first."""
        for name in self.masters() + self.slaves():
            self._do(partial(self._report_found, name, topic, key))

    def calm(self) -> None:
        """Let time pass without faults, at most CALM_SECONDS: every slave catches up, or shows an alarm."""
        self.heal()
        self.pass_time(QUIET_SECONDS)  # until every slave knows that its connection was reset
        self._go(lambda: self._run.run_until(self._has_caught_up, CALM_SECONDS))
        self.pass_time(2 * QUIET_SECONDS)
        self.is_calm = True
        for slave in self.slaves():
            master = self._master_of(slave)
            client = self.replicas[slave].client
            if master is not None and client is not None:
                file_size = self.config.mapped_file_size_commit_log
                self.model.calm(slave, master, alarm=client.statistics().alarm, file_size=file_size)
        self.compare_units()

    # ---- private: steps ---------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        async with trio.open_nursery() as nursery:
            for number, name in enumerate(self._names, 1):
                self.replicas[name] = Replica(
                    f"10.0.0.{number}", self.config, network=self.network, nursery=nursery, number=number
                )
            asked = {f"{each.address}:{REQUEST_PORT}": each.answer for each in self.replicas.values()}
            for replica in self.replicas.values():
                replica.knows({**asked, f"{_LIAR}:{REQUEST_PORT}": _always_equal})
            while True:
                await self._wake.park()
                assert self._request is not None
                request, self._request = self._request, None
                await request()

    def _do(self, action: Callable[[], Awaitable[object]]) -> None:
        """Run an action to its end."""
        done: list[bool] = []

        async def request() -> None:
            await action()
            done.append(True)

        self._request = request
        self._wake.unpark_all()
        self._go(lambda: self._run.run_until(lambda: bool(done), _STEP_SECONDS_MAX))
        assert done, f"not done in {_STEP_SECONDS_MAX} s"

    def _go(self, step: Callable[[], object]) -> None:
        step()
        if self._run.is_over:
            self._run.result()
        self._look()
        if self._failure is not None:
            raise self._failure

    @contextmanager
    def _plain_call(self, name: str) -> Iterator[MessageStore]:
        """Around calls of a store from outside: one that fails ends its process, as in the broker, with LifeEnded."""
        store = self.replicas[name].store
        assert store is not None, f"{name} is open"
        try:
            yield store
        except (ProcessDied, StoreError) as error:
            self._require_arranged(name, error)
            self.kill(name)
            raise LifeEnded(error) from error
        self._look()
        if self._failure is not None:
            raise self._failure

    def _end(self, name: str, end: Callable[[], Awaitable[object]]) -> None:
        self._look()
        self._disturb()
        if self.replicas[name].host.is_running or name in self._without_power:
            self._do(end)
        else:
            self.replicas[name].host.disk.kill_process()
        self._look()

    def _has_caught_up(self) -> bool:
        """Whether every slave has the whole log of its master."""
        ends = {name: each.store.max_physical_offset for name, each in self.replicas.items() if each.store is not None}
        return all(
            master is not None and ends[slave] == ends[master] and self._is_following(slave)
            for slave in self.slaves()
            for master in [self._master_of(slave)]
        )

    def _is_following(self, slave: str) -> bool:
        client = self.replicas[slave].client
        return client is not None and client.statistics().state is HAState.FOLLOWING

    def _disturb(self) -> None:
        self.is_calm = False
        self._disturbed_at = trio.current_time()

    def _require_arranged(self, name: str, failure: BaseException | None, *, is_start: bool = False) -> None:
        """Raise what has ended a life, unless it was arranged. A full disk may end nothing but a start."""
        is_arranged = (
            failure is None
            or isinstance(failure, ProcessDied)
            or (name in self._failing and "simulated failure" in str(failure))
            or (is_start and name in self.faulty and isinstance(failure, DiskFullError))
        )
        if not is_arranged:
            raise AssertionError(f"{name} has ended: {failure!r}") from failure

    # ---- private: what is shown -------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Report what every open store shows now."""
        try:
            for name, replica in sorted(self.replicas.items(), key=lambda each: each[1].is_slave):
                self._look_at(name, replica)  # masters first: a slave may have what they have just written
            for slave in self.slaves():
                master = self._master_of(slave)
                if master is not None and self._surely_follows(slave, master):
                    self.model.follows(slave, master)
            for master in self.masters():
                self._report_claims(master)
        except ReplicationBroken as broken:
            self._failure = self._failure or broken

    def _look_at(self, name: str, replica: Replica) -> None:
        life, end = self._shown.get(name, (0, -1))
        if name in self._shown and (not replica.is_open or replica.life_count != life):
            del self._shown[name]
            if not (replica.is_open and replica.is_slave):
                self._gone_at[name] = trio.current_time()
            self.model.died(name)
            self._disturb()
            if not replica.host.is_running:
                self._require_arranged(name, replica.host.failure)
                self._failing.discard(name)
                self.model.left(name, replica.left())
                self._waits = [wait for wait in self._waits if wait.master != name]
        while replica.cut_offsets:
            self.model.was_cut(name, replica.cut_offsets.pop(0))
        store = replica.store
        if store is None:
            return
        is_new = name not in self._shown
        if is_new or store.max_physical_offset != end:
            try:
                shown = replica.shown()
            except ProcessDied:
                return  # it is about to end
            self._shown[name] = (replica.life_count, shown.end_offset)
            if is_new:
                self.model.opened(name, shown, is_master=not replica.is_slave)
            else:
                self.model.shows(name, shown)
        assert replica.durable_end >= 0

    def _report_claims(self, master: str) -> None:
        store = self.replicas[master].store
        assert store is not None, "a master that is open"
        for progress in store.ha_service.slaves():
            self.model.claims(
                master,
                acknowledged=max(0, progress.acknowledged_offset),
                sent=max(0, progress.sent_offset),
                end_offset=store.max_physical_offset,
            )

    async def _report_units(self, name: str) -> None:
        store = self.replicas[name].store
        if store is None:
            return
        queues: dict[tuple[str, int], dict[int, Unit]] = {}
        for topic, queue_id in store.queues():
            units = queues[topic, queue_id] = {}
            queue_offset = store.min_offset_in_queue(topic, queue_id)
            while queue_offset < store.max_offset_in_queue(topic, queue_id):
                listing = await store.list_units(topic, queue_id, queue_offset, 1000)
                if listing is None or not listing.units:
                    break
                for each in listing.units:
                    units[queue_offset] = Unit(each.physical_offset, each.size, each.tags_code)
                    queue_offset += 1
        self._look()
        self._report(lambda: self.model.units(name, queues))

    async def _report_found(self, name: str, topic: str, key: str) -> None:
        store = self.replicas[name].store
        if store is None or store.index_behind or self.faulty:
            return
        result = await store.query_message(topic, key, 10_000, 0, 1 << 62)
        offsets = {each.physical_offset for each in decode_messages(result.body)}
        self._look()
        self._report(lambda: self.model.finds(name, topic, key, offsets))

    def _report(self, event: Callable[[], None]) -> None:
        """Tell the model, from within the run, which nothing that it raises may end."""
        try:
            event()
        except ReplicationBroken as broken:
            self._failure = self._failure or broken

    # ---- private: producers that wait -------------------------------------------------------------------------------

    @property
    def _timeout_s(self) -> float:
        return self.config.slave_timeout / 1000

    @property
    def _forgotten_after_s(self) -> float:
        """How long a master may count a slave that is gone."""
        return self.config.ha_housekeeping_interval / 1000 + QUIET_SECONDS

    def _wait(self, master: str, store: MessageStore, begin_offset: int, *, is_new: bool = True) -> None:
        """Wait for what was put from an offset on.

        No slave needs to acknowledge what is not new: its request says that it has it, which proves nothing.
        """
        if not store.waits_for_storing:
            return
        followers = {
            slave: client.statistics().connect_count
            for slave in self.slaves()
            if is_new and (client := self.replicas[slave].client) is not None and self._surely_follows(slave, master)
        }
        wait = _Wait(
            master, begin_offset, store.wrote_offset, trio.current_time(), self._may_have_slave(master), followers
        )
        self._waits.append(wait)
        store.wait_stored(store.wrote_offset, lambda status: self._answered(wait, status))

    def _answered(self, wait: _Wait, status: PutMessageStatus) -> None:
        self._waits.remove(wait)
        self.answers.append(status)
        replica = self.replicas[wait.master]
        if replica.role is not BrokerRole.SYNC_MASTER:
            return  # it says nothing about slaves
        self._look()
        answer = Answer(
            master=wait.master,
            begin_offset=wait.begin_offset,
            end_offset=wait.end_offset,
            status=status,
            waited_s=trio.current_time() - wait.began_at,
            timeout_s=self._timeout_s,
            live_slaves=self._live_slaves(wait.master),
            may_have_slave=wait.may_have_slave,
            surely_has_slave=self._has_surely_followed(wait),
            durable_end=replica.durable_end if self.config.is_sync_flush else None,
        )
        self._report(lambda: self.model.answered(answer))

    def _live_slaves(self, master: str) -> list[str]:
        """Return the other machines whose slave processes run, or whose last reports may still be under way."""
        now = trio.current_time()
        return [
            name
            for name, replica in self.replicas.items()
            if name != master
            and name not in self._without_power
            and (
                (replica.is_open and replica.is_slave) or now - self._gone_at.get(name, -1e9) < self._forgotten_after_s
            )
        ]

    def _may_have_slave(self, master: str) -> bool:
        """Whether the master may count some connection as a slave's."""
        now = trio.current_time()
        last_seen = [now] * len(self.slaves()) + [self._forged_at, *self._gone_at.values()]
        return now - max(last_seen) < self._forgotten_after_s

    def _surely_follows(self, slave: str, master: str) -> bool:
        """Whether a slave follows a master now, undisturbed, so that the master knows it."""
        return (
            trio.current_time() - self._disturbed_at > QUIET_SECONDS
            and not self.is_cut
            and self._is_following(slave)
            and self._master_of(slave) == master
            and not self.faulty
        )

    def _has_surely_followed(self, wait: _Wait) -> bool:
        """Whether one of the slaves has followed, undisturbed, since a wait began."""
        return any(
            self._surely_follows(slave, wait.master)
            and self._disturbed_at < wait.began_at
            and (client := self.replicas[slave].client) is not None
            and client.statistics().connect_count == count
            for slave, count in wait.followers.items()
        )

    def _master_of(self, slave: str) -> str | None:
        """Return the open master that a slave follows, or else is to follow: a new address counts for the next try."""
        replica = self.replicas[slave]
        address = replica.addresses.ha_server_addr
        if replica.client is not None and self._is_following(slave):
            address = replica.client.statistics().master_address
        return next((name for name in self.masters() if f"{self.replicas[name].address}:{HA_PORT}" == address), None)


async def _always_equal(request: RemotingCommand) -> RemotingCommand:
    """Claim to have every record that is asked for."""
    return make_response(request, header=CompareRecordResponseHeader(record_is_equal=True))


async def _serve_all(nursery: trio.Nursery, listener: object, serve: Callable[[SimStream], Awaitable[None]]) -> None:
    while True:
        stream, _ = await listener.accept()  # type: ignore[attr-defined]
        nursery.start_soon(serve, stream)


async def _echo_once(stream: SimStream) -> None:
    async with stream:
        try:
            await stream.send_all(await stream.receive_some(1))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


def _properties(keys: Sequence[str], tags: str, delay_level: int) -> bytes:
    properties = {PROPERTY_KEYS: " ".join(keys), PROPERTY_TAGS: tags}
    if delay_level:
        properties[PROPERTY_DELAY_TIME_LEVEL] = str(delay_level)
    return encode_properties({name: value for name, value in properties.items() if value}).encode()
