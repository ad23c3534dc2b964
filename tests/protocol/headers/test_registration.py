"""The spellings of a broker's registration."""

from __future__ import annotations

import pytest

from rocketpy.protocol.headers import registration
from tests.protocol.headers.java_fields import check_fields

FIELDS: dict[type, str] = {
    registration.RegisterBrokerRequestHeader: (
        "broker_name, broker_addr, cluster_name, long broker_id; ha_server_addr, boolean compressed, int body_crc32"
    ),
    registration.RegisterBrokerResponseHeader: "; ha_server_addr, master_addr",
    registration.UnRegisterBrokerRequestHeader: "broker_name, broker_addr, cluster_name, long broker_id",
    registration.QueryDataVersionRequestHeader: "broker_name, broker_addr, cluster_name, long broker_id",
    registration.QueryDataVersionResponseHeader: "boolean changed",
}


@pytest.mark.parametrize("header_class", FIELDS, ids=lambda each: each.__name__)
def test_fields_are_spelled_as_in_java(header_class: type) -> None:
    check_fields(header_class, FIELDS[header_class])
