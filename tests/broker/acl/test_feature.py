"""The access control feature gives a dispatcher its checks, or none at all."""

from __future__ import annotations

from rocketpy.broker.acl.feature import AclFeature
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.fast_path_headers import decode_fast_send
from rocketpy.protocol.frame.json_header import encode_json_header
from tests.broker.acl.accounts import make_manager, peer_at, signed


def test_without_accounts_nothing_is_checked() -> None:
    feature = AclFeature(None)
    assert (feature.authorize, feature.fast_guards, feature.services) == (None, None, ())
    assert feature.decode_send is decode_fast_send
    feature.connection_closed(peer_at("10.0.0.1"))


def test_with_accounts_every_fast_path_has_its_guard() -> None:
    manager = make_manager()
    feature = AclFeature(manager)
    assert feature.authorize == manager.authorize
    assert set(feature.fast_guards or {}) == {
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.PULL_MESSAGE,
    }
    assert len(feature.services) == 1


def test_a_session_ends_with_its_connection() -> None:
    feature, peer = AclFeature(make_manager()), peer_at("10.0.0.1")
    assert feature.guards is not None
    guard = feature.guards.by_code()[RequestCode.PULL_MESSAGE]
    header = encode_json_header(signed(RequestCode.PULL_MESSAGE, {"topic": "orders", "consumerGroup": "readers"}))
    assert guard(lambda connection, header, body: True)(peer, header, None)
    assert list(feature.guards.sessions[RequestCode.PULL_MESSAGE]) == [peer.peer]
    feature.connection_closed(peer)
    assert not any(feature.guards.sessions.values())
