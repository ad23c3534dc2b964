"""Requests for routes, clusters and topic lists, and administrative changes of routes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import attrs

from rocketpy.nameserver.config import NamesrvConfiguration
from rocketpy.nameserver.kv_config import NAMESPACE_ORDER_TOPIC_CONFIG, KVConfigManager
from rocketpy.nameserver.refusals import check_names
from rocketpy.nameserver.routes.route_info import RouteInfoManager
from rocketpy.nameserver.routes.topic_table import TOPICS_PER_SLICE
from rocketpy.nameserver.slices import Steps, served, summed
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.fastjson import dumps
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.namesrv import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import Deferred
from rocketpy.remoting.dispatch import AsyncProcessor, Dispatcher
from rocketpy.remoting.whole_answer import PIECES_PER_SLICE, WholeAnswers

VERSION_V4_9_4 = 401
"""First client version that reads standard JSON in routes."""

_NAMES_PER_PIECE = TOPICS_PER_SLICE // PIECES_PER_SLICE
"""Other requests are served after each slice of the topics, whether or not any of it is listed."""

FAQ_SUFFIX = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."

_log = logging.getLogger("rocketpy.nameserver")


@attrs.define(eq=False, kw_only=True)
class RouteProcessor:
    """Serves the requests about routes."""

    _route_info: RouteInfoManager[Connection]
    _kv_config: KVConfigManager
    _configuration: NamesrvConfiguration
    _whole_answers: WholeAnswers = attrs.field(init=False, factory=WholeAnswers)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes."""
        dispatcher.register(RequestCode.GET_ROUTEINFO_BY_TOPIC, self.get_route_info_by_topic)
        dispatcher.register_task(RequestCode.GET_BROKER_CLUSTER_INFO, self.get_broker_cluster_info)
        dispatcher.register(RequestCode.WIPE_WRITE_PERM_OF_BROKER, self.wipe_write_perm_of_broker)
        dispatcher.register(RequestCode.ADD_WRITE_PERM_OF_BROKER, self.add_write_perm_of_broker)
        dispatcher.register(RequestCode.DELETE_TOPIC_IN_NAMESRV, self.delete_topic_in_namesrv)
        dispatcher.register_task(RequestCode.GET_TOPICS_BY_CLUSTER, self.get_topics_by_cluster)
        for code, what, topics in (
            (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, "all topics", self._route_info.all_topics),
            (RequestCode.GET_UNIT_TOPIC_LIST, "the topics of units", self._route_info.unit_topics),
            (
                RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
                "the topics that units subscribe to",
                self._route_info.unit_sub_topics,
            ),
            (
                RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
                "the topics of no unit that units subscribe to",
                self._route_info.unit_sub_ununit_topics,
            ),
        ):
            dispatcher.register_task(code, self._topic_list_processor(what, topics))
        dispatcher.register_task(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, self.get_system_topic_list)

    def get_route_info_by_topic(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """105: return the route of a topic."""
        header = read_header(request, GetRouteInfoRequestHeader)
        check_names(header, topic=header.topic)
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

    async def get_broker_cluster_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """106: return every broker and cluster; never standard JSON, whatever the client's version."""
        # The tables are compared: that takes less than a tenth of their encoding.
        info = self._route_info.cluster_info()
        body = await self._whole_answers.encode_table(connection, "all brokers", lambda: info, lambda: info)
        return make_response(request, body=body)

    async def get_topics_by_cluster(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """224: return the topics of a cluster."""
        header = read_header(request, GetTopicsByClusterRequestHeader)
        check_names(header, cluster=header.cluster)
        routes, cluster = self._route_info, header.cluster
        # The list of one cluster is kept, the last one that was asked for.
        body = await self._whole_answers.join_table(
            connection,
            "the topics of the cluster",
            lambda: (cluster, routes.brokers_of_cluster(cluster), routes.topics_version),
            lambda: _topic_list_pieces(routes.topics_of_cluster(cluster)),
        )
        return make_response(request, body=body)

    async def get_system_topic_list(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """304: return the names of clusters and brokers, and the address of one broker to query for more."""
        names = self._route_info.system_topics()
        body = await self._whole_answers.encode_table(connection, "the system topics", lambda: names, lambda: names)
        return make_response(request, body=body)

    def wipe_write_perm_of_broker(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred:
        """205: remove write permission from all topics of a broker."""
        header = read_header(request, WipeWritePermOfBrokerRequestHeader)
        check_names(header, brokerName=header.broker_name)

        def steps() -> Steps:
            count = yield from summed(self._route_info.wipe_write_perm(header.broker_name))
            _log.info("write permission wiped: broker=%r topics=%d by=%s", header.broker_name, count, connection.peer)
            return make_response(request, header=WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count))

        return served(connection, request, steps())

    def add_write_perm_of_broker(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred:
        """327: restore write permission on all topics of a broker."""
        header = read_header(request, AddWritePermOfBrokerRequestHeader)
        check_names(header, brokerName=header.broker_name)

        def steps() -> Steps:
            count = yield from summed(self._route_info.add_write_perm(header.broker_name))
            _log.info("write permission added: broker=%r topics=%d by=%s", header.broker_name, count, connection.peer)
            return make_response(request, header=AddWritePermOfBrokerResponseHeader(add_topic_count=count))

        return served(connection, request, steps())

    def delete_topic_in_namesrv(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """216: delete a topic from the routes, or only from those of one cluster."""
        header = read_header(request, DeleteTopicFromNamesrvRequestHeader)
        check_names(header, topic=header.topic)
        self._route_info.delete_topic(header.topic, header.cluster_name)
        return make_response(request)

    def _topic_list_processor(self, what: str, topics: Callable[[], Iterator[list[str]]]) -> AsyncProcessor:
        """206, 311, 312, 313: return a list of topics; these requests have no header fields."""

        async def get_topic_list(connection: Connection, request: RemotingCommand) -> RemotingCommand:
            body = await self._whole_answers.join_table(
                connection, what, lambda: self._route_info.topics_version, lambda: _topic_list_pieces(topics())
            )
            return make_response(request, body=body)

        return get_topic_list


def _topic_list_pieces(topics: Iterator[list[str]]) -> Iterator[bytes]:
    """Yield the bytes of ``encode_body(TopicList(...))``, a few names at a time, and nothing where none is listed."""
    yield b'{"topicList":['
    comma = ""
    for names in topics:
        for start in range(0, TOPICS_PER_SLICE, _NAMES_PER_PIECE):
            listed = names[start : start + _NAMES_PER_PIECE]
            yield f"{comma}{','.join(map(dumps, listed))}".encode() if listed else b""
            comma = "," if listed else comma
    yield b"]}"
