"""Registration of the broker's topics with every nameserver: at start, periodically, and soon after a change.

The nameservers are independent of each other; an unreachable one is logged once when it fails and once when it answers
again. Rule: no registration ever ends the broker. Failures caused by a nameserver or by the table's size are logged and
retried in the next round; an unexpected failure is contained in the round with that nameserver. A nameserver gets one
registration at a time, which the periodic one and those of administrative changes share: one that waits for its turn
has been made by the one before it, if that had the same topics or newer ones.

Compatibility: ``BrokerOuterAPI.registerBrokerAll`` (4.9.8). A change always sends the whole table, and
concurrent changes are coalesced; Java sends only the topic of an administrative change, which has the same effect. A
table that does not fit a frame is sent in parts; a nameserver that already has the table's version gets only the last
part, as a heartbeat. Java stops registering once the table is too large. A slave that searches its master registers
again after MASTER_SEARCH_SECONDS; in Java it waits for the next period. A slave registers in each period also without
``forceRegister``: only the answer of a registration has the master's addresses.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import attrs
import trio

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.registration_body import CompressedRegistrationBody, RegistrationBody
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.containment import Contained
from rocketpy.errors import LocalProtocolError, RemoteProtocolError, RemotingError, RequestError
from rocketpy.log_files import event_fields
from rocketpy.protocol.bodies.codec import decode_peer_body, encode_body
from rocketpy.protocol.bodies.route import MASTER_ID, KVTable
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.registration import (
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)
from rocketpy.remoting.client import RemotingClient
from rocketpy.runner import RunBlocking, run_decoder

UNREGISTER_SECONDS = 3.0
QUERY_VERSION_SECONDS = 3.0
MASTER_SEARCH_SECONDS = 3.0
"""Time between two registrations of a slave that searches its master."""

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen
class RegistrationStatistics:
    """Counters since the start, and the nameservers that are unreachable now."""

    registered_count: int
    failed_count: int
    unreachable: tuple[str, ...]


class MasterSearch(Protocol):
    """A slave's search for its master."""

    @property
    def is_complete(self) -> bool:
        """Whether another registration would tell nothing that is needed now."""
        ...

    def take(self, nameserver: str, master_addr: str | None, ha_server_addr: str | None) -> None:
        """Take what a nameserver has answered to a registration; None for a master that it does not know."""
        ...


@attrs.define(eq=False)
class _Turns:
    """The registrations with one nameserver, one after the other."""

    lock: trio.Lock = attrs.field(factory=trio.Lock)  # a registration awaits its answers
    sent_number: int = 0  # of the newest table that was sent


