"""The machines of a pair and their network: which stores are open, who follows whom, and what disturbs them.

Nothing here moves anything: the driver calls, the observer asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import trio

from rocketpy.errors import DiskFullError
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.query import CompareRecordResponseHeader
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.ha.client import HAState
from rocketpy.testing.replica import HA_PORT, REQUEST_PORT, Replica
from rocketpy.testing.sim.disk import ProcessDied
from rocketpy.testing.sim.network import SimNetwork

QUIET_SECONDS = 1.0
"""After a disturbance: longer than it takes until both sides know of it, if they can."""

UNLIMITED_BYTES = 1 << 50
LIAR = "10.0.0.77"
"""The machine of a peer that pretends to be a master."""


class Machines:
    """All machines by their names, in any state. ``config`` is that of each first life."""

    def __init__(self, config: MessageStoreConfig, names: Sequence[str]) -> None:
        self.config = config
        self.network = SimNetwork(randomness=Random(0))
        self.replicas: dict[str, Replica] = {}
        self.without_power: dict[str, float] = {}
        """Since when; of machines that have not been started again."""
        self.failing: set[str] = set()
        """Those with a call of their disk that is to fail."""
        self.is_cut = False
        """Whether a link is cut, or slow."""
        self.is_calm = False
        """Whether nothing has been disturbed since the faults were over."""
        self.disturbed_at = 0.0
        self._names = names

    def __getitem__(self, name: str) -> Replica:
        return self.replicas[name]

    def create(self, nursery: trio.Nursery) -> None:
        """Make the machines; their processes run in the nursery."""
        for number, name in enumerate(self._names, 1):
            address = f"10.0.0.{number}"
            self.replicas[name] = Replica(address, self.config, network=self.network, nursery=nursery, number=number)
        asked = {f"{each.address}:{REQUEST_PORT}": each.answer for each in self.replicas.values()}
        for replica in self.replicas.values():
            replica.knows({**asked, f"{LIAR}:{REQUEST_PORT}": _always_equal})

    # ---- which are open -------------------------------------------------------------------------------------------

    def masters(self) -> list[str]:
        """Return the open stores that are masters."""
        return [name for name, each in self.replicas.items() if each.is_open and not each.is_slave]

    def slaves(self) -> list[str]:
        """Return the open stores that are slaves."""
        return [name for name, each in self.replicas.items() if each.is_open and each.is_slave]

    # ---- who follows whom -----------------------------------------------------------------------------------------

    def master_of(self, slave: str) -> str | None:
        """Return the open master that a slave follows, or else is to follow: a new address counts for the next try."""
        replica = self.replicas[slave]
        address = replica.addresses.ha_server_addr
        if replica.client is not None and self._is_following(slave):
            address = replica.client.statistics().master_address
        return next((name for name in self.masters() if f"{self.replicas[name].address}:{HA_PORT}" == address), None)

    def surely_follows(self, slave: str, master: str) -> bool:
        """Whether a slave follows a master now, undisturbed, so that the master knows it."""
        return (
            trio.current_time() - self.disturbed_at > QUIET_SECONDS
            and not self.is_cut
            and self._is_following(slave)
            and self.master_of(slave) == master
            and not self.faulty
        )

    def has_caught_up(self) -> bool:
        """Whether every slave has the whole log of its master."""
        ends = {name: each.store.max_physical_offset for name, each in self.replicas.items() if each.store is not None}
        return all(
            master is not None and ends[slave] == ends[master] and self._is_following(slave)
            for slave in self.slaves()
            for master in [self.master_of(slave)]
        )

    # ---- faults ---------------------------------------------------------------------------------------------------

    @property
    def faulty(self) -> set[str]:
        """The machines whose disks are full, or have a call that is to fail."""
        return {
            name
            for name, each in self.replicas.items()
            if name in self.failing or each.host.disk.capacity_bytes < UNLIMITED_BYTES
        }

    def disturb(self) -> None:
        """Note that something has happened of which not every machine knows yet."""
        self.is_calm = False
        self.disturbed_at = trio.current_time()

    def require_arranged(self, name: str, failure: BaseException | None, *, is_start: bool = False) -> None:
        """Raise what has ended a life, unless it was arranged. A full disk may end nothing but a start."""
        is_arranged = (
            failure is None
            or isinstance(failure, ProcessDied)
            or (name in self.failing and "simulated failure" in str(failure))
            or (is_start and name in self.faulty and isinstance(failure, DiskFullError))
        )
        if not is_arranged:
            raise AssertionError(f"{name} has ended: {failure!r}") from failure

    def _is_following(self, slave: str) -> bool:
        client = self.replicas[slave].client
        return client is not None and client.statistics().state is HAState.FOLLOWING


async def _always_equal(request: RemotingCommand) -> RemotingCommand:
    """Claim to have every record that is asked for."""
    return make_response(request, header=CompareRecordResponseHeader(record_is_equal=True))
