"""Answers every request of a nameserver: reads the header, asks the tables, writes the reply.

What a request means is in the tables (``route_info``, ``kv_config``, ``config``); what is here is the shape of
questions and answers. Rule: a request that is refused has changed nothing, and its remark names the field. Rule: what a
request asks for is done in slices of some milliseconds: the first two at once, the others in a task between which
everything else is served.

Compatibility: ``DefaultRequestProcessor`` of 4.9.8, with these differences. A missing or empty name is refused with
SYSTEM_ERROR, where Java goes on with null and answers not found, or success. Request codes that a nameserver does not
know are answered REQUEST_CODE_NOT_SUPPORTED by the dispatcher, where Java is silent and the caller times out.
With ``clusterTest`` a topic that is missing here is not looked up in another environment. What a registration may bring
is bounded, and so is what is registered at a time (SECURITY.md).
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

import attrs
import trio

from rocketpy.errors import RemoteProtocolError, RequestError, SettingsError, StoreError
from rocketpy.nameserver.config import NamesrvConfiguration
from rocketpy.nameserver.kv_config import NAMESPACE_ORDER_TOPIC_CONFIG, KVConfigManager
from rocketpy.nameserver.route_info import RouteInfoManager
from rocketpy.properties_text import decode_properties_text, format_properties, read_properties
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.registration import old_registration_slices, registration_slices
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.bodies.topic import TOPICS_PER_SLICE, DataVersion, RegisterBrokerBody, TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.fastjson import dumps
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.namesrv import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    DeleteKVConfigRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    PutKVConfigRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import DEFERRED, Deferred
from rocketpy.remoting.dispatch import Dispatcher

SETTINGS_SIZE_MAX = 16_384
"""How long a text of settings may be that a request brings; all of them with their defaults have some 2 KiB."""

VERSION_SIZE_MAX = 16_384
"""How long the body of QUERY_DATA_VERSION may be; it holds two numbers."""

REGISTERING_BYTES_MAX = 268_435_456
"""How long the bodies may be together that are registered in slices."""

SLICES_AT_ONCE = 2
_SHOWN_CHARACTERS_MAX = 200

VERSION_V3_0_11 = 37
"""Brokers before this one send their topics without filter servers around them."""

VERSION_V4_9_4 = 401
"""Clients since this one read standard JSON in routes."""

FAQ_SUFFIX = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."

BodyT = TypeVar("BodyT")
Steps = Generator[None, None, RemotingCommand]
"""The work for one request: it yields between its slices, and returns the answer."""

_log = logging.getLogger("rocketpy.nameserver")


@attrs.define(eq=False, kw_only=True)
class DefaultRequestProcessor:
    """The request codes of one nameserver over its tables."""

    _route_info: RouteInfoManager[Connection]
    _kv_config: KVConfigManager
    _configuration: NamesrvConfiguration
    _current_time: Callable[[], float]  # Trio's clock: seconds that never step
    # Bodies that are registered in slices now: at most one of a connection.
    _registering: dict[Connection, int] = attrs.field(factory=dict, init=False)

    def register_with(self, dispatcher: Dispatcher) -> None:
        """Enter every request code into the dispatcher's table; those that write a file run as tasks."""
        dispatcher.register(RequestCode.REGISTER_BROKER, self.register_broker)
        dispatcher.register(RequestCode.UNREGISTER_BROKER, self.unregister_broker)
        dispatcher.register(RequestCode.QUERY_DATA_VERSION, self.query_data_version)
        dispatcher.register(RequestCode.GET_ROUTEINFO_BY_TOPIC, self.get_route_info_by_topic)
        dispatcher.register(RequestCode.GET_BROKER_CLUSTER_INFO, self.get_broker_cluster_info)
        dispatcher.register(RequestCode.WIPE_WRITE_PERM_OF_BROKER, self.wipe_write_perm_of_broker)
        dispatcher.register(RequestCode.ADD_WRITE_PERM_OF_BROKER, self.add_write_perm_of_broker)
        dispatcher.register(RequestCode.DELETE_TOPIC_IN_NAMESRV, self.delete_topic_in_namesrv)
        dispatcher.register(RequestCode.GET_TOPICS_BY_CLUSTER, self.get_topics_by_cluster)
        for code, topics in (
            (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, self._route_info.all_topics),
            (RequestCode.GET_UNIT_TOPIC_LIST, self._route_info.unit_topics),
            (RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, self._route_info.unit_sub_topics),
            (RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, self._route_info.unit_sub_ununit_topics),
        ):
            dispatcher.register(code, _topic_list_processor(topics))
        dispatcher.register(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, self.get_system_topic_list)
        dispatcher.register(RequestCode.GET_KV_CONFIG, self.get_kv_config)
        dispatcher.register(RequestCode.GET_KVLIST_BY_NAMESPACE, self.get_kv_list_by_namespace)
        dispatcher.register(RequestCode.GET_NAMESRV_CONFIG, self.get_namesrv_config)
        dispatcher.register_task(RequestCode.PUT_KV_CONFIG, self.put_kv_config)
        dispatcher.register_task(RequestCode.DELETE_KV_CONFIG, self.delete_kv_config)
        dispatcher.register_task(RequestCode.UPDATE_NAMESRV_CONFIG, self.update_namesrv_config)

    # -- brokers --------------------------------------------------------------------------------------------------

    def register_broker(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred:
        """103: a broker, or one slave of it, says that it is here and which topics it has."""
        header = read_header(request, RegisterBrokerRequestHeader)
        _check_names(
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
        return _served(connection, request, self._registration_steps(connection, request, header))

    def _registration_steps(
        self, connection: Connection, request: RemotingCommand, header: RegisterBrokerRequestHeader
    ) -> Steps:
        self._registering[connection] = len(request.body or b"")
        try:
            body = yield from self._decoded_registration(request, is_compressed=header.compressed)
            if connection.is_closed:  # what it registered now nothing would remove for two minutes
                return make_response(request, ResponseCode.SYSTEM_ERROR, "the connection has ended")
            wrapper = body.topic_config_serialize_wrapper
            topics = list(wrapper.topic_config_table.values())
            # An old broker says nothing of filter servers.
            filter_servers = None if request.version < VERSION_V3_0_11 else body.filter_server_list
            result = self._route_info.register_broker(
                cluster_name=header.cluster_name,
                broker_addr=header.broker_addr,
                broker_name=header.broker_name,
                broker_id=header.broker_id,
                ha_server_addr=header.ha_server_addr,
                data_version=wrapper.data_version,
                filter_servers=filter_servers,
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
        """Put topics in slices, unless the broker has gone meanwhile; return a remark if some were left out.

        Two registrations of one address may do so at the same time: each puts what it brought, as long as the version
        that was registered last is its own.
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
        """Leave a broker that is live to the host that registered it, if the settings say so."""
        if self._configuration.namesrv.broker_takeover_enable:
            return
        addresses = {header.broker_addr, self._route_info.address_of(header.broker_name, header.broker_id)}
        for address in addresses - {None}:
            holder = self._route_info.holder_of(address or "")
            if holder is not None and not holder.is_closed and _host(holder.peer) != _host(connection.peer):
                raise RequestError(
                    ResponseCode.NO_PERMISSION,
                    f"broker {header.broker_name} with id {header.broker_id} is live at {address}, registered from "
                    f"{_host(holder.peer)} (brokerTakeoverEnable=false)",
                )

    def unregister_broker(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """104: a broker takes leave."""
        header = read_header(request, UnRegisterBrokerRequestHeader)
        _check_names(
            header, brokerName=header.broker_name, brokerAddr=header.broker_addr, clusterName=header.cluster_name
        )
        self._check_takeover(connection, header)
        if self._route_info.unregister_broker(header.broker_addr):
            _log.info("broker unregistered: name=%r addr=%r", header.broker_name, header.broker_addr)
            self._route_info.purge()
        return make_response(request)

    def query_data_version(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """322: a broker asks whether its topics are known in this version; if so, the question is a life sign."""
        header = read_header(request, QueryDataVersionRequestHeader)
        _check_names(
            header, brokerName=header.broker_name, brokerAddr=header.broker_addr, clusterName=header.cluster_name
        )
        if request.body is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "body: expected a DataVersion, found nothing")
        if len(request.body) > VERSION_SIZE_MAX:
            remark = f"body: expected at most {VERSION_SIZE_MAX} bytes, found {len(request.body)}"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        is_changed = self._route_info.is_data_version_changed(header.broker_addr, _decode(request.body, DataVersion))
        if not is_changed:
            self._route_info.touch_broker(header.broker_addr, self._current_time())
        known = self._route_info.data_version_of(header.broker_addr)
        return make_response(
            request,
            header=QueryDataVersionResponseHeader(changed=is_changed),
            body=None if known is None else encode_body(known),
        )

    # -- routes ---------------------------------------------------------------------------------------------------

    def get_route_info_by_topic(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """105: a client or tool asks where the queues of a topic are."""
        header = read_header(request, GetRouteInfoRequestHeader)
        _check_names(header, topic=header.topic)
        route = self._route_info.pick_up_topic_route_data(header.topic)
        if route is None:
            remark = f"No topic route info in name server for the topic: {header.topic}{FAQ_SUFFIX}"
            return make_response(request, ResponseCode.TOPIC_NOT_EXIST, remark)
        config = self._configuration.namesrv
        if config.order_message_enable or config.cluster_test:
            conf = self._kv_config.get(NAMESPACE_ORDER_TOPIC_CONFIG, header.topic)
            route = attrs.evolve(route, order_topic_conf=conf)
        is_new_client = request.version >= VERSION_V4_9_4 or bool(header.accept_standard_json_only)
        return make_response(request, body=encode_body(route, standard=is_new_client and not config.cluster_test))

    def get_broker_cluster_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """106: every broker and cluster; never standard JSON, whoever asks."""
        return make_response(request, body=encode_body(self._route_info.cluster_info()))

    def get_topics_by_cluster(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred:
        """224: the topics of a cluster."""
        header = read_header(request, GetTopicsByClusterRequestHeader)
        _check_names(header, cluster=header.cluster)
        topics = self._route_info.topics_of_cluster(header.cluster)
        return _served(connection, request, _topic_list_steps(request, topics))

    def get_system_topic_list(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """304: names of clusters and brokers, and an address to ask for more."""
        return make_response(request, body=encode_body(self._route_info.system_topics()))

    def wipe_write_perm_of_broker(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred:
        """205: nobody shall write to a broker any more."""
        header = read_header(request, WipeWritePermOfBrokerRequestHeader)
        _check_names(header, brokerName=header.broker_name)

        def steps() -> Steps:
            count = yield from _summed(self._route_info.wipe_write_perm(header.broker_name))
            _log.info("write permission wiped: broker=%r topics=%d by=%s", header.broker_name, count, connection.peer)
            return make_response(request, header=WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count))

        return _served(connection, request, steps())

    def add_write_perm_of_broker(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred:
        """327: everybody may write to a broker again."""
        header = read_header(request, AddWritePermOfBrokerRequestHeader)
        _check_names(header, brokerName=header.broker_name)

        def steps() -> Steps:
            count = yield from _summed(self._route_info.add_write_perm(header.broker_name))
            _log.info("write permission added: broker=%r topics=%d by=%s", header.broker_name, count, connection.peer)
            return make_response(request, header=AddWritePermOfBrokerResponseHeader(add_topic_count=count))

        return _served(connection, request, steps())

    def delete_topic_in_namesrv(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """216: forget a topic, or a cluster's part of it."""
        header = read_header(request, DeleteTopicFromNamesrvRequestHeader)
        _check_names(header, topic=header.topic)
        self._route_info.delete_topic(header.topic, header.cluster_name)
        return make_response(request)

    # -- KV configuration -----------------------------------------------------------------------------------------

    def get_kv_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """101: one value."""
        header = read_header(request, GetKVConfigRequestHeader)
        _check_names(header, namespace=header.namespace, key=header.key)
        value = self._kv_config.get(header.namespace, header.key)
        if value is None:
            remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            code = ResponseCode.QUERY_NOT_FOUND
            return make_response(request, code, remark, header=GetKVConfigResponseHeader(value=None))
        return make_response(request, header=GetKVConfigResponseHeader(value=value))

    def get_kv_list_by_namespace(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """219: all values of a namespace."""
        header = read_header(request, GetKVListByNamespaceRequestHeader)
        _check_names(header, namespace=header.namespace)
        table = self._kv_config.namespace(header.namespace)
        if table is None:
            remark = f"No config item, Namespace: {header.namespace}"
            return make_response(request, ResponseCode.QUERY_NOT_FOUND, remark)
        return make_response(request, body=encode_body(KVTable(table=table)))

    async def put_kv_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """100: set a value; answered when it is in the file."""
        header = read_header(request, PutKVConfigRequestHeader)
        _check_names(header, namespace=header.namespace, key=header.key)
        try:
            await self._kv_config.put(header.namespace, header.key, header.value)
        except StoreError as error:
            raise _not_written(error) from error
        value = (header.value or "")[:_SHOWN_CHARACTERS_MAX]
        _log.info("KV put: namespace=%r key=%r value=%r", header.namespace, header.key, value)
        return make_response(request)

    async def delete_kv_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """102: remove a value; answered when it is gone from the file."""
        header = read_header(request, DeleteKVConfigRequestHeader)
        _check_names(header, namespace=header.namespace, key=header.key)
        try:
            await self._kv_config.delete(header.namespace, header.key)
        except StoreError as error:
            raise _not_written(error) from error
        _log.info("KV deleted: namespace=%r key=%r", header.namespace, header.key)
        return make_response(request)

    # -- the nameserver's own settings ----------------------------------------------------------------------------

    def get_namesrv_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """319: every setting, as properties text."""
        return make_response(request, body=format_properties(self._configuration.values()).encode())

    async def update_namesrv_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """318: change settings; answered when they are in the file."""
        size = len(request.body or b"")
        if size > SETTINGS_SIZE_MAX:
            remark = f"nothing has changed: body: expected at most {SETTINGS_SIZE_MAX} bytes of settings, found {size}"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        text = decode_properties_text(request.body or b"")
        try:
            refused = self._configuration.refused_key(text)
            if refused is not None:
                remark = f"Can not update config in black list. {refused} is changed in the file, with a restart"
                return make_response(request, ResponseCode.NO_PERMISSION, remark)
            left = await self._configuration.update(text)
        except SettingsError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        except StoreError as error:
            raise _not_written(error) from error
        changed = ", ".join(line.key for line in read_properties(text))
        _log.info("settings changed by %s: %s", connection.peer, changed)
        later = f"takes effect with the next start: {', '.join(left)}" if left else None
        return make_response(request, remark=later)


def _served(connection: Connection, request: RemotingCommand, steps: Steps) -> RemotingCommand | Deferred:
    """Do the first slices of the work for a request at once, and the others in a task."""
    try:
        for _ in range(SLICES_AT_ONCE):
            next(steps)
    except StopIteration as end:
        answer: RemotingCommand = end.value
        return answer
    if not connection.may_defer or not connection.answer_later(request, _rest, steps):
        steps.close()
        raise RequestError(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]system busy: too many long requests at a time")
    return DEFERRED


async def _rest(steps: Steps) -> RemotingCommand:
    try:
        while True:
            await trio.lowlevel.checkpoint()
            next(steps)
    except StopIteration as end:
        answer: RemotingCommand = end.value
        return answer
    finally:
        steps.close()


def _summed(counts: Iterator[int]) -> Generator[None, None, int]:
    total = 0
    for count in counts:
        total += count
        yield
    return total


def _topic_list_processor(
    topics: Callable[[], Iterator[list[str]]],
) -> Callable[[Connection, RemotingCommand], RemotingCommand | Deferred]:
    """206, 311, 312, 313: a list of topics, without any question."""

    def get_topic_list(connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred:
        return _served(connection, request, _topic_list_steps(request, topics()))

    return get_topic_list


def _topic_list_steps(request: RemotingCommand, topics: Iterator[list[str]]) -> Steps:
    """The bytes of ``encode_body(TopicList(...))``, a slice of the topics at a time."""
    pieces: list[str] = []
    for names in topics:
        pieces += map(dumps, names)
        yield
    return make_response(request, body=f'{{"topicList":[{",".join(pieces)}]}}'.encode())


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


def _host(peer: str) -> str:
    return peer.rpartition(":")[0]


def _check_names(header: object, **names: str) -> None:
    """Refuse an empty name: a binary header cannot tell empty from missing either."""
    for field, name in names.items():
        if not name:
            remark = f"{type(header).__name__}.{field}: expected a name, found an empty text"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)


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


def _not_written(error: StoreError) -> RequestError:
    """A file of a few lines that cannot be written refuses the change; the routes, which need no disk, go on."""
    _log.error("%s", error)
    return RequestError(ResponseCode.SYSTEM_ERROR, f"nothing has changed, the file could not be written: {error}")
