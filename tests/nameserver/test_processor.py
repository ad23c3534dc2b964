"""Every request code of a nameserver: fields without a value, and writes that fail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketpy.protocol.codes import RequestCode, ResponseCode
from tests.nameserver.namesrv_requests import (
    BROKER,
    asked,
    filled,
)

if TYPE_CHECKING:
    from conftest import NameserverOnBytes


@pytest.mark.parametrize(
    ("code", "body", "fields"),
    [
        (RequestCode.PUT_KV_CONFIG, None, {"namespace": "ns", "key": "k", "value": "v"}),
        (RequestCode.DELETE_KV_CONFIG, None, {"namespace": "ns", "key": "k"}),
        (RequestCode.UPDATE_NAMESRV_CONFIG, b"clusterTest=true", {}),
    ],
)
async def test_a_disk_that_refuses_is_an_answer_and_changes_nothing(
    nameserver: NameserverOnBytes, tmp_path: Path, code: int, body: bytes | None, fields: dict[str, str]
) -> None:
    for name in ("kvConfig.json", "namesrv.properties"):
        (tmp_path / name).mkdir()
    before = nameserver.everything()
    reply = await asked(nameserver, code, body, **fields)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert str(tmp_path) in (reply.remark or "")
    assert nameserver.everything() == before


FIELDS: dict[RequestCode, dict[str, str]] = {
    RequestCode.PUT_KV_CONFIG: {"namespace": "ns", "key": "k", "value": "v"},
    RequestCode.GET_KV_CONFIG: {"namespace": "ns", "key": "k"},
    RequestCode.DELETE_KV_CONFIG: {"namespace": "ns", "key": "k"},
    RequestCode.GET_KVLIST_BY_NAMESPACE: {"namespace": "ns"},
    RequestCode.REGISTER_BROKER: BROKER,
    RequestCode.UNREGISTER_BROKER: BROKER,
    RequestCode.QUERY_DATA_VERSION: BROKER,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: {"topic": "t"},
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: {"brokerName": "broker-a"},
    RequestCode.ADD_WRITE_PERM_OF_BROKER: {"brokerName": "broker-a"},
    RequestCode.DELETE_TOPIC_IN_NAMESRV: {"topic": "t"},
    RequestCode.GET_TOPICS_BY_CLUSTER: {"cluster": "cluster"},
}
"""The fields of a good request of each code that has some."""

REQUIRED = [(code, name) for code, fields in FIELDS.items() for name in fields if name != "value"]


@pytest.mark.parametrize("text", [None, ""], ids=["missing", "empty"])
@pytest.mark.parametrize(("code", "name"), REQUIRED)
async def test_a_field_without_a_value_is_named_and_changes_nothing(
    nameserver: NameserverOnBytes, code: RequestCode, name: str, text: str | None
) -> None:
    """Every other wrong value: ``tests/broker/test_fuzz_requests.py``."""
    before = await filled(nameserver)
    fields = {key: each for key, each in {**FIELDS[code], name: text}.items() if each is not None}
    reply = await asked(nameserver, code, **fields)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert name in (reply.remark or "")
    assert nameserver.everything() == before
