"""The parts of access control, put together for a broker: accounts, checks, the service that watches the files.

With ``aclEnable=false`` there are none, and the dispatcher does not know that there could be.
"""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

from rocketpy.broker.config import BrokerConfig
from rocketpy.clock import Clock
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk

if TYPE_CHECKING:  # a broker without access control does not load it
    from rocketpy.broker.acl.plain_permission import PlainPermissionManager


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
