"""Requests for routes, clusters and topic lists, and administrative changes of routes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import attrs

from rocketpy.nameserver.config import NamesrvConfiguration
from rocketpy.nameserver.kv_config import NAMESPACE_ORDER_TOPIC_CONFIG, KVConfigManager
from rocketpy.nameserver.refusals import check_names
from rocketpy.nameserver.routes.route_info import RouteInfoManager
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
from rocketpy.remoting.dispatch import Dispatcher

VERSION_V4_9_4 = 401
"""First client version that reads standard JSON in routes."""

FAQ_SUFFIX = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."

_log = logging.getLogger("rocketpy.nameserver")


@attrs.define(eq=False, kw_only=True)
class RouteProcessor:
    """Serves the requests about routes."""

    _route_info: RouteInfoManager[Connection]
    _kv_config: KVConfigManager
    _configuration: NamesrvConfiguration

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes."""
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

    def get_broker_cluster_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """106: return every broker and cluster; never standard JSON, whatever the client's version."""
        return make_response(request, body=encode_body(self._route_info.cluster_info()))

    def get_topics_by_cluster(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred:
        """224: return the topics of a cluster."""
        header = read_header(request, GetTopicsByClusterRequestHeader)
        check_names(header, cluster=header.cluster)
        topics = self._route_info.topics_of_cluster(header.cluster)
        return served(connection, request, _topic_list_steps(request, topics))

    def get_system_topic_list(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """304: return the names of clusters and brokers, and the address of one broker to query for more."""
        return make_response(request, body=encode_body(self._route_info.system_topics()))

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


def _topic_list_processor(
    topics: Callable[[], Iterator[list[str]]],
) -> Callable[[Connection, RemotingCommand], RemotingCommand | Deferred]:
    """206, 311, 312, 313: return a list of topics; these requests have no header fields."""

    def get_topic_list(connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred:
        return served(connection, request, _topic_list_steps(request, topics()))

    return get_topic_list


def _topic_list_steps(request: RemotingCommand, topics: Iterator[list[str]]) -> Steps:
    """Produce the bytes of ``encode_body(TopicList(...))``, one slice of the topics at a time."""
    pieces: list[str] = []
    for names in topics:
        pieces += map(dumps, names)
        yield
    return make_response(request, body=f'{{"topicList":[{",".join(pieces)}]}}'.encode())
