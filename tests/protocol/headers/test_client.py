"""The spellings of what goes to and from clients."""

from __future__ import annotations

import pytest

from rocketpy.protocol.headers import client
from tests.protocol.headers.java_fields import check_fields

FIELDS: dict[type, str] = {
    client.UnregisterClientRequestHeader: "client_id:clientID; producer_group, consumer_group, boolean keep_locks",
    client.UnregisterClientResponseHeader: "",
    client.GetConsumerListByGroupRequestHeader: "consumer_group",
    client.GetConsumerListByGroupResponseHeader: "",
    client.NotifyConsumerIdsChangedRequestHeader: "consumer_group",
    client.ResetOffsetRequestHeader: "topic, group, long timestamp; boolean is_force",
    client.GetConsumerStatusRequestHeader: "topic, group; client_addr",
    client.GetConsumerRunningInfoRequestHeader: "consumer_group, client_id; boolean jstack_enable",
    client.ConsumeMessageDirectlyResultRequestHeader: "consumer_group; client_id, msg_id, broker_name",
}


@pytest.mark.parametrize("header_class", FIELDS, ids=lambda each: each.__name__)
def test_fields_are_spelled_as_in_java(header_class: type) -> None:
    check_fields(header_class, FIELDS[header_class])
