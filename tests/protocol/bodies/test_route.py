"""Routes: the two forms that depend on who asks."""

from __future__ import annotations

import json

from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from tests.recorded import BODIES


def test_a_route_for_newer_clients_is_standard_json() -> None:
    route = decode_body(BODIES["TopicRouteData order+filter"]["compact"], TopicRouteData)
    standard = encode_body(route, standard=True).decode()
    assert standard == BODIES["TopicRouteData standard"]["compact"]
    assert decode_body(standard, TopicRouteData) == route


def test_the_standard_form_has_its_maps_in_order_and_no_other_script() -> None:
    route = TopicRouteData(
        order_topic_conf="b:4/é",
        queue_datas=[QueueData("b", 1, 2, 6, 0)],
        broker_datas=[BrokerData("c", "b", {10: "x", 2: "y", 0: "z"})],
        filter_server_table={"b": [], "a": ["f"]},
    )
    text = encode_body(route, standard=True)
    assert text.isascii()
    assert b'{"0":"z","2":"y","10":"x"}' in text
    assert b'{"a":["f"],"b":[]}' in text
    assert b'"b:4\\/\\u00E9"' in text
    assert json.loads(text)["orderTopicConf"] == "b:4/é"
    assert b'{10:"x",2:"y",0:"z"}' in encode_body(route)


def test_a_route_without_filter_servers_is_read() -> None:
    """Java leaves the table out where it is null; a nameserver always sends one."""
    route = decode_body(BODIES["TopicRouteData"]["compact"], TopicRouteData)
    assert route.filter_server_table == {}
    assert route.broker_datas == [
        BrokerData("DefaultCluster", "broker-0", {0: "127.0.0.1:10911", 1: "127.0.0.1:10921"})
    ]
    assert route.queue_datas == [QueueData("broker-0", 4, 4, 6, 0)]
