"""The two addresses of a slave's master: one for requests, one for replication.

Both are in the answers of nameservers to this broker's registrations. Nameservers may disagree for up to two minutes,
until the entry of a master that has vanished expires. The one whose answer changed last knows more than the others, so
the most recent change counts. A nameserver that knows no master counts only when no other one knows any.

Rules, as in RocketMQ: without a known master there is no address for requests, while the address for replication
stays; ``haMasterAddress`` replaces the address for replication, never that for requests.

Compatibility: ``BrokerController.doRegisterBrokerAll`` and ``DefaultMessageStore`` (4.9.8). RocketMQ takes the answer
of the nameserver that was first in each round.
"""

from __future__ import annotations

import logging

import attrs
import trio

from rocketpy.errors import RemotingConnectError
from rocketpy.log_files import event_fields
from rocketpy.remoting.network import split_address

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen
class _Answer:
    master_addr: str | None = None
    ha_server_addr: str | None = None

    @property
    def is_well_formed(self) -> bool:
        try:
            for address in filter(None, (self.master_addr, self.ha_server_addr)):
                split_address(address)
        except RemotingConnectError:
            return False
        return True


class MasterAddresses:
    """The addresses of the master, as HOST:PORT, or None while they are not known."""

    def __init__(self, *, own_addr: str, ha_master_address: str | None = None) -> None:
        """``own_addr`` is the address that this broker registers; a master with it is an entry of an earlier run.

        ``ha_master_address`` is the configured one, which counts whatever is answered.
        """
        self._own_addr = own_addr
        self._configured = ha_master_address
        # By nameserver: its answer, as it came. The one that changed last is the last one.
        self._answers: dict[str, _Answer] = {}
        self._master_addr: str | None = None
        self._ha_server_addr: str | None = None
        self._changed = trio.Event()

    @property
    def master_addr(self) -> str | None:
        """The master's address for requests."""
        return self._master_addr

    @property
    def ha_server_addr(self) -> str | None:
        """The address to replicate from."""
        return self._configured or self._ha_server_addr

    @property
    def registered_ha_server_addr(self) -> str | None:
        """The address for replication in the nameservers' answers, also while ``haMasterAddress`` replaces it."""
        return self._ha_server_addr

    @property
    def is_complete(self) -> bool:
        """Whether both are known; registering again may complete them."""
        return self.master_addr is not None and self.ha_server_addr is not None

    def take(self, nameserver: str, master_addr: str | None, ha_server_addr: str | None) -> None:
        """Take both addresses of a nameserver's answer to a registration; None or "" for a master it does not know."""
        answer = _Answer(master_addr, ha_server_addr)
        if answer == self._answers.get(nameserver):
            return
        if not answer.is_well_formed:
            fields = event_fields(nameserver=nameserver, masterAddr=master_addr, haServerAddr=ha_server_addr)
            _log.warning("a nameserver answered with a malformed address of the master", extra=fields)
        self._answers.pop(nameserver, None)
        self._answers[nameserver] = answer
        known = [each for each in self._answers.values() if self._names_a_master(each)]
        self._set(known[-1] if known else _Answer())

    async def wait_changed(self) -> None:
        """Return after the next change of one of them."""
        await self._changed.wait()

    def _names_a_master(self, answer: _Answer) -> bool:
        return bool(answer.master_addr) and answer.master_addr != self._own_addr and answer.is_well_formed

    def _set(self, answer: _Answer) -> None:
        before = (self.master_addr, self.ha_server_addr)
        self._master_addr = answer.master_addr
        self._ha_server_addr = answer.ha_server_addr or self._ha_server_addr
        if (self.master_addr, self.ha_server_addr) == before:
            return
        _log.info(
            "the master's addresses have changed",
            extra=event_fields(masterAddr=self.master_addr, haServerAddr=self.ha_server_addr),
        )
        self._changed.set()
        self._changed = trio.Event()
