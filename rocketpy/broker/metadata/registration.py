"""Tells every nameserver which topics this broker has: at start, periodically, and soon after a topic changes.

The nameservers are independent of each other; one that cannot be reached costs a log line when that begins and one when
it ends. Rule: no registration ever ends the broker. What a nameserver or the size of the table causes is logged, and
tried again in the next round; an unexpected failure is contained in the round with that nameserver.

Compatibility: ``BrokerOuterAPI.registerBrokerAll`` (4.9.8); broker.md 4. A change always sends the whole table, several
changes at once send it once; Java sends one topic after an administrative change, which nameservers take the same way.
A table that does not fit a frame is sent in parts; a nameserver that has the table's version already gets the last one
only, as a life sign. Java registers no more once the table is too large.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Sequence

import attrs
import trio

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.registration_body import CompressedRegistrationBody, RegistrationBody
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.containment import Contained
from rocketpy.errors import LocalProtocolError, RemoteProtocolError, RemotingError, RequestError
from rocketpy.log_files import event_fields
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.route import MASTER_ID, KVTable
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.namesrv import (
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    UnRegisterBrokerRequestHeader,
)
from rocketpy.remoting.client import RemotingClient

UNREGISTER_SECONDS = 3.0
QUERY_VERSION_SECONDS = 3.0

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen
class RegistrationStatistics:
    """What has been done since the start, and who cannot be reached now."""

    registered_count: int
    failed_count: int
    unreachable: tuple[str, ...]


class RegistrationService:
    """One loop. ``broker_addr`` is where clients find this broker, ``ha_server_addr`` where slaves would."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        namesrv_addresses: Sequence[str],
        broker_addr: str,
        ha_server_addr: str,
        topic_config_manager: TopicConfigManager,
        client: RemotingClient,
    ) -> None:
        self._config = config
        self._namesrv_addresses = tuple(namesrv_addresses)
        self._broker_addr = broker_addr
        self._ha_server_addr = ha_server_addr
        self._topic_config_manager = topic_config_manager
        self._client = client
        self._json_body = RegistrationBody()
        self._compressed_body = CompressedRegistrationBody()
        self._unreachable: set[str] = set()
        self._registered_count = 0
        self._failed_count = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Register, report started, and go on registering until cancelled."""
        topics = self._topic_config_manager.stored
        seen = topics.change_count
        await self.register_all(force=True)
        task_status.started()
        while True:
            has_changed = False
            with trio.move_on_after(self._config.registration_period_seconds):
                await topics.wait_changed(seen)
                has_changed = True
            seen = topics.change_count
            await self.register_all(force=has_changed or self._config.force_register)

    async def register_all(self, *, force: bool = True) -> None:
        """Register with every nameserver at the same time, each part within ``registerBrokerTimeoutMills``.

        Without ``force`` those are left out whose version of the topics is ours.
        """
        with Contained(_log, "a registration with the nameservers"):
            requests = await self._registration()
            async with trio.open_nursery() as nursery:
                for address in self._namesrv_addresses:
                    nursery.start_soon(self._register, address, requests, force)

    async def unregister_all(self) -> None:
        """Take this broker out of every nameserver's routes; waits UNREGISTER_SECONDS at most."""
        header = UnRegisterBrokerRequestHeader(
            broker_name=self._config.broker_name,
            broker_addr=self._broker_addr,
            cluster_name=self._config.broker_cluster_name,
            broker_id=MASTER_ID,
        )
        request = make_request(RequestCode.UNREGISTER_BROKER, header)
        async with trio.open_nursery() as nursery:
            for address in self._namesrv_addresses:
                nursery.start_soon(self._unregister, address, request)

    def statistics(self) -> RegistrationStatistics:
        """Return the counters."""
        return RegistrationStatistics(self._registered_count, self._failed_count, tuple(sorted(self._unreachable)))

    # ---- private --------------------------------------------------------------------------------------------------

    async def _registration(self) -> list[RemotingCommand]:
        """Return the requests that register all topics, in their order."""
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
            broker_id=MASTER_ID,
            compressed=is_compressed,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
        )
        return make_request(RequestCode.REGISTER_BROKER, header, body)

    async def _register(self, address: str, parts: Sequence[RemotingCommand], force: bool) -> None:
        """Send the parts one after the other; what breaks off in the middle is sent whole in the next round."""
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
            self._registered_count += 1
            if response is not None and address == self._namesrv_addresses[0]:
                self._take_order_topics(address, response.body)

    async def _unregister(self, address: str, request: RemotingCommand) -> None:
        with Contained(_log, "leaving nameserver %s", address):
            await self._ask(address, request, UNREGISTER_SECONDS)

    async def _is_outdated(self, address: str) -> bool:
        """Whether a nameserver has another version of the topics than we, or does not say."""
        header = QueryDataVersionRequestHeader(
            broker_name=self._config.broker_name,
            broker_addr=self._broker_addr,
            cluster_name=self._config.broker_cluster_name,
            broker_id=MASTER_ID,
        )
        body = encode_body(self._topic_config_manager.data_version)
        request = make_request(RequestCode.QUERY_DATA_VERSION, header, body)
        response = await self._ask(address, request, QUERY_VERSION_SECONDS)
        if response is None or response.code != ResponseCode.SUCCESS:
            return True
        try:
            return read_header(response, QueryDataVersionResponseHeader).changed
        except RequestError:  # an answer without the field is no answer
            return True

    async def _ask(self, address: str, request: RemotingCommand, timeout_s: float) -> RemotingCommand | None:
        """Return a successful answer, None when there is none; log when that changes."""
        # Each connection numbers its requests, so each needs a request of its own.
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
        except (RemotingError, LocalProtocolError) as failure:
            why = str(failure)
        self._failed_count += 1
        if address not in self._unreachable:
            self._unreachable.add(address)
            fields = event_fields(address=address, code=request.code, why=why)
            _log.warning("nameserver does not take a request", extra=fields)
        return None

    def _take_order_topics(self, address: str, body: bytes | None) -> None:
        """The answer of the first nameserver names the topics that are ordered."""
        if not body:
            return
        try:
            table = decode_body(body, KVTable)
        except RemoteProtocolError as failure:
            fields = event_fields(address=address, why=failure)
            _log.warning("nameserver answered a registration with a body that is none", extra=fields)
            return
        self._topic_config_manager.update_order_topic_config(table.table)
