"""The faults of a cluster's history, each of which ends by itself.

Rule: a broker is down by one fault at a time. A fault that finds it down, or kept down by another one, does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import trio

from property_tests.cluster_offsets import set_back
from property_tests.cluster_plan import Operation
from property_tests.cluster_record import UNCOMMITTED, End, History, RoleChange, TailLoss
from rocketpy.store import layout
from rocketpy.store.config import BrokerRole
from rocketpy.testing.cluster_world import ClusterWorld, SimBroker, SimNameserver
from rocketpy.testing.sim.host import Program, SimHost, SimProcess
from rocketpy.testing.sim.network import Link

_LATER_DIRECTORY = "/store/log-9"
RESTART_SECONDS = 1.0


class Nemesis:
    """Carries out faults. The cluster enters its hosts by the names that a plan has for them."""

    def __init__(self, world: ClusterWorld, history: History) -> None:
        self.world = world
        self.history = history
        self.brokers: dict[str, SimBroker] = {}
        self.nameservers: dict[str, SimNameserver] = {}
        self.hosts: dict[str, SimHost] = {}
        self.clients: dict[str, Program] = {}
        self.serving: Callable[[str], Awaitable[None]] | None = None
        """Called with the host of a broker that has just started."""
        self._held: set[str] = set()  # hosts that a fault keeps down
        self._wiped: set[str] = set()  # names whose slave was wiped
        self._faults: dict[str, Callable[[Operation], Awaitable[None]]] = {
            "kill": partial(self._down, end=SimHost.kill),
            "stop": partial(self._down, end=SimHost.stop),
            "stop master": self._stop_master,
            "lose power": self._lose_power,
            "pause": self._pause,
            "fail sync": self._fail_sync,
            "fail write": self._fail_write,
            "fill disk": self._fill_disk,
            "delete old files": self._delete_old_files,
            "slow disk": self._slow_disk,
            "step clock": self._step_clock,
            "run clock": self._run_clock,
            "kill nameserver": self._kill_nameserver,
            "restart consumer": self._restart_client,
            "kill producer": self._restart_client,
            "reset offsets": self._reset_offsets,
            "cut": self._cut,
            "cut one way": partial(self._cut, one_way=True),
            "reset": self._reset,
            "wipe": self._wipe,
            "change roles": self._change_roles,
            "slow link": self._slow_link,
            "close port": self._close_port,
        }

    async def carry_out(self, operation: Operation) -> None:
        """Begin a fault and wait until it has ended."""
        self.history.note(f"    {operation.kind} {operation.target} {operation.value:g} {operation.seconds:g}s")
        await self._faults[operation.kind](operation)

    async def keep_running(self, name: str) -> None:
        """Start a broker again that has ended by itself, as an operator's supervisor does."""
        broker = self.brokers[name]
        while True:
            await broker.host.wait_ended()
            await trio.sleep(RESTART_SECONDS)
            if not broker.host.is_running and name not in self._held:
                self.history.note(f"{name} has ended: {broker.host.failure}")
                self._note_end(End(broker.host.ended_at, name))
                await self._start(name)

    # ---- private --------------------------------------------------------------------------------------------------

    async def _start(self, name: str) -> None:
        broker = self.brokers[name]
        if broker.host.is_running:  # the supervisor was first
            return
        if self.history.plan.moves_directories:
            self._move_directories(broker)
        started = await broker.start()
        self.history.note(f"    {name} " + ("serves" if started else f"does not start: {broker.host.failure}"))
        if started:
            self.history.starts.append((trio.current_time(), name))
        if started and self.serving is not None:
            await self.serving(name)

    def _note_loss(self, broker: str, what: str) -> None:
        self.history.losses.append(TailLoss(trio.current_time(), broker, what))

    def _note_end(self, end: End) -> None:
        self.history.ends.append(end)
        if self.history.plan.has_pool and not end.is_clean:
            self.history.losses.append(TailLoss(end.at, end.broker, UNCOMMITTED))

    def _move_directories(self, broker: SimBroker) -> None:
        """Let the first directory of a log be one that gets no new files."""
        first, *others = self.history.plan.log_directories
        disk = broker.host.disk
        if not any(disk.peek(path) for path in (first, *others, _LATER_DIRECTORY)):
            # Its disk was wiped: as at its first start.
            directories = ",".join(self.history.plan.log_directories)
            broker.change(store={"store_path_commit_log": directories, "read_only_commit_log_store_paths": None})
            return
        broker.change(
            store={
                "store_path_commit_log": ",".join([*others, _LATER_DIRECTORY]),
                "read_only_commit_log_store_paths": first,
            }
        )

    async def _down(self, operation: Operation, *, end: Callable[[SimHost], Awaitable[None]]) -> None:
        name, host = operation.target, self.hosts[operation.target]
        if not host.is_running or name in self._held:
            return
        self._held.add(name)
        at = began_at = trio.current_time()
        self.note_begins()
        await end(host)
        is_stop = end is SimHost.stop  # which still answers what had come before
        is_clean = is_stop and host.failure is None
        at = trio.current_time() if is_stop else at
        self._note_end(
            End(
                at,
                name,
                is_clean=is_clean,
                is_wiped=end is _kill_and_wipe,
                stopping_since=began_at if is_stop else None,
            )
        )
        await trio.sleep(operation.seconds)
        self._held.discard(name)
        await self._start(name)

    async def _lose_power(self, operation: Operation) -> None:
        if self.hosts[operation.target].is_running and operation.target not in self._held:
            self._note_loss(operation.target, operation.kind)
        await self._down(operation, end=SimHost.lose_power)

    async def _wipe(self, operation: Operation) -> None:
        """Wipe the slave, whichever host that is by now: without a slave that has it, a wiped log is lost."""
        _, slave, *_ = self.roles(operation.target.partition("/")[0])
        self.note_cut_tails()
        self._wiped.add(operation.target.partition("/")[0])
        self._note_loss(slave, operation.kind)
        await self._down(attrs.evolve(operation, target=slave), end=_kill_and_wipe)

    async def _stop_master(self, operation: Operation) -> None:
        """Restart the master in order, whichever host that is by now."""
        await self._down(attrs.evolve(operation, target=self.roles(operation.target)[0]), end=SimHost.stop)

    async def _change_roles(self, operation: Operation) -> None:
        """End master and slaves; the slave comes back as the master, and the old master as its slave.

        Of several slaves that is the one with the longest log, of those without an alarm, as operators are told.
        A slave that was wiped is not promoted: it began with the last file of its master's log.
        """
        name = operation.target
        pair = sorted(self.history.plan.hosts_of(name))
        if not all(self.hosts[each].is_running for each in pair) or self._held & set(pair) or name in self._wiped:
            return
        self._held |= set(pair)
        self.note_begins()
        for each in pair:
            self._note_end(End(trio.current_time(), each))
            await self.hosts[each].kill()  # which waits for calls of a slow disk; the other one serves meanwhile
        old, *slaves = self.roles(name)
        ours = self.brokers[old].log
        # One whose log has parted from its master's stands with an alarm: it is taken only if there is no other one.
        slave = max(
            slaves,
            key=lambda each: (self.brokers[each].log.parts_from(ours) is None, self.brokers[each].log.end_offset),
        )
        now, log = trio.current_time(), self.brokers[slave].log
        has_most = log.end_offset == max(self.brokers[each].log.end_offset for each in slaves)
        self.history.changes.append(RoleChange(now, name, slave, log, _deletions_on(self.brokers[slave]), has_most))
        first, second = self.brokers[old], self.brokers[slave]
        roles = [(each.settings.broker.broker_id, each.settings.store.broker_role) for each in (second, first)]
        for broker, (broker_id, role) in zip((first, second), roles, strict=True):
            broker.change(broker={"broker_id": broker_id}, store={"broker_role": role})
        await trio.sleep(operation.seconds)
        self._held -= set(pair)
        for each in pair:
            await self._start(each)

    def roles(self, name: str) -> list[str]:
        """Return the hosts that are master and slaves of a broker's name, the master first."""
        pair = [each for each in self.brokers if each.partition("/")[0] == name]
        pair.sort(key=lambda each: self.brokers[each].settings.store.broker_role is BrokerRole.SLAVE)
        return pair

    async def _pause(self, operation: Operation) -> None:
        host = self.hosts[operation.target]
        if host.is_running:
            host.pause()
            await trio.sleep(operation.seconds)
            host.resume()

    async def _fail_sync(self, operation: Operation) -> None:
        if self.brokers[operation.target].host.is_running:
            self._note_loss(operation.target, operation.kind)
            self.hosts[operation.target].disk.fail_call("sync")

    async def _fail_write(self, operation: Operation) -> None:
        if self.brokers[operation.target].host.is_running:
            self.hosts[operation.target].disk.fail_call("write")

    async def _fill_disk(self, operation: Operation) -> None:
        disk = self.hosts[operation.target].disk
        unlimited, disk.capacity_bytes = disk.capacity_bytes, disk.used_bytes("/") + int(operation.value)
        await trio.sleep(operation.seconds)
        disk.capacity_bytes = max(unlimited, disk.capacity_bytes)
        self.note_begins()

    async def _delete_old_files(self, operation: Operation) -> None:
        """Let the disk be so full for a while that old files of the log go, as ``diskSpaceCleanForciblyRatio`` says."""
        disk = self.hosts[operation.target].disk
        unlimited, disk.capacity_bytes = disk.capacity_bytes, int(disk.used_bytes("/") / operation.value)
        await trio.sleep(operation.seconds)
        disk.capacity_bytes = max(unlimited, disk.capacity_bytes)
        self.note_begins()

    def note_cut_tails(self) -> None:
        """Note which brokers have cut their tails: a copy is on the disk until that is wiped."""
        for name, broker in self.brokers.items():
            root = broker.settings.store.store_path_root_dir
            if broker.host.disk.list_directory(f"{root}/{layout.DIVERGED_DIRECTORY}"):
                self.history.cut_tails.add(name)

    def note_begins(self) -> None:
        """Note where the logs of the masters begin: groups may have been sent on to there."""
        skipped = self.history.skipped_before
        for name in self.history.plan.masters:
            begin_offset = self.brokers[self.roles(name)[0]].log.begin_offset
            skipped[name] = max(skipped.get(name, 0), begin_offset)

    async def _slow_disk(self, operation: Operation) -> None:
        host = self.hosts[operation.target]
        host.disk_delay_s = operation.value
        await trio.sleep(operation.seconds)
        host.disk_delay_s = self.history.plan.disk_delay_s

    async def _step_clock(self, operation: Operation) -> None:
        self._note_step(operation.target, operation.value)
        self.hosts[operation.target].clock.advance_ms(int(operation.value))

    async def _run_clock(self, operation: Operation) -> None:
        clock = self.hosts[operation.target].clock
        self._note_step(operation.target, (operation.value - 1) * operation.seconds * 1000)
        clock.set_rate(operation.value)
        await trio.sleep(operation.seconds)
        clock.set_rate(1.0)

    def _note_step(self, name: str, step_ms: float) -> None:
        self.history.clock_steps.append((trio.current_time(), name, int(step_ms)))

    async def _kill_nameserver(self, operation: Operation) -> None:
        nameserver = self.nameservers[operation.target]
        if nameserver.host.is_running:
            await nameserver.host.kill()
            await trio.sleep(operation.seconds)
            await nameserver.start()

    async def _restart_client(self, operation: Operation) -> None:
        await self._client_down(operation)

    async def _reset_offsets(self, operation: Operation) -> None:
        """Set a group back by some seconds while its consumer is away."""
        back_ms = int(operation.value * 1000)
        await self._client_down(operation, partial(set_back, self.world, self.history, operation.target, back_ms))

    async def _client_down(
        self, operation: Operation, meanwhile: Callable[[SimProcess], Awaitable[None]] | None = None
    ) -> None:
        name, host = operation.target, self.hosts[operation.target]
        if not host.is_running or name in self._held:
            return
        self._held.add(name)
        await host.kill()
        if meanwhile is not None:
            await self.world.run_client(meanwhile)
        await trio.sleep(operation.seconds)
        self._held.discard(name)
        await host.start(self.clients[name])

    async def _cut(self, operation: Operation, *, one_way: bool = False) -> None:
        ends = self._ends(operation)
        self.world.network.cut(*ends, one_way=one_way)
        await trio.sleep(operation.seconds)
        self.world.network.heal(*ends)

    async def _reset(self, operation: Operation) -> None:
        self.world.network.reset(*self._ends(operation))

    async def _close_port(self, operation: Operation) -> None:
        """Close the port for slaves of both hosts of a name, so that tables and clients go on without the log."""
        ports = [
            f"{broker.host.address}:{broker.settings.store.ha_listen_port}"
            for name, broker in self.brokers.items()
            if name.partition("/")[0] == operation.target
        ]
        for each in ports:
            self.world.network.close_port(each)
        await trio.sleep(operation.seconds)
        for each in ports:
            self.world.network.open_port(each)

    async def _slow_link(self, operation: Operation) -> None:
        ends = self._ends(operation)
        self.world.network.set_link(*ends, Link(delay_s=operation.value, jitter_s=operation.value))
        await trio.sleep(operation.seconds)
        self.world.network.set_link(*ends, Link())

    def _ends(self, operation: Operation) -> tuple[str, str]:
        first, second = operation.target.split(">")
        return self.hosts[first].address, self.hosts[second].address


def _deletions_on(broker: SimBroker) -> frozenset[str]:
    """Return the topics that are noted as deleted on the disk of a broker."""
    file = broker.host.disk.peek(f"{broker.settings.store.store_path_root_dir}/config").get("deletedTopics.json", b"{}")
    return frozenset(json.loads(file or b"{}").get("deletedTopics", {}))


async def _kill_and_wipe(host: SimHost) -> None:
    await host.kill()
    host.wipe()
