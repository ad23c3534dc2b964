"""The spellings of what goes to and from clients."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.protocol.headers import client

CASES = [
    (
        client.UnregisterClientRequestHeader(
            client_id="client id", producer_group="producer group", consumer_group="consumer group"
        ),
        {"clientID": "client id", "producerGroup": "producer group", "consumerGroup": "consumer group"},
        "clientID",
    ),
    (client.UnregisterClientResponseHeader(), {}, ""),
    (
        client.GetConsumerListByGroupRequestHeader(consumer_group="consumer group"),
        {"consumerGroup": "consumer group"},
        "consumerGroup",
    ),
    (client.GetConsumerListByGroupResponseHeader(), {}, ""),
    (
        client.NotifyConsumerIdsChangedRequestHeader(consumer_group="consumer group"),
        {"consumerGroup": "consumer group"},
        "consumerGroup",
    ),
    (
        client.ResetOffsetRequestHeader(topic="topic", group="group", timestamp=1099511627778, is_force=True),
        {"topic": "topic", "group": "group", "timestamp": "1099511627778", "isForce": "true"},
        "topic group timestamp",
    ),
    (
        client.GetConsumerStatusRequestHeader(topic="topic", group="group", client_addr="client addr"),
        {"topic": "topic", "group": "group", "clientAddr": "client addr"},
        "topic group",
    ),
    (
        client.GetConsumerRunningInfoRequestHeader(
            consumer_group="consumer group", client_id="client id", jstack_enable=True
        ),
        {"consumerGroup": "consumer group", "clientId": "client id", "jstackEnable": "true"},
        "consumerGroup clientId",
    ),
    (
        client.ConsumeMessageDirectlyResultRequestHeader(
            consumer_group="consumer group", client_id="client id", msg_id="msg id", broker_name="broker name"
        ),
        {"consumerGroup": "consumer group", "clientId": "client id", "msgId": "msg id", "brokerName": "broker name"},
        "consumerGroup",
    ),
]


@pytest.mark.parametrize(("header", "fields", "required"), CASES, ids=lambda value: type(value).__name__)
def test_header(check_header: Callable[..., None], header: object, fields: dict[str, str], required: str) -> None:
    check_header(header, fields, required=required)
