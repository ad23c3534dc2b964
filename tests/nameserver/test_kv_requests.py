"""The KV configuration over requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import RequestCode, ResponseCode
from tests.nameserver.namesrv_requests import (
    asked,
    good,
    request,
)

if TYPE_CHECKING:
    from conftest import NameserverOnBytes


async def test_kv_values_come_and_go(nameserver: NameserverOnBytes) -> None:
    where = {"namespace": "ns", "key": "k"}
    reply = await asked(nameserver, RequestCode.GET_KV_CONFIG, **where)
    assert (reply.code, reply.ext_fields) == (ResponseCode.QUERY_NOT_FOUND, {})
    assert reply.remark == "No config item, Namespace: ns Key: k"
    reply = await asked(nameserver, RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ns")
    assert (reply.code, reply.remark) == (ResponseCode.QUERY_NOT_FOUND, "No config item, Namespace: ns")
    await good(nameserver, request(RequestCode.PUT_KV_CONFIG, value="v 值", **where))
    reply = await good(nameserver, request(RequestCode.GET_KV_CONFIG, **where))
    assert reply.ext_fields == {"value": "v 值"}
    reply = await good(nameserver, request(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ns"))
    assert decode_body(reply.body, KVTable).table == {"k": "v 值"}
    for _ in range(2):
        await good(nameserver, request(RequestCode.DELETE_KV_CONFIG, **where))
    assert (await asked(nameserver, RequestCode.GET_KV_CONFIG, **where)).code == ResponseCode.QUERY_NOT_FOUND
    reply = await good(nameserver, request(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ns"))
    assert decode_body(reply.body, KVTable).table == {}
