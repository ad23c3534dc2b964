"""The access control feature: its accounts, checks of requests, guards of fast paths, the service that watches files.

With ``aclEnable=false`` there are no accounts, and the dispatcher does no check at all.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.feature import Feature
from rocketpy.clock import Clock
from rocketpy.protocol.fast_path_headers import DecodeBatch, DecodeSend, decode_fast_batch, decode_fast_send
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Authorize, FastGuard
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk

if TYPE_CHECKING:  # a broker without access control does not load it
    from rocketpy.broker.acl.fast_path_guards import FastPathGuards
    from rocketpy.broker.acl.plain_permission import PlainPermissionManager


class AclFeature(Feature):
    """Request checks for a dispatcher, derived from the accounts; ``accounts`` is None without any."""

    def __init__(self, accounts: PlainPermissionManager | None, *, addresses: Sequence[str] = ()) -> None:
        """``addresses`` lead to this broker, beside those that peers have connected to."""
        self.authorize: Authorize | None = None
        self.fast_guards: Mapping[int, FastGuard] | None = None
        self.decode_send: DecodeSend = decode_fast_send
        """Decodes the header of a send on its fast path; reuses what a guard has decoded."""
        self.decode_batch: DecodeBatch = decode_fast_batch
        """The same for a batch."""
        self._accounts = accounts
        self.guards: FastPathGuards | None = None
        if accounts is not None:
            # Loaded here, so that a broker without access control does not wait for it.
            from rocketpy.broker.acl.fast_path_guards import FastPathGuards
            from rocketpy.broker.acl.file_watch import AclFileWatchService

            accounts.serve_at(addresses)
            self.guards = FastPathGuards(accounts)
            self.authorize = accounts.authorize
            self.fast_guards = self.guards.by_code()
            self.decode_send = self.guards.decode_send
            self.decode_batch = self.guards.decode_batch
            self.services = (AclFileWatchService(manager=accounts),)

    def declare(self, needs: Mapping[int, object]) -> None:
        """Take over what the registered request codes need; comes once every feature has registered."""
        if self._accounts is not None:
            from rocketpy.broker.acl.needed_permissions import needs_by_code

            self._accounts.declare(needs_by_code(needs))

    def connection_closed(self, connection: Connection) -> None:
        """Drop the sessions of a peer."""
        if self.guards is not None:
            self.guards.connection_closed(connection)


def acl_directory(config: BrokerConfig, config_path: str) -> str:
    """Return where ``plain_acl.yml`` is: ``aclDirectory``, or ``conf`` in ``rocketmqHome``, or beside broker.conf.

    An absolute path: operators see it in answers, and name a file by it.
    """
    if config.acl_directory:
        return os.path.abspath(config.acl_directory)
    if config.rocketmq_home:
        return os.path.abspath(os.path.join(config.rocketmq_home, "conf"))
    return os.path.dirname(os.path.abspath(config_path))


def load_accounts(
    config: BrokerConfig,
    config_path: str,
    *,
    disk: Disk,
    run_blocking: RunBlocking,
    clock: Clock,
    multi_dispatch: bool = False,
) -> PlainPermissionManager | None:
    """Return the accounts of a broker, None without access control; StartError when a file makes no sense.

    ``multi_dispatch`` is the store's setting: whether messages get into the queues that they name.
    """
    if not config.acl_enable:
        return None
    # Loaded here, so that a broker without access control does not wait for it.
    from rocketpy.broker.acl.acl_files import AclFiles
    from rocketpy.broker.acl.plain_permission import PlainPermissionManager

    manager = PlainPermissionManager(
        files=AclFiles(directory=acl_directory(config, config_path), disk=disk),
        run_blocking=run_blocking,
        clock=clock,
        is_strict=config.acl_strict,
        multi_dispatch=multi_dispatch,
        body_size_max=lambda: config.client_body_bytes_max,
    )
    manager.load()
    return manager
