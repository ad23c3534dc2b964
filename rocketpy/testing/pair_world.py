"""Deterministic simulation of replicating stores: faults of machines and network are plain calls.

Each :class:`~rocketpy.testing.replica.Replica` is a real store with the product's own replication around it, on a
machine of its own, over one simulated network, in virtual time. Between two calls of :class:`PairWorld` nothing moves.
What a store shows and what a producer is answered is reported to the
:class:`~rocketpy.testing.replication_model.ReplicationModel` at the moment when it happens; an invariant that is broken
there is raised by the call in which it happened.

::

    with PairWorld(config) as world:
        world.start("a", BrokerRole.SYNC_MASTER); world.start("b", BrokerRole.SLAVE); world.follow("a")
        world.producers.put("a", "T", 0, b"body"); world.producers.end_burst("a")
        world.pass_time(5); world.cut("a", "b"); world.lose_power("a", choose)
        world.calm()                              no fault is left: data or an alarm

A life ends by :meth:`PairWorld.stop`, :meth:`PairWorld.kill` or :meth:`PairWorld.lose_power`, or in a disk call for
which that was arranged. A store that fails otherwise than by an arranged fault raises what ended it.

Only one world of a thread may be open at a time, and none inside a Trio run: see ``stepped_run``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Self

import trio

from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.testing.pair.disks import Disks
from rocketpy.testing.pair.impostors import Impostors
from rocketpy.testing.pair.machines import QUIET_SECONDS, Machines
from rocketpy.testing.pair.observer import Observer
from rocketpy.testing.pair.producers import Producers
from rocketpy.testing.pair.steps import Steps
from rocketpy.testing.replica import Replica
from rocketpy.testing.replication_model import ReplicationModel
from rocketpy.testing.sim.choices import Choose
from rocketpy.testing.sim.network import Link

CALM_SECONDS = 30.0
"""Longer than a slave needs for its next attempts, a comparison, and a cut."""

_RETURNS_AFTER_SECONDS = 0.01
"""Longer than an answer takes on the usual link, and far less than any timeout."""


class PairWorld:
    """Two or more machines, the network between them, and the model that they are held against.

    What may happen to disks is in ``disks``, what producers do in ``producers``, foreign peers are ``impostors``.
    """

    def __init__(self, config: MessageStoreConfig, *, names: Sequence[str] = ("a", "b")) -> None:
        self.model = ReplicationModel()
        self.machines = Machines(config, names)
        self._observer = Observer(self.machines, self.model, ended=lambda name: self.producers.forget(name))
        self._steps = Steps(begin=self.machines.create, look=self._observer.look_and_raise)
        self.disks = Disks(self.machines)
        self.impostors = Impostors(self.machines, self._steps, before=self.end_bursts)
        self.producers = Producers(
            self.machines,
            self.model,
            self._observer,
            forged_at=lambda: self.impostors.forged_at,
            kill=self.kill,
        )

    def __enter__(self) -> Self:
        self._steps.open()
        return self

    def __exit__(self, *_: object) -> None:
        """End everything, whatever happened."""
        self._steps.close()

    # ---- what there is ----------------------------------------------------------------------------------------------

    @property
    def replicas(self) -> dict[str, Replica]:
        """All machines."""
        return self.machines.replicas

    @property
    def faulty(self) -> set[str]:
        """The machines whose disks are full, or have a call that is to fail."""
        return self.machines.faulty

    @property
    def is_calm(self) -> bool:
        """Whether nothing has been disturbed since :meth:`calm`."""
        return self.machines.is_calm

    def replica(self, name: str) -> Replica:
        """Return a machine."""
        return self.machines[name]

    def is_open(self, name: str) -> bool:
        """Whether a store is open."""
        return self.machines[name].is_open

    def masters(self) -> list[str]:
        """Return the open stores that are masters."""
        return self.machines.masters()

    def slaves(self) -> list[str]:
        """Return the open stores that are slaves."""
        return self.machines.slaves()

    # ---- lives ------------------------------------------------------------------------------------------------------

    def start(self, name: str, role: BrokerRole) -> bool:
        """Begin a life in a role; return whether the store is open. It is not after an arranged fault."""
        self.end_bursts()
        replica = self.machines[name]
        replica.role = role
        self.machines.without_power.pop(name, None)
        self.machines.disturb()
        self._steps.do(lambda: replica.host.start(replica.run))
        if not replica.is_open:
            self.machines.require_arranged(name, replica.host.failure, is_start=True)
        return replica.is_open

    def stop(self, name: str) -> None:
        """End a life in order."""
        self._end(name, self.machines[name].host.stop)

    def kill(self, name: str) -> None:
        """End a process; it may have ended before."""
        self._end(name, self.machines[name].host.kill)

    def lose_power(self, name: str, choose: Choose) -> None:
        """End a machine; ``choose`` says what its disk has of what was not synced."""
        replica = self.machines[name]
        durable_end = replica.durable_end
        self.machines.without_power[name] = trio.current_time()
        self._end(name, lambda: replica.host.lose_power(choose))
        self.model.died(name, durable_end=durable_end)

    def wipe(self, name: str) -> None:
        """Replace a machine by one with an empty disk."""
        replica = self.machines[name]
        self.lose_power(name, lambda count: 0)
        replica.host.wipe()
        replica.last_durable_end = 0
        self.model.wiped(name)

    def follow(self, master: str) -> None:
        """Let all other machines follow a master, now or when they are slaves."""
        self.machines.disturb()
        for name, replica in self.replicas.items():
            if name != master:
                replica.follow(self.machines[master].address)

    # ---- time and network -------------------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """End all bursts, and let time pass."""
        self.end_bursts()
        self._steps.pass_time(seconds)
        self.producers.check_waits()

    def end_bursts(self) -> None:
        """End the bursts of all masters, as each does before time passes."""
        for name in self.masters():
            self.producers.end_burst(name)

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Cut the link between two machines, or one direction of it."""
        self.machines.disturb()
        self.machines.is_cut = True
        self.machines.network.cut(self.machines[source].address, self.machines[target].address, one_way=one_way)

    def slow_down(self, source: str, target: str, link: Link) -> None:
        """Set one direction of the link between two machines."""
        self.machines.disturb()
        self.machines.is_cut = True
        self.machines.network.set_link(self.machines[source].address, self.machines[target].address, link)

    def return_late(self, source: str, target: str) -> None:
        """Let calls that send from one machine to another return when the other has long answered.

        That disturbs nothing: a program is only busy. Whatever was promised holds as without it.
        """
        link = Link(returns_after_s=_RETURNS_AFTER_SECONDS)
        self.machines.network.set_link(self.machines[source].address, self.machines[target].address, link)

    def heal(self) -> None:
        """End all cuts, and make all links fast again."""
        self.end_bursts()
        self.machines.disturb()
        self.machines.is_cut = False
        addresses = [each.address for each in self.replicas.values()]
        for source in addresses:
            for target in addresses:
                self.machines.network.heal(source, target)
                self.machines.network.set_link(source, target, Link())
        self._steps.settle()

    def reset(self, source: str, target: str) -> None:
        """Break the connections between two machines."""
        self.end_bursts()
        self.machines.disturb()
        self.machines.network.reset(self.machines[source].address, self.machines[target].address)
        self._steps.settle()

    # ---- what is true once the faults are over ----------------------------------------------------------------------

    def compare_units(self) -> None:
        """Report the units of all open stores; masters first, whose units are the expected ones."""
        for name in self.masters() + self.slaves():
            self._steps.do(partial(self._observer.report_units, name))

    def search(self, topic: str, key: str) -> None:
        """Report what all open stores find for a key; masters first."""
        for name in self.masters() + self.slaves():
            self._steps.do(partial(self._observer.report_found, name, topic, key))

    def calm(self) -> None:
        """Let time pass without faults, at most CALM_SECONDS: every slave catches up, or shows an alarm."""
        self.heal()
        self.pass_time(QUIET_SECONDS)  # until every slave knows that its connection was reset
        self._steps.run_until(self.machines.has_caught_up, CALM_SECONDS)
        self.pass_time(2 * QUIET_SECONDS)
        self.machines.is_calm = True
        for slave in self.slaves():
            master = self.machines.master_of(slave)
            client = self.machines[slave].client
            if master is not None and client is not None:
                file_size = self.machines.config.mapped_file_size_commit_log
                self.model.calm(slave, master, alarm=client.statistics().alarm, file_size=file_size)
        self.compare_units()

    # ---- private ----------------------------------------------------------------------------------------------------

    def _end(self, name: str, end: Callable[[], Awaitable[object]]) -> None:
        self._observer.look()
        self.machines.disturb()
        if self.machines[name].host.is_running or name in self.machines.without_power:
            self._steps.do(end)
        else:
            self.machines[name].host.disk.kill_process()
        self._observer.look()
