"""Signatures of the requests that a broker makes to the other brokers of its name, with an account of its own files.

``replicationAccount`` names the account; its secret is in ``plain_acl.yml``, which the brokers of a name share, and not
among the settings, which any administrator may read. The account is looked up for each request, so an edit of the file
counts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.errors import LocalProtocolError
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.signature import ACCESS_KEY, SIGNATURE, signed_content

if TYPE_CHECKING:  # a broker without access control does not load it
    from rocketpy.broker.acl.plain_permission import PlainPermissionManager


class AccountSignature:
    """Signs requests."""

    def __init__(self, accounts: PlainPermissionManager, access_key: str) -> None:
        self._accounts = accounts
        self._access_key = access_key

    def __call__(self, request: RemotingCommand) -> None:
        """Add account and signature to the ext fields; LocalProtocolError when the files have no such account."""
        account = self._accounts.account(self._access_key)
        if account is None:
            raise LocalProtocolError(
                f"replicationAccount = {self._access_key!r}: expected an account of plain_acl.yml, found none"
            )
        fields = dict(request.ext_fields or {})
        fields[ACCESS_KEY] = account.access_key
        fields[SIGNATURE] = account.signing_key.sign(signed_content(fields, request.body)).decode("ascii")
        request.ext_fields = fields
