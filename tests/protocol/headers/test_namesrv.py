"""The spellings of the nameserver's requests."""

from __future__ import annotations

import pytest

from rocketpy.protocol.headers import namesrv
from tests.protocol.headers.java_fields import check_fields

FIELDS: dict[type, str] = {
    namesrv.PutKVConfigRequestHeader: "namespace, key; value",
    namesrv.GetKVConfigRequestHeader: "namespace, key",
    namesrv.GetKVConfigResponseHeader: "; value",
    namesrv.DeleteKVConfigRequestHeader: "namespace, key",
    namesrv.GetKVListByNamespaceRequestHeader: "namespace",
    namesrv.GetRouteInfoRequestHeader: "topic; boolean accept_standard_json_only",
    namesrv.WipeWritePermOfBrokerRequestHeader: "broker_name",
    namesrv.WipeWritePermOfBrokerResponseHeader: "int wipe_topic_count",
    namesrv.AddWritePermOfBrokerRequestHeader: "broker_name",
    namesrv.AddWritePermOfBrokerResponseHeader: "int add_topic_count",
    namesrv.DeleteTopicFromNamesrvRequestHeader: "topic; cluster_name",
    namesrv.GetTopicsByClusterRequestHeader: "cluster",
    namesrv.RegisterOrderTopicRequestHeader: "topic, order_topic_string",
}


@pytest.mark.parametrize("header_class", FIELDS, ids=lambda each: each.__name__)
def test_fields_are_spelled_as_in_java(header_class: type) -> None:
    check_fields(header_class, FIELDS[header_class])
