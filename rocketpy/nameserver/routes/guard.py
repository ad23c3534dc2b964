"""Address allow list for changes of routes, KV configuration and settings of a nameserver.

RocketMQ's nameserver has no accounts: any peer may register a broker under any name and so take over its routes.
``routeChangeAllowList`` names the addresses of brokers and administrators; all other peers may only read.

Rule: the guard checks the request code and the peer's address before anything else of a request is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketpy.errors import RequestError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.host import host_of
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.limits.allow_list import IPNetwork, is_allowed

CHANGING_CODES = frozenset(
    {
        RequestCode.PUT_KV_CONFIG,
        RequestCode.DELETE_KV_CONFIG,
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.QUERY_DATA_VERSION,
        RequestCode.ADD_WRITE_PERM_OF_BROKER,
    }
)
"""QUERY_DATA_VERSION is included because it renews a broker's registration."""


class RouteGuard:
    """Refuses changing requests from addresses that are not allowed."""

    def __init__(self, allowed: Sequence[IPNetwork]) -> None:
        self._allowed = tuple(allowed)

    def __call__(self, connection: Connection, request: RemotingCommand) -> None:
        """Raise :class:`~rocketpy.errors.RequestError` with NO_PERMISSION if the peer may not send this code."""
        if request.code not in CHANGING_CODES:
            return
        host = host_of(connection.peer)
        if not is_allowed(host, self._allowed):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"request code {request.code} is not allowed to {host} (routeChangeAllowList)",
            )
