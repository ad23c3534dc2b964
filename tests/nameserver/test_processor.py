"""Every request code of a nameserver: wrong fields, random bodies, failing writes and unknown codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from tests.nameserver.namesrv_requests import (
    BROKER,
    asked,
    filled,
    registration,
    request,
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
    assert reply.remark is not None
    assert str(tmp_path) in reply.remark
    assert nameserver.everything() == before


TEXT = ("missing", "empty")
INT32 = ("missing", "empty", "x", "1.5", "-", " 1", str(2**31), str(-(2**31) - 1))
INT64 = ("missing", "empty", "x", "1.5", "0x1", str(2**63), str(-(2**63) - 1), "9" * 5000)
OPTIONAL_INT32 = INT32[1:]


def without(fields: dict[str, str], name: str) -> dict[str, str]:
    return {key: text for key, text in fields.items() if key != name}


# code -> good fields, and of each field that can be wrong the values that are
WRONG: dict[RequestCode, tuple[dict[str, str], dict[str, tuple[str, ...]]]] = {
    RequestCode.PUT_KV_CONFIG: ({"namespace": "ns", "key": "k", "value": "v"}, {"namespace": TEXT, "key": TEXT}),
    RequestCode.GET_KV_CONFIG: ({"namespace": "ns", "key": "k"}, {"namespace": TEXT, "key": TEXT}),
    RequestCode.DELETE_KV_CONFIG: ({"namespace": "ns", "key": "k"}, {"namespace": TEXT, "key": TEXT}),
    RequestCode.GET_KVLIST_BY_NAMESPACE: ({"namespace": "ns"}, {"namespace": TEXT}),
    RequestCode.REGISTER_BROKER: (
        BROKER,
        {
            "brokerName": TEXT,
            "brokerAddr": TEXT,
            "clusterName": TEXT,
            "brokerId": INT64,
            "bodyCrc32": OPTIONAL_INT32,
        },
    ),
    RequestCode.UNREGISTER_BROKER: (
        BROKER,
        {"brokerName": TEXT, "brokerAddr": TEXT, "clusterName": TEXT, "brokerId": INT64},
    ),
    RequestCode.QUERY_DATA_VERSION: (
        BROKER,
        {"brokerName": TEXT, "brokerAddr": TEXT, "clusterName": TEXT, "brokerId": INT64},
    ),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: ({"topic": "t"}, {"topic": TEXT}),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: ({"brokerName": "broker-a"}, {"brokerName": TEXT}),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: ({"brokerName": "broker-a"}, {"brokerName": TEXT}),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: ({"topic": "t"}, {"topic": TEXT}),
    RequestCode.GET_TOPICS_BY_CLUSTER: ({"cluster": "cluster"}, {"cluster": TEXT}),
}
WRONG_FIELDS = [
    pytest.param(code, without(fields, name), name, value, id=f"{code}-{name}-{value[:24]}")
    for code, (fields, wrong) in WRONG.items()
    for name, values in wrong.items()
    for value in values
]


@pytest.mark.parametrize("serialize_type", SerializeType)
@pytest.mark.parametrize(("code", "others", "name", "value"), WRONG_FIELDS)
async def test_a_wrong_field_is_named_and_changes_nothing(
    nameserver: NameserverOnBytes,
    code: int,
    others: dict[str, str],
    name: str,
    value: str,
    serialize_type: SerializeType,
) -> None:
    before = await filled(nameserver)
    command = request(code, **others)
    if value != "missing":
        command.ext_fields = {**others, name: "" if value == "empty" else value}
    command.serialize_type = serialize_type
    reply = await nameserver.ask(command)
    assert reply is not None
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark is not None
    assert name in reply.remark
    assert len(reply.remark) < 300
    assert nameserver.everything() == before


def _expect_refused_or_whole(body: bytes) -> bool:
    """Whether a body may be taken: only if it is a JSON object (of any content) or nothing."""
    try:
        return not body or isinstance(json.loads(body), dict | type(None))
    except ValueError:
        return False


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    body=st.binary(max_size=200) | st.text(max_size=50).map(str.encode),
    code=st.sampled_from((RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION)),
    is_compressed=st.booleans(),
    version=st.sampled_from((0, 36, 37, 409, -1)),
)
async def test_random_bytes_as_a_body_are_answered_and_change_nothing(
    nameserver: NameserverOnBytes, body: bytes, code: int, is_compressed: bool, version: int
) -> None:
    if not is_compressed and _expect_refused_or_whole(body):
        return
    if nameserver.route_info.statistics().brokers == 0:
        await filled(nameserver)
    before = nameserver.everything()
    command = registration(compressed="true" if is_compressed else "false")
    command.code = code
    command.body = body or b"\x00"
    command.version = version
    reply = await nameserver.ask(command)
    assert reply is not None
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark is not None
    assert reply.remark.startswith("body: ")
    assert nameserver.everything() == before
