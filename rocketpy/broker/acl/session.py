"""What is known of a peer that makes requests with one account: see :mod:`.fast_path_guards`."""

from __future__ import annotations

from typing import Final, Protocol, final

from rocketpy.broker.acl.plain_access_resource import PlainAccessResource
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.signing_key import SigningKey
from rocketpy.remoting.connection import Connection


class HeldPermission:
    """What a request was allowed by that is answered later."""

    def __init__(self, access_key: str | None, account: PlainAccessResource | None, table_number: int) -> None:
        """``account`` has signed it; None if its address needed no signature."""
        self.access_key = access_key
        self.account = account
        self.table_number = table_number  # of the accounts by which it was allowed


class HeldPermissions(Protocol):
    """The accounts, for requests that wait; :class:`~rocketpy.broker.acl.plain_permission.PlainPermissionManager`."""

    def held_permission(self, connection: Connection, access_key: str | None) -> HeldPermission:
        """Return the permission of a request that was allowed just now."""
        ...

    def check_held(self, connection: Connection, request: RemotingCommand, held: HeldPermission) -> None:
        """Raise RequestError unless the accounts as they are now allow a request that was allowed and still waits."""
        ...


@final
class Session:
    """Cached decisions on the requests with one code that a peer makes with one account."""

    def __init__(
        self,
        access_key: str | None,
        account: PlainAccessResource | None,
        *,
        needs_nothing: bool = False,
        needs_no_signature: bool = False,
    ) -> None:
        """Without an account no signature matches: that is a peer of a global white list, or one without a session.

        ``needs_nothing`` says that its address is in a global white list, ``needs_no_signature`` that it is in the
        account's.
        """
        self.access_key = access_key
        self.account = account
        self.needs_nothing = needs_nothing
        self.needs_no_signature = needs_no_signature
        self.allowed: set[tuple[str, str]] = set()
        """Topic and group of permitted requests."""
        self.last_topic: str | None = None
        self.last_group: str | None = None
        """The pair out of them that :meth:`allows` was asked for last. For a comparison by identity: the kernels give
        the same objects for all headers of one form. No tuple, because compiled code makes a new one at each use."""
        self._key: SigningKey | None = None if account is None else account.signing_key

    def allows(self, topic: str, group: str) -> bool:
        """Whether requests with this topic and group are permitted."""
        if topic is self.last_topic and group is self.last_group:
            return True
        if (topic, group) not in self.allowed:
            return False
        self.last_topic = topic
        self.last_group = group
        return True

    def matches(self, content: bytes, digest: bytes, rest: bytes = b"") -> bool:
        """Whether the account has signed ``content`` and ``rest``; for a signature out of its Base64."""
        key = self._key
        return key is not None and key.matches_digest(content, digest, rest)

    def matches_text(self, content: bytes, signature: bytes, rest: bytes = b"") -> bool:
        """The same for one in Base64."""
        key = self._key
        return key is not None and key.matches_text(content, signature, rest)


NO_SESSION: Final = Session(None, None)
"""Stands for a peer without a session: no request names its access key."""
