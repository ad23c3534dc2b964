"""What ``aclStrict`` asks of a request that was let in, once it is known what the request is about.

Some requests name a message by its offset, and a permission can be judged only when that has been read. Others end what
another request has begun: a transaction belongs to the account that sent its half message. Without ``aclStrict``, and
for addresses of a global white list, nothing is asked, as in RocketMQ.

The access key of a request is proved by its signature, or by an address of the account's own white list, before any
processor sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.connection import Connection

if TYPE_CHECKING:  # a broker without access control does not load it
    from rocketpy.broker.acl.plain_permission import PlainPermissionManager


class StrictAccounts:
    """The later questions of one broker; ``manager`` is None without access control."""

    def __init__(self, manager: PlainPermissionManager | None) -> None:
        self._manager = manager if manager is not None and manager.is_strict else None

    @property
    def is_strict(self) -> bool:
        """Whether anything is asked at all."""
        return self._manager is not None

    def access_key(self, connection: Connection, request: RemotingCommand) -> str | None:
        """Return the account that a request was made with; None where it does not count."""
        if self._manager is None:
            return None
        requester = self._manager.requester(connection, request)
        return None if requester is None else requester.account.access_key

    def check(self, connection: Connection, request: RemotingCommand, resource: str, permission: int) -> None:
        """Raise RequestError unless the account of a request may do this with a topic or group."""
        if self._manager is None:
            return
        requester = self._manager.requester(connection, request)
        if requester is None or requester.is_at_home:
            return
        try:
            requester.account.check(resource, permission)
        except AclError as failure:
            raise self._manager.refuse(connection, request, str(failure)) from failure

    def check_owner(self, connection: Connection, request: RemotingCommand, owner: str | None, what: str) -> None:
        """Raise RequestError unless a request was made with the account that owns a thing, or with an administrator's.

        What no account owns (``aclStrict`` was off, or its sender in a global white list) is anybody's.
        """
        if self._manager is None or owner is None:
            return
        requester = self._manager.requester(connection, request)
        if requester is None or requester.account.access_key == owner or requester.account.is_admin:
            return
        why = f"accessKey={requester.account.access_key} is not the account that sent {what}"
        raise self._manager.refuse(connection, request, why)
