"""REGISTER_BROKER, UNREGISTER_BROKER and QUERY_DATA_VERSION."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Generator
from typing import TypeVar

import attrs

from rocketpy.errors import RemoteProtocolError, RequestError
from rocketpy.nameserver.config import NamesrvConfiguration
from rocketpy.nameserver.kv_config import NAMESPACE_ORDER_TOPIC_CONFIG, KVConfigManager
from rocketpy.nameserver.refusals import check_names
from rocketpy.nameserver.routes.broker_table import BrokerRegistration
from rocketpy.nameserver.routes.route_info import RouteInfoManager
from rocketpy.nameserver.slices import Steps, served
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.registration import old_registration_slices, registration_slices
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.bodies.topic import TOPICS_PER_SLICE, DataVersion, RegisterBrokerBody, TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.registration import (
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)
from rocketpy.protocol.host import host_of
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import Deferred
from rocketpy.remoting.dispatch import Dispatcher

VERSION_SIZE_MAX = 16_384
"""Bound of the body of QUERY_DATA_VERSION, which holds two numbers."""

REGISTERING_BYTES_MAX = 268_435_456
"""Bound of the total size of all registration bodies that are being processed."""

VERSION_V3_0_11 = 37
"""First version whose registration body has filter servers; older brokers send the topic table alone."""

BodyT = TypeVar("BodyT")

_log = logging.getLogger("rocketpy.nameserver")


@attrs.define(eq=False, kw_only=True)
class RegistrationProcessor:
    """Serves REGISTER_BROKER, UNREGISTER_BROKER and QUERY_DATA_VERSION."""

    _route_info: RouteInfoManager[Connection]
    _kv_config: KVConfigManager
    _configuration: NamesrvConfiguration
    _current_time: Callable[[], float]  # Trio's clock: seconds that never step
    # Sizes of the bodies that are being registered in slices, at most one per connection.
    _registering: dict[Connection, int] = attrs.field(factory=dict, init=False)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes."""
        dispatcher.register(RequestCode.REGISTER_BROKER, self.register_broker)
        dispatcher.register(RequestCode.UNREGISTER_BROKER, self.unregister_broker)
        dispatcher.register(RequestCode.QUERY_DATA_VERSION, self.query_data_version)

    def register_broker(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred:
        """103: register a master or slave with its topics."""
        header = read_header(request, RegisterBrokerRequestHeader)
        check_names(
            header, brokerName=header.broker_name, brokerAddr=header.broker_addr, clusterName=header.cluster_name
        )
        _check_crc(request.body, header.body_crc32)
        self._check_takeover(connection, header)
        size = len(request.body or b"")
        if connection in self._registering or sum(self._registering.values()) + size > REGISTERING_BYTES_MAX:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                "[OVERLOAD]system busy: expected one long registration at a time over a connection, and at most "
                f"{REGISTERING_BYTES_MAX} bytes over all of them",
            )
        return served(connection, request, self._registration_steps(connection, request, header))

    def _registration_steps(
        self, connection: Connection, request: RemotingCommand, header: RegisterBrokerRequestHeader
    ) -> Steps:
        self._registering[connection] = len(request.body or b"")
        try:
            body = yield from self._decoded_registration(request, is_compressed=header.compressed)
            if connection.is_closed:  # its on_close has run: only expiry, after two minutes, would remove the broker
                return make_response(request, ResponseCode.SYSTEM_ERROR, "the connection has ended")
            wrapper = body.topic_config_serialize_wrapper
            topics = list(wrapper.topic_config_table.values())
            # The body of an old broker has no filter servers.
            filter_servers = None if request.version < VERSION_V3_0_11 else body.filter_server_list
            result = self._route_info.register_broker(
                BrokerRegistration(
                    cluster_name=header.cluster_name,
                    broker_addr=header.broker_addr,
                    broker_name=header.broker_name,
                    broker_id=header.broker_id,
                    ha_server_addr=header.ha_server_addr,
                    data_version=wrapper.data_version,
                    filter_servers=filter_servers,
                ),
                connection=connection,
                now=self._current_time(),
            )
            if result.is_new:
                _log_new_broker(header, len(topics))
            remark = None
            if result.takes_topics:
                remark = yield from self._put_topics(header, wrapper.data_version, topics)
        finally:
            del self._registering[connection]
        order_topics = self._kv_config.namespace(NAMESPACE_ORDER_TOPIC_CONFIG)
        return make_response(
            request,
            remark=remark,
            header=RegisterBrokerResponseHeader(ha_server_addr=result.ha_server_addr, master_addr=result.master_addr),
            body=None if order_topics is None else encode_body(KVTable(table=order_topics)),
        )

    def _decoded_registration(
        self, request: RemotingCommand, *, is_compressed: bool
    ) -> Generator[None, None, RegisterBrokerBody]:
        if request.body is None:
            return RegisterBrokerBody()
        topics_max = self._configuration.namesrv.topics_per_broker_max
        try:
            if request.version < VERSION_V3_0_11:
                return (yield from old_registration_slices(request.body, topics_max=topics_max))
            slices = registration_slices(request.body, is_compressed=is_compressed, topics_max=topics_max)
            return (yield from slices)
        except RemoteProtocolError as error:  # one bad request; its frame was good, so the connection lives
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"body: {error}") from error

    def _put_topics(
        self, header: RegisterBrokerRequestHeader, data_version: DataVersion, topics: list[TopicConfig]
    ) -> Generator[None, None, str | None]:
        """Put topics in slices while the broker stays registered; return a remark if some were left out.

        Two registrations of one address may overlap. Each puts its own topics only as long as the data version
        registered last is its own.
        """
        left_out = 0
        for start in range(0, len(topics), TOPICS_PER_SLICE):
            if not self._route_info.is_registered(
                header.broker_name, header.broker_id, header.broker_addr, data_version
            ):
                return None
            left_out += self._route_info.put_topics(header.broker_name, topics[start : start + TOPICS_PER_SLICE])
            yield
        if not left_out:
            return None
        remark = f"{left_out} topics have no room (topicsMax, topicsPerBrokerMax, routesMax)"
        _log.warning("broker %r: %s", header.broker_name, remark)
        return remark

    def _check_takeover(
        self, connection: Connection, header: RegisterBrokerRequestHeader | UnRegisterBrokerRequestHeader
    ) -> None:
        """Refuse to replace a live broker from another host when ``brokerTakeoverEnable`` is false."""
        if self._configuration.namesrv.broker_takeover_enable:
            return
        addresses = {header.broker_addr, self._route_info.address_of(header.broker_name, header.broker_id)}
        for address in addresses - {None}:
            holder = self._route_info.holder_of(address or "")
            if holder is not None and not holder.is_closed and host_of(holder.peer) != host_of(connection.peer):
                raise RequestError(
                    ResponseCode.NO_PERMISSION,
                    f"broker {header.broker_name} with id {header.broker_id} is live at {address}, registered from "
                    f"{host_of(holder.peer)} (brokerTakeoverEnable=false)",
                )

    def unregister_broker(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """104: unregister a broker."""
        header = read_header(request, UnRegisterBrokerRequestHeader)
        check_names(
            header, brokerName=header.broker_name, brokerAddr=header.broker_addr, clusterName=header.cluster_name
        )
        self._check_takeover(connection, header)
        if self._route_info.unregister_broker(header.broker_addr):
            _log.info("broker unregistered: name=%r addr=%r", header.broker_name, header.broker_addr)
            self._route_info.purge()
        return make_response(request)

    def query_data_version(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """322: compare a broker's data version with the registered one; when equal, the request is a heartbeat."""
        header = read_header(request, QueryDataVersionRequestHeader)
        check_names(
            header, brokerName=header.broker_name, brokerAddr=header.broker_addr, clusterName=header.cluster_name
        )
        if request.body is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "body: expected a DataVersion, found nothing")
        if len(request.body) > VERSION_SIZE_MAX:
            remark = f"body: expected at most {VERSION_SIZE_MAX} bytes, found {len(request.body)}"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        version = _decode(request.body, DataVersion)
        known = self._route_info.data_version_of(header.broker_addr)
        is_changed = known != version
        if not is_changed:
            self._route_info.touch_broker(header.broker_addr, self._current_time())
        return make_response(
            request,
            header=QueryDataVersionResponseHeader(changed=is_changed),
            body=None if known is None else encode_body(known),
        )


def _log_new_broker(header: RegisterBrokerRequestHeader, topic_count: int) -> None:
    _log.info(
        "broker registered: cluster=%r name=%r id=%d addr=%r haServerAddr=%r topics=%d",
        header.cluster_name,
        header.broker_name,
        header.broker_id,
        header.broker_addr,
        header.ha_server_addr,
        topic_count,
    )


def _check_crc(body: bytes | None, expected: int) -> None:
    """Compare the CRC of a registration with the header's; 0 is not checked, as in Java."""
    found = zlib.crc32(body or b"") & 0x7FFFFFFF
    if expected not in (0, found):
        remark = f"crc32 not match: bodyCrc32 is {expected}, the body has {found}"
        raise RequestError(ResponseCode.SYSTEM_ERROR, remark)


def _decode(body: bytes, body_class: type[BodyT]) -> BodyT:
    try:
        return decode_body(body, body_class)
    except RemoteProtocolError as error:  # one bad request; its frame was good, so the connection lives
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"body: {error}") from error
