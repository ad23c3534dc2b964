"""Allow list for changes: by code and by address, before anything else of a request is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from rocketpy.errors import RequestError
from rocketpy.nameserver.routes.guard import CHANGING_CODES, RouteGuard
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.remoting.limits.allow_list import networks

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection


def ask(allowed: str, peer: str, code: int) -> None:
    connection = cast("Connection", SimpleNamespace(peer=peer))
    RouteGuard(networks(allowed))(connection, make_request(code))


@pytest.mark.parametrize(
    ("allowed", "peer"),
    [
        ("10.0.0.0/8", "10.1.2.3:5"),
        ("10.0.0.0/8", "::ffff:10.1.2.3:5"),
        ("1.1.1.1;10.1.2.3", "10.1.2.3:5"),
        ("fe80::/10", "fe80::1%eth0:5"),
        ("::1", "::1:5"),
    ],
)
def test_an_allowed_address_may_change_something(allowed: str, peer: str) -> None:
    for code in CHANGING_CODES:
        ask(allowed, peer, code)


@pytest.mark.parametrize("peer", ["11.1.2.3:5", "::1:5", "::ffff:11.1.2.3:5", "fe80::1%eth0:5"])
def test_other_peers_may_only_query(peer: str) -> None:
    for code in RequestCode:
        if code in CHANGING_CODES:
            with pytest.raises(RequestError) as caught:
                ask("10.0.0.0/8", peer, code)
            assert caught.value.response_code == ResponseCode.NO_PERMISSION
            assert "(routeChangeAllowList)" in caught.value.remark
        else:
            ask("10.0.0.0/8", peer, code)


def test_what_changes_something_is_what_the_compatibility_page_serves_and_no_question() -> None:
    assert sorted(CHANGING_CODES) == [100, 102, 103, 104, 205, 216, 318, 322, 327]
