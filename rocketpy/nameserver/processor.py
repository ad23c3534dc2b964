"""Answers every request of a nameserver: reads the header, asks the tables, writes the reply.

What a request means is in the tables (``route_info``, ``kv_config``, ``config``); what is here is the shape of
questions and answers. Rule: a request that is refused has changed nothing, and its remark names the field.

Compatibility: ``DefaultRequestProcessor`` of 4.9.8, with these differences. A missing or empty name is refused with
SYSTEM_ERROR, where Java goes on with null and answers not found, or success. Request codes that a nameserver does not
know are answered REQUEST_CODE_NOT_SUPPORTED by the dispatcher, where Java is silent and the caller times out.
With ``clusterTest`` a topic that is missing here is not looked up in another environment.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from typing import TypeVar

import attrs

from rocketpy.errors import RemoteProtocolError, RequestError, SettingsError, StoreError
from rocketpy.nameserver.config import NamesrvConfiguration
from rocketpy.nameserver.kv_config import NAMESPACE_ORDER_TOPIC_CONFIG, KVConfigManager
from rocketpy.nameserver.route_info import RouteInfoManager
from rocketpy.properties_text import decode_properties_text, format_properties, read_properties
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.route import KVTable, TopicList
from rocketpy.protocol.bodies.topic import DataVersion, RegisterBrokerBody, TopicConfigSerializeWrapper
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
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
from rocketpy.remoting.dispatch import Dispatcher

SETTINGS_SIZE_MAX = 262_144
"""How long a text of settings may be that a request brings."""

VERSION_V3_0_11 = 37
"""Brokers before this one send their topics without filter servers around them."""

VERSION_V4_9_4 = 401
"""Clients since this one read standard JSON in routes."""

FAQ_SUFFIX = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."

BodyT = TypeVar("BodyT")

_log = logging.getLogger("rocketpy.nameserver")


@attrs.define(eq=False, kw_only=True)
class DefaultRequestProcessor:
    """The request codes of one nameserver over its tables."""

    _route_info: RouteInfoManager[Connection]
    _kv_config: KVConfigManager
    _configuration: NamesrvConfiguration
    _current_time: Callable[[], float]  # Trio's clock: seconds that never step

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
            (RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, self._route_info.system_topics),
            (RequestCode.GET_UNIT_TOPIC_LIST, self._route_info.unit_topics),
            (RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, self._route_info.unit_sub_topics),
            (RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, self._route_info.unit_sub_ununit_topics),
        ):
            dispatcher.register(code, _topic_list_processor(topics))
        dispatcher.register(RequestCode.GET_KV_CONFIG, self.get_kv_config)
        dispatcher.register(RequestCode.GET_KVLIST_BY_NAMESPACE, self.get_kv_list_by_namespace)
        dispatcher.register(RequestCode.GET_NAMESRV_CONFIG, self.get_namesrv_config)
        dispatcher.register_task(RequestCode.PUT_KV_CONFIG, self.put_kv_config)
        dispatcher.register_task(RequestCode.DELETE_KV_CONFIG, self.delete_kv_config)
        dispatcher.register_task(RequestCode.UPDATE_NAMESRV_CONFIG, self.update_namesrv_config)

    # -- brokers --------------------------------------------------------------------------------------------------

    def register_broker(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """103: a broker, or one slave of it, says that it is here and which topics it has."""
        header = read_header(request, RegisterBrokerRequestHeader)
        _check_names(
            header, brokerName=header.broker_name, brokerAddr=header.broker_addr, clusterName=header.cluster_name
        )
        _check_crc(request.body, header.body_crc32)
        if request.version < VERSION_V3_0_11:
            wrapper = TopicConfigSerializeWrapper()
            if request.body is not None:
                wrapper = _decode(request.body, TopicConfigSerializeWrapper)
            filter_servers = None
        else:
            body = RegisterBrokerBody()
            if request.body is not None:
                body = _decode_registration(request.body, is_compressed=header.compressed)
            wrapper, filter_servers = body.topic_config_serialize_wrapper, body.filter_server_list
        result = self._route_info.register_broker(
            cluster_name=header.cluster_name,
            broker_addr=header.broker_addr,
            broker_name=header.broker_name,
            broker_id=header.broker_id,
            ha_server_addr=header.ha_server_addr,
            topic_configs=wrapper.topic_config_table.values(),
            data_version=wrapper.data_version,
            filter_servers=filter_servers,
            connection=connection,
            now=self._current_time(),
        )
        if result.is_new:
            _log.info(
                "broker registered: cluster=%r name=%r id=%d addr=%r haServerAddr=%r topics=%d",
                header.cluster_name,
                header.broker_name,
                header.broker_id,
                header.broker_addr,
                header.ha_server_addr,
                len(wrapper.topic_config_table),
            )
        order_topics = self._kv_config.namespace(NAMESPACE_ORDER_TOPIC_CONFIG)
        return make_response(
            request,
            header=RegisterBrokerResponseHeader(ha_server_addr=result.ha_server_addr, master_addr=result.master_addr),
            body=None if order_topics is None else encode_body(KVTable(table=order_topics)),
        )

    def unregister_broker(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """104: a broker takes leave."""
        header = read_header(request, UnRegisterBrokerRequestHeader)
        _check_names(
            header, brokerName=header.broker_name, brokerAddr=header.broker_addr, clusterName=header.cluster_name
        )
        if self._route_info.unregister_broker(header.broker_addr):
            _log.info("broker unregistered: name=%r addr=%r", header.broker_name, header.broker_addr)
        return make_response(request)

    def query_data_version(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """322: a broker asks whether its topics are known in this version; if so, the question is a life sign."""
        header = read_header(request, QueryDataVersionRequestHeader)
        _check_names(
            header, brokerName=header.broker_name, brokerAddr=header.broker_addr, clusterName=header.cluster_name
        )
        if request.body is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "body: expected a DataVersion, found nothing")
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

    def get_topics_by_cluster(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """224: the topics of a cluster."""
        header = read_header(request, GetTopicsByClusterRequestHeader)
        _check_names(header, cluster=header.cluster)
        return make_response(request, body=encode_body(self._route_info.topics_of_cluster(header.cluster)))

    def wipe_write_perm_of_broker(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """205: nobody shall write to a broker any more."""
        header = read_header(request, WipeWritePermOfBrokerRequestHeader)
        _check_names(header, brokerName=header.broker_name)
        count = self._route_info.wipe_write_perm(header.broker_name)
        _log.info("write permission wiped: broker=%r topics=%d by=%s", header.broker_name, count, connection.peer)
        return make_response(request, header=WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count))

    def add_write_perm_of_broker(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """327: everybody may write to a broker again."""
        header = read_header(request, AddWritePermOfBrokerRequestHeader)
        _check_names(header, brokerName=header.broker_name)
        count = self._route_info.add_write_perm(header.broker_name)
        _log.info("write permission added: broker=%r topics=%d by=%s", header.broker_name, count, connection.peer)
        return make_response(request, header=AddWritePermOfBrokerResponseHeader(add_topic_count=count))

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
        _log.info("KV put: namespace=%r key=%r value=%r", header.namespace, header.key, header.value)
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


def _topic_list_processor(
    topics: Callable[[], TopicList],
) -> Callable[[Connection, RemotingCommand], RemotingCommand]:
    """206, 304, 311, 312, 313: a list of topics, without any question."""

    def get_topic_list(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return make_response(request, body=encode_body(topics()))

    return get_topic_list


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


def _decode_registration(body: bytes, *, is_compressed: bool) -> RegisterBrokerBody:
    try:
        return RegisterBrokerBody.decode_compressed(body) if is_compressed else decode_body(body, RegisterBrokerBody)
    except RemoteProtocolError as error:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"body: {error}") from error


def _not_written(error: StoreError) -> RequestError:
    """A file of a few lines that cannot be written refuses the change; the routes, which need no disk, go on."""
    _log.error("%s", error)
    return RequestError(ResponseCode.SYSTEM_ERROR, f"nothing has changed, the file could not be written: {error}")
