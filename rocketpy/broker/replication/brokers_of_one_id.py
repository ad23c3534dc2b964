"""Search for another live broker with the name and the id of this one.

Two masters of one name both accept messages, and producers follow whichever has registered last: the messages of the
two never meet again. Two slaves of one id hide each other from consumers. A nameserver keeps one address for an id, so
the other broker shows in the routes until this one registers again.

The search only warns, once for each address: which of the two must go, a person has to decide. The warning is also in
the runtime info (``brokerIdConflict``).

Compatibility: RocketMQ 4.9.8 has no such search.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

import trio

from rocketpy.broker.config import BrokerConfig
from rocketpy.containment import Contained
from rocketpy.errors import RemoteProtocolError, RemotingError
from rocketpy.protocol.bodies.codec import decode_peer_body
from rocketpy.protocol.bodies.route import MASTER_ID, ClusterInfo
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.remoting.client import RemotingClient
from rocketpy.runner import RunBlocking, run_decoder

SEARCH_SECONDS = 60.0

_TWO_MASTERS = "both accept messages, and neither gets those of the other"
_TWO_SLAVES = "consumers find only one of them"

_log = logging.getLogger("rocketpy.broker")


class BrokersOfOneId:
    """Asks each nameserver at the start, before this broker registers, and then every SEARCH_SECONDS."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        namesrv_addresses: Sequence[str],
        broker_addr: str,
        client: RemotingClient,
        run_blocking: RunBlocking,
    ) -> None:
        self._run_blocking = run_blocking
        self._config = config
        self._namesrv_addresses = tuple(namesrv_addresses)
        self._broker_addr = broker_addr
        self._client = client
        self._last_found: frozenset[str] = frozenset()
        self._recent: frozenset[str] = frozenset()

    @property
    def others(self) -> tuple[str, ...]:
        """The addresses that the last two searches have found."""
        return tuple(sorted(self._recent))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Report started, and search at once and periodically until cancelled; no failure ends it."""
        # Started first: a nameserver that does not answer must not delay the start. The first request still leaves
        # before this broker registers, which is the last step of a start.
        task_status.started()
        while True:
            await self.search()
            await trio.sleep(SEARCH_SECONDS)

    async def search(self) -> None:
        """Ask all nameservers concurrently, and warn of addresses that were not known."""
        found: set[str] = set()
        with Contained(_log, "the search for brokers with the id of this one"):
            async with trio.open_nursery() as nursery:
                for nameserver in self._namesrv_addresses:
                    nursery.start_soon(self._ask, nameserver, found)
        for address in sorted(found - self._recent):
            self._warn(address)
        # Two rounds: whichever of the two has registered last is in the answer.
        self._recent = self._last_found | found
        self._last_found = frozenset(found)

    # ---- private --------------------------------------------------------------------------------------------------

    async def _ask(self, nameserver: str, found: set[str]) -> None:
        """Add the address that a nameserver has for this broker, if it is another one."""
        try:
            request = make_request(RequestCode.GET_BROKER_CLUSTER_INFO)
            # No less than a registration has: a request that times out may close the connection, which both share.
            timeout_s = self._config.register_broker_timeout_mills / 1000
            response = await self._client.request(nameserver, request, timeout_s)
            if response.code != ResponseCode.SUCCESS or response.body is None:
                return
            decode = partial(decode_peer_body, body_class=ClusterInfo)
            info = await run_decoder(decode, response.body, self._run_blocking)
        except (RemotingError, RemoteProtocolError):
            return  # the registration, which asks the same nameserver, says so
        broker = info.broker_addr_table.get(self._config.broker_name)
        address = None if broker is None else broker.broker_addrs.get(self._config.broker_id)
        if address is not None and address != self._broker_addr:
            found.add(address)

    def _warn(self, address: str) -> None:
        config = self._config
        _log.error(
            "another broker %s with brokerId %d is registered at %s, this one is %s: %s; stop one of them, or give it "
            "another brokerName or brokerId",
            config.broker_name,
            config.broker_id,
            address,
            self._broker_addr,
            _TWO_MASTERS if config.broker_id == MASTER_ID else _TWO_SLAVES,
        )
