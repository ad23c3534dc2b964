"""The answer to a request that is not allowed, as clients show it."""

from __future__ import annotations

from rocketpy.broker.acl.acl_error import refusal
from rocketpy.protocol.codes import ResponseCode


def test_a_refusal_looks_like_javas_exception() -> None:
    answer = refusal("No accessKey is configured")
    assert answer.response_code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "org.apache.rocketmq.acl.common.AclException: No accessKey is configured"


def test_what_an_unknown_peer_sent_is_not_repeated_at_any_length() -> None:
    assert len(refusal("No acl config for " + "x" * 1_000_000).remark) < 1200
