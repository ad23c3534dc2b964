"""An account in the form that requests are checked against: keys, white list, permissions.

Compatibility: ``PlainAccessResource`` and ``PlainPermissionManager.buildPlainAccessResource`` (4.9.8). RocketMQ's
message about a key that is too short contains the secret; ours does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.permission import (
    check_permission,
    group_resource,
    is_group_resource,
    parse_permission,
    split_resource,
)
from rocketpy.broker.acl.remote_address import AddressPattern, parse_address_pattern
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.protocol.signing_key import SigningKey
from rocketpy.protocol.topic_name import RETRY_PREFIX

KEY_LENGTH_MIN = 7


@attrs.frozen
class PlainAccessResource:
    """One account. The keys of ``resource_perms`` are topics, and retry topics for groups."""

    access_key: str
    signing_key: SigningKey = attrs.field(repr=False)
    is_white: AddressPattern
    is_admin: bool
    default_topic_perm: int
    default_group_perm: int
    resource_perms: dict[str, int]

    def check(self, resource: str, needed: int) -> None:
        """Raise AclError unless the account has the needed permission on the topic or group.

        An administrator has every permission, unless the file lists resources for it: then it is checked like others.
        """
        perms = self.resource_perms
        if self.is_admin and not perms:
            return
        owned = perms.get(resource)
        if owned is None:
            owned = self.default_group_perm if is_group_resource(resource) else self.default_topic_perm
        if not check_permission(needed, owned):
            raise AclError(f"No default permission for {_shown(resource)}")


def build_account(config: PlainAccessConfig) -> PlainAccessResource:
    """Build an account from a file or a request; AclError when a part of it is invalid."""
    check_keys(config)
    assert config.secret_key is not None
    perms: dict[str, int] = {}
    _add_perms(perms, config.group_perms, is_topic=False)
    _add_perms(perms, config.topic_perms, is_topic=True)
    return PlainAccessResource(
        access_key=config.access_key,
        signing_key=SigningKey(config.secret_key),
        is_white=parse_address_pattern(config.white_remote_address),
        is_admin=config.admin,
        default_topic_perm=parse_permission(config.default_topic_perm),
        default_group_perm=parse_permission(config.default_group_perm),
        resource_perms=perms,
    )


def check_keys(config: PlainAccessConfig) -> None:
    """Refuse an account without keys, or with short ones."""
    if len(config.access_key) < KEY_LENGTH_MIN or len(config.secret_key or "") < KEY_LENGTH_MIN:
        raise AclError(
            f"The accessKey={config.access_key} and secretKey={'null' if config.secret_key is None else '******'} "
            "cannot be null and length should longer than 6"
        )


def _add_perms(perms: dict[str, int], resources: Sequence[str] | None, *, is_topic: bool) -> None:
    for text in resources or ():
        parts = split_resource(text)
        if parts is None:
            raise AclError(f"Parse resource permission failed for {'topic' if is_topic else 'group'}:{text}")
        perms[parts[0] if is_topic else group_resource(parts[0])] = parse_permission(parts[1])


def _shown(resource: str) -> str:
    if is_group_resource(resource):
        return f"group:{resource[len(RETRY_PREFIX) :]}"
    return f"topic:{resource}"
