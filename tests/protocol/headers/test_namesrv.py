"""The spellings of the nameserver's requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.protocol.headers import namesrv

CASES = [
    (
        namesrv.PutKVConfigRequestHeader(namespace="namespace", key="key", value="value"),
        {"namespace": "namespace", "key": "key", "value": "value"},
        "namespace key",
    ),
    (
        namesrv.GetKVConfigRequestHeader(namespace="namespace", key="key"),
        {"namespace": "namespace", "key": "key"},
        "namespace key",
    ),
    (namesrv.GetKVConfigResponseHeader(value="value"), {"value": "value"}, ""),
    (
        namesrv.DeleteKVConfigRequestHeader(namespace="namespace", key="key"),
        {"namespace": "namespace", "key": "key"},
        "namespace key",
    ),
    (namesrv.GetKVListByNamespaceRequestHeader(namespace="namespace"), {"namespace": "namespace"}, "namespace"),
    (
        namesrv.GetRouteInfoRequestHeader(topic="topic", accept_standard_json_only=True),
        {"topic": "topic", "acceptStandardJsonOnly": "true"},
        "topic",
    ),
    (
        namesrv.WipeWritePermOfBrokerRequestHeader(broker_name="broker name"),
        {"brokerName": "broker name"},
        "brokerName",
    ),
    (namesrv.WipeWritePermOfBrokerResponseHeader(wipe_topic_count=1), {"wipeTopicCount": "1"}, "wipeTopicCount"),
    (namesrv.AddWritePermOfBrokerRequestHeader(broker_name="broker name"), {"brokerName": "broker name"}, "brokerName"),
    (namesrv.AddWritePermOfBrokerResponseHeader(add_topic_count=1), {"addTopicCount": "1"}, "addTopicCount"),
    (
        namesrv.DeleteTopicFromNamesrvRequestHeader(topic="topic", cluster_name="cluster name"),
        {"topic": "topic", "clusterName": "cluster name"},
        "topic",
    ),
    (namesrv.GetTopicsByClusterRequestHeader(cluster="cluster"), {"cluster": "cluster"}, "cluster"),
    (
        namesrv.RegisterOrderTopicRequestHeader(topic="topic", order_topic_string="order topic string"),
        {"topic": "topic", "orderTopicString": "order topic string"},
        "topic orderTopicString",
    ),
]


@pytest.mark.parametrize(("header", "fields", "required"), CASES, ids=lambda value: type(value).__name__)
def test_header(check_header: Callable[..., None], header: object, fields: dict[str, str], required: str) -> None:
    check_header(header, fields, required=required)
