"""Access control as administrators see it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rocketpy.protocol.bodies.topic import DataVersion
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen
class PlainAccessConfig(ValueMethods):
    """An account; permissions are ``resource=PERM``. It holds the secret, which ``repr`` does not show."""

    access_key: str
    secret_key: str | None = attrs.field(default=None, repr=False)
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: Sequence[str] | None = None
    group_perms: Sequence[str] | None = None


@attrs.frozen
class AclConfig(ValueMethods):
    """All accounts and the addresses that need none."""

    global_white_addrs: Sequence[str] | None = None
    plain_access_configs: Sequence[PlainAccessConfig] | None = None


@attrs.frozen
class ClusterAclVersionInfo(ValueMethods):
    """The state of a broker's accounts: the version of the main file, and of each file by its path."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    acl_config_data_version: DataVersion | None = None
    all_acl_config_data_version: dict[str, DataVersion] | None = None