class RegistrationService:
    """One loop. ``broker_addr`` is the address for clients, ``ha_server_addr`` the address for slaves."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        namesrv_addresses: Sequence[str],
        broker_addr: str,
        ha_server_addr: str,
        topic_config_manager: TopicConfigManager,
        master_search: MasterSearch,
        client: RemotingClient,
        run_blocking: RunBlocking,
    ) -> None:
        self._run_blocking = run_blocking
        self._config = config
        self._namesrv_addresses = tuple(namesrv_addresses)
        self._broker_addr = broker_addr
        self._ha_server_addr = ha_server_addr
        self._topic_config_manager = topic_config_manager
        self._master_search = master_search
        self._client = client
        self._is_slave = config.broker_id != MASTER_ID
        self._json_body = RegistrationBody()
        self._compressed_body = CompressedRegistrationBody()
        # Tables are numbered as they are read: a newer one has every change that an older one has.
        self._table_count = 0
        self._newest_number = 0
        self._newest_parts: Sequence[RemotingCommand] = ()
        self._turns = {address: _Turns() for address in self._namesrv_addresses}
        self._unreachable: set[str] = set()
        self._registered_count = 0
        self._failed_count = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Register, report started, then register periodically and after changes until cancelled."""
        topics = self._topic_config_manager.stored
        seen = topics.change_count
        await self.register_all(force=True)
        with self._topic_config_manager.new.registering():
            task_status.started()
            while True:
                has_changed = await self._wait_due(seen)
                seen = topics.change_count
                await self.register_all(force=has_changed or self._is_slave or self._config.force_register)

    async def register_all(self, *, force: bool = True) -> None:
        """Register with all nameservers concurrently, each part within ``registerBrokerTimeoutMills``.

        Without ``force``, nameservers that have the current data version are skipped. The first answers of the topics
        that are registered now are released at the end, also when a nameserver has failed.
        """
        topics = self._topic_config_manager
        change_count = topics.stored.change_count
        with Contained(_log, "a registration with the nameservers"):
            number = self._table_count = self._table_count + 1
            parts = await self._registration()
            if number > self._newest_number:
                self._newest_number, self._newest_parts = number, parts
            async with trio.open_nursery() as nursery:
                for address in self._namesrv_addresses:
                    nursery.start_soon(self._register, address, number, force)
            if number == self._newest_number:
                self._newest_parts = ()  # every nameserver has been sent them: what still waits sends nothing
        topics.new.registered(change_count)

    async def unregister_all(self) -> None:
        """Unregister from every nameserver; waits UNREGISTER_SECONDS at most."""
        header = UnRegisterBrokerRequestHeader(
            broker_name=self._config.broker_name,
            broker_addr=self._broker_addr,
            cluster_name=self._config.broker_cluster_name,
            broker_id=self._config.broker_id,
        )
        request = make_request(RequestCode.UNREGISTER_BROKER, header)
        async with trio.open_nursery() as nursery:
            for address in self._namesrv_addresses:
                nursery.start_soon(self._unregister, address, request)

    def statistics(self) -> RegistrationStatistics:
        """Return the counters."""
        return RegistrationStatistics(self._registered_count, self._failed_count, tuple(sorted(self._unreachable)))

    # ---- private --------------------------------------------------------------------------------------------------

    async def _wait_due(self, seen: int) -> bool:
        """Return when the next registration is due, with whether topics have changed since ``seen``."""
        due = trio.current_time() + self._config.registration_period_seconds
        while True:
            look = min(due, trio.current_time() + MASTER_SEARCH_SECONDS) if self._is_slave else due
            with trio.move_on_at(look):
                await self._topic_config_manager.stored.wait_changed(seen)
                return True
            if trio.current_time() >= due or not self._master_search.is_complete:
                return False

    async def _registration(self) -> list[RemotingCommand]:
        """Return the requests that register all topics, in sending order."""
        wrapper = self._topic_config_manager.wrapper(broker_permission=self._config.broker_permission)
        is_compressed = self._config.compressed_register
        bodies = await (self._compressed_body if is_compressed else self._json_body).encode(wrapper)
        return [self._part(body, is_compressed=is_compressed) for body in bodies]

    def _part(self, body: bytes, *, is_compressed: bool) -> RemotingCommand:
        header = RegisterBrokerRequestHeader(
            broker_name=self._config.broker_name,
            broker_addr=self._broker_addr,
            cluster_name=self._config.broker_cluster_name,
            ha_server_addr=self._ha_server_addr,
            broker_id=self._config.broker_id,
            compressed=is_compressed,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
        )
        return make_request(RequestCode.REGISTER_BROKER, header, body)

    async def _register(self, address: str, number: int, force: bool) -> None:
        """Send the table with a number, or a newer one, when it is its turn, unless one of these has been sent."""
        turns = self._turns[address]
        async with turns.lock:
            if turns.sent_number < number:
                newest_number = self._newest_number
                await self._send_parts(address, self._newest_parts, force)
                turns.sent_number = newest_number  # not when it was cancelled: others may count on it

    async def _send_parts(self, address: str, parts: Sequence[RemotingCommand], force: bool) -> None:
        """Send the parts one after the other; after a failure the next round sends all of them again."""
        with Contained(_log, "a registration with nameserver %s", address):
            if not force or len(parts) > 1:
                is_outdated = await self._is_outdated(address)
                if not is_outdated and not force:
                    return
                parts = parts if is_outdated else parts[-1:]
            timeout_s = self._config.register_broker_timeout_mills / 1000
            response = None
            for part in parts:
                response = await self._ask(address, part, timeout_s)
                if response is None:
                    return
            assert response is not None, "a registration without a part"
            self._registered_count += 1
            answer = read_header(response, RegisterBrokerResponseHeader)
            self._master_search.take(address, answer.master_addr, answer.ha_server_addr)
            if address == self._namesrv_addresses[0]:
                await self._take_order_topics(address, response.body)

    async def _unregister(self, address: str, request: RemotingCommand) -> None:
        with Contained(_log, "leaving nameserver %s", address):
            await self._ask(address, request, UNREGISTER_SECONDS)

    async def _is_outdated(self, address: str) -> bool:
        """Whether a nameserver has another data version than this broker, or does not answer."""
        header = QueryDataVersionRequestHeader(
            broker_name=self._config.broker_name,
            broker_addr=self._broker_addr,
            cluster_name=self._config.broker_cluster_name,
            broker_id=self._config.broker_id,
        )
        body = encode_body(self._topic_config_manager.data_version)
        request = make_request(RequestCode.QUERY_DATA_VERSION, header, body)
        response = await self._ask(address, request, QUERY_VERSION_SECONDS)
        if response is None or response.code != ResponseCode.SUCCESS:
            return True
        try:
            return read_header(response, QueryDataVersionResponseHeader).changed
        except RequestError:  # a response without the field counts as no answer
            return True

    async def _ask(self, address: str, request: RemotingCommand, timeout_s: float) -> RemotingCommand | None:
        """Return a successful response, or None; log when a nameserver fails or recovers."""
        # Each connection sets the opaque of its requests, so each needs a copy.
        own = attrs.evolve(request)
        why = ""
        try:
            response = await self._client.request(address, own, timeout_s)
            if response.code == ResponseCode.SUCCESS:
                if address in self._unreachable:
                    self._unreachable.discard(address)
                    _log.info("nameserver answers again", extra=event_fields(address=address))
                return response
            why = f"code {response.code}: {response.remark}"
            if response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and request.code == RequestCode.REGISTER_BROKER:
                why = f"this is no nameserver, expected its address (port 9876 by default): {why}"
        except (RemotingError, LocalProtocolError) as failure:
            why = str(failure)
        self._failed_count += 1
        if address not in self._unreachable:
            self._unreachable.add(address)
            fields = event_fields(address=address, code=request.code, why=why)
            _log.warning("a request to a nameserver failed", extra=fields)
        return None

    async def _take_order_topics(self, address: str, body: bytes | None) -> None:
        """Take the ordered topics from the response of the first nameserver."""
        if not body:
            return
        try:
            table = await run_decoder(partial(decode_peer_body, body_class=KVTable), body, self._run_blocking)
        except RemoteProtocolError as failure:
            fields = event_fields(address=address, why=failure)
            _log.warning("nameserver answered a registration with a malformed body", extra=fields)
            return
        self._topic_config_manager.update_order_topic_config(table.table)
