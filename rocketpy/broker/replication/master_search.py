"""Search of a slave for its master: when the next answer of a nameserver is needed soon.

A master that is restarted elsewhere has another address. The slave notices only that its connection has ended, and the
next periodic registration, whose answer has the new address, is half a minute away. So the search goes on until the log
is followed. A slave that has stopped, because the logs differ, waits for a person instead.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketpy.broker.replication.master_addresses import MasterAddresses
from rocketpy.store.ha.client import HAClientStatistics, HAState


class MasterSearch:
    """Passes the answers on to the addresses; see :class:`rocketpy.broker.metadata.registration.MasterSearch`."""

    def __init__(self, addresses: MasterAddresses, *, statistics: Callable[[], HAClientStatistics]) -> None:
        self._addresses = addresses
        self._statistics = statistics
        self.take = addresses.take

    @property
    def is_complete(self) -> bool:
        """Whether both addresses are known, and the log is followed or cannot be."""
        is_settled = self._statistics().state in (HAState.FOLLOWING, HAState.STOPPED)
        return is_settled and self._addresses.is_complete
