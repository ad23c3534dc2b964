"""Additional checks of ``aclStrict`` that need data which only the processor has.

Some requests name a message by its offset, so its topic is known only after the record was read. Others complete an
earlier request: a transaction belongs to the account that sent its half message. Without ``aclStrict``, and for
addresses of a global white list, there are no additional checks, as in RocketMQ.

Before any processor sees a request, its access key has been authenticated by the signature, or by an address of the
account's own white list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.connection import Connection

if TYPE_CHECKING:  # a broker without access control does not load it
    from rocketpy.broker.acl.plain_permission import PlainPermissionManager


class StrictAccounts:
    """The additional checks of one broker; ``manager`` is None without access control."""

    def __init__(self, manager: PlainPermissionManager | None) -> None:
        self._manager = manager if manager is not None and manager.is_strict else None

    @property
    def is_strict(self) -> bool:
        """Whether additional checks are enabled."""
        return self._manager is not None

    def access_key(self, connection: Connection, request: RemotingCommand) -> str | None:
        """Return the access key of a request's account; None when it is not checked."""
        if self._manager is None:
            return None
        requester = self._manager.requester(connection, request)
        return None if requester is None else requester.account.access_key

    def key_to_ask(self, owner: str | None) -> str | None:
        """Return the access key of connections that may be asked about what an account owns; None for all.

        That of an account that has gone is empty, which no connection has: it is not asked any more, though its
        heartbeats count for two minutes.
        """
        if self._manager is None or owner is None:
            return None
        return owner if self._manager.account(owner) is not None else ""

    def check(self, connection: Connection, request: RemotingCommand, resource: str, permission: int) -> None:
        """Raise RequestError unless the account of a request has a permission on a topic or group."""
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
        """Raise RequestError unless a request's account owns a resource or is an administrator.

        A resource without an owner (``aclStrict`` was off, or its sender in a global white list) is not protected.
        """
        if self._manager is None or owner is None:
            return
        requester = self._manager.requester(connection, request)
        if requester is None or requester.account.access_key == owner or requester.account.is_admin:
            return
        why = f"accessKey={requester.account.access_key} is not the account that sent {what}"
        raise self._manager.refuse(connection, request, why)
