"""The spellings of a broker's registration."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.protocol.headers import registration

CASES = [
    (
        registration.RegisterBrokerRequestHeader(
            broker_name="broker name",
            broker_addr="broker addr",
            cluster_name="cluster name",
            ha_server_addr="ha server addr",
            broker_id=1099511627780,
            compressed=True,
            body_crc32=7,
        ),
        {
            "brokerName": "broker name",
            "brokerAddr": "broker addr",
            "clusterName": "cluster name",
            "haServerAddr": "ha server addr",
            "brokerId": "1099511627780",
            "compressed": "true",
            "bodyCrc32": "7",
        },
        "brokerName brokerAddr clusterName brokerId",
    ),
    (
        registration.RegisterBrokerResponseHeader(ha_server_addr="ha server addr", master_addr="master addr"),
        {"haServerAddr": "ha server addr", "masterAddr": "master addr"},
        "",
    ),
    (
        registration.UnRegisterBrokerRequestHeader(
            broker_name="broker name", broker_addr="broker addr", cluster_name="cluster name", broker_id=1099511627779
        ),
        {
            "brokerName": "broker name",
            "brokerAddr": "broker addr",
            "clusterName": "cluster name",
            "brokerId": "1099511627779",
        },
        "brokerName brokerAddr clusterName brokerId",
    ),
    (
        registration.QueryDataVersionRequestHeader(
            broker_name="broker name", broker_addr="broker addr", cluster_name="cluster name", broker_id=1099511627779
        ),
        {
            "brokerName": "broker name",
            "brokerAddr": "broker addr",
            "clusterName": "cluster name",
            "brokerId": "1099511627779",
        },
        "brokerName brokerAddr clusterName brokerId",
    ),
    (registration.QueryDataVersionResponseHeader(changed=True), {"changed": "true"}, "changed"),
]


@pytest.mark.parametrize(("header", "fields", "required"), CASES, ids=lambda value: type(value).__name__)
def test_header(check_header: Callable[..., None], header: object, fields: dict[str, str], required: str) -> None:
    check_header(header, fields, required=required)
