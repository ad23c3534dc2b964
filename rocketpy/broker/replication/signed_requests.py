"""Requests to the other brokers of this name, signed with an account of this broker's own files.

``replicationAccount`` names the account; its secret is in ``plain_acl.yml``, which the brokers of a name share, and not
among the settings, which any administrator may read. The account is looked up for each request, so an edit of the file
counts at once.

Compatibility: RocketMQ (4.9.8) signs none: with access control its brokers must have each other in their white lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rocketpy.errors import RemotingError
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.signature import ACCESS_KEY, SIGNATURE, SIGNED_FOR, shape_of_request, signed_content, signed_for

if TYPE_CHECKING:  # a broker without access control does not load it
    from rocketpy.broker.acl.plain_permission import PlainPermissionManager


class Requests(Protocol):
    """The part of a remoting client that is used here."""

    async def request(self, address: str, request: RemotingCommand, timeout_s: float = ...) -> RemotingCommand:
        """Send a request and return its response, whatever its code; RemotingError without one."""
        ...


class SignedRequests:
    """Signs each request and leaves it to ``client``."""

    def __init__(self, client: Requests, *, accounts: PlainPermissionManager, access_key: str) -> None:
        self._client = client
        self._accounts = accounts
        self._access_key = access_key

    async def request(self, address: str, request: RemotingCommand, timeout_s: float = 3.0) -> RemotingCommand:
        """Send a request with account and signature; RemotingError also when the files have no such account."""
        account = self._accounts.account(self._access_key)
        if account is None:
            raise RemotingError(
                f"{address} is not asked: replicationAccount = {self._access_key!r}: expected an account of "
                "plain_acl.yml, found none"
            )
        fields = dict(request.ext_fields or {})
        fields[ACCESS_KEY] = account.access_key
        fields[SIGNED_FOR] = signed_for(request.code, address, shape_of_request(fields, request.body))
        fields[SIGNATURE] = account.signing_key.sign(signed_content(fields, request.body)).decode("ascii")
        request.ext_fields = fields
        return await self._client.request(address, request, timeout_s)


def with_account(client: Requests, *, accounts: PlainPermissionManager | None, access_key: str) -> Requests:
    """Return a client that signs, or the same one without access control or account."""
    if accounts is None or not access_key:
        return client
    return SignedRequests(client, accounts=accounts, access_key=access_key)
