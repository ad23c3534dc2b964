"""What the stores of a pair show: reported to the model when it happens, by looking at them after each step.

A broken invariant is found within the run, whose tasks it must not end: it is kept for the driver to raise.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.message_store import MessageStore
from rocketpy.testing.pair.machines import Machines
from rocketpy.testing.replica import Replica
from rocketpy.testing.replication_model import ReplicationBroken, ReplicationModel, Unit
from rocketpy.testing.sim.disk import ProcessDied

FOUND_MAX = 10_000


class Observer:
    """Looks at the machines for the model. ``ended`` is called with the name of each store that is gone."""

    def __init__(self, machines: Machines, model: ReplicationModel, *, ended: Callable[[str], None]) -> None:
        self.gone_at: dict[str, float] = {}
        """When a store was last a running slave; of stores that are none."""
        self._machines = machines
        self._model = model
        self._ended = ended
        self._shown: dict[str, tuple[int, int]] = {}  # of each open store: its life, and the end of its log
        self._connections: dict[str, tuple[float, int]] = {}
        """Of each slave that surely followed: when something was last disturbed then, and its number of connections."""
        self._failure: ReplicationBroken | None = None

    def look(self) -> None:
        """Report what every open store shows now."""
        try:
            for name, replica in sorted(self._machines.replicas.items(), key=lambda each: each[1].is_slave):
                self._look_at(name, replica)  # masters first: a slave may have what they have just written
            for slave in self._machines.slaves():
                self._look_at_connection(slave)
                master = self._machines.master_of(slave)
                if master is not None and self._machines.surely_follows(slave, master):
                    self._model.follows(slave, master)
            for master in self._machines.masters():
                self._report_claims(master)
        except ReplicationBroken as broken:
            self._failure = self._failure or broken

    def look_and_raise(self) -> None:
        """Report what every open store shows now; raise the first invariant that is broken, ReplicationBroken."""
        self.look()
        if self._failure is not None:
            raise self._failure

    def report(self, event: Callable[[], None]) -> None:
        """Call the model from within the run, which nothing that it raises may end."""
        try:
            event()
        except ReplicationBroken as broken:
            self._failure = self._failure or broken

    async def report_units(self, name: str) -> None:
        """Report the units of all queues of a store, unless it is closed."""
        store = self._machines[name].store
        if store is None:
            return
        try:
            queues = await _units(store)
        except ProcessDied:
            return  # it is about to end
        self.look()
        self.report(lambda: self._model.units(name, queues))

    async def report_found(self, name: str, topic: str, key: str) -> None:
        """Report what a store finds for a key, unless it is closed, or its index is behind."""
        store = self._machines[name].store
        if store is None or store.index_behind or self._machines.faulty:
            return
        try:
            result = await store.query_message(topic, key, FOUND_MAX, 0, 1 << 62)
        except ProcessDied:
            return  # it is about to end
        offsets = {each.physical_offset for each in decode_messages(result.body)}
        self.look()
        self.report(lambda: self._model.finds(name, topic, key, offsets))

    # ---- private --------------------------------------------------------------------------------------------------

    def _look_at(self, name: str, replica: Replica) -> None:
        life, end = self._shown.get(name, (0, -1))
        if name in self._shown and (not replica.is_open or replica.life_count != life):
            self._note_end(name, replica)
        while replica.cut_offsets:
            self._model.was_cut(name, replica.cut_offsets.pop(0))
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
                self._model.opened(name, shown, is_master=not replica.is_slave)
            else:
                self._model.shows(name, shown)
        assert replica.durable_end >= 0

    def _note_end(self, name: str, replica: Replica) -> None:
        del self._shown[name]
        if not (replica.is_open and replica.is_slave):
            self.gone_at[name] = trio.current_time()
        self._model.died(name)
        self._machines.disturb()
        if not replica.host.is_running:
            self._machines.require_arranged(name, replica.host.failure)
            self._machines.failing.discard(name)
            self._model.left(name, replica.left())
            self._ended(name)

    def _look_at_connection(self, slave: str) -> None:
        machines, client = self._machines, self._machines[slave].client
        if client is None or machines.is_cut or machines.faulty:
            self._connections.pop(slave, None)
            return
        count = client.statistics().connect_count
        disturbed_at, count_before = self._connections.get(slave, (-1.0, count))
        if disturbed_at == machines.disturbed_at and count != count_before:
            self._model.connects_again(slave)
        master = machines.master_of(slave)
        if master is not None and machines.surely_follows(slave, master):
            self._connections[slave] = machines.disturbed_at, count

    def _report_claims(self, master: str) -> None:
        store = self._machines[master].store
        assert store is not None, "a master that is open"
        for progress in store.ha_service.slaves():
            self._model.claims(
                master,
                acknowledged=max(0, progress.acknowledged_offset),
                sent=max(0, progress.sent_offset),
                end_offset=store.max_physical_offset,
            )


async def _units(store: MessageStore) -> dict[tuple[str, int], dict[int, Unit]]:
    """Return the units of all queues, by queue and queue offset."""
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
    return queues
