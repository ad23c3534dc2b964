"""What is known of a peer that makes requests with one account: see :mod:`.fast_path_guards`."""

from __future__ import annotations

from typing import Final, final

from rocketpy.broker.acl.plain_access_resource import PlainAccessResource
from rocketpy.protocol.signing_key import SigningKey


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
