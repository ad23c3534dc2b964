"""Administration of accounts and of the global white list.

Compatibility: ``AdminBrokerProcessor`` (4.9.8), and for GET_BROKER_CLUSTER_ACL_CONFIG 4.9.7, the last version that
serves it and whose ``mqadmin getAclConfig`` sends it; the secret keys that RocketMQ lists are left out. Without
``aclEnable`` RocketMQ responds with the text of a NullPointerException, or not at all; here every code is answered, and
the remark says that access control is disabled. A white list is validated before it is written; RocketMQ writes an
invalid one, and the file no longer loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.needs import ADMIN, STRICT_ADMIN
from rocketpy.broker.config import BrokerConfig
from rocketpy.errors import RequestError, StoreError
from rocketpy.protocol import fastjson
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.protocol.bodies.codec import encode_body, encode_text, encode_value
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.admin import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from rocketpy.protocol.headers.codec import read_header
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher

if TYPE_CHECKING:  # a broker without access control does not load it
    from rocketpy.broker.acl.plain_permission import PlainPermissionManager

GET_BROKER_CLUSTER_ACL_CONFIG: Final = 54
"""Lists all accounts. RocketMQ has dropped it between 4.9.7 and 4.9.8; its tools of before still send it."""

_NOT_ENABLED = "access control is not enabled: the broker runs with aclEnable=false"


@attrs.define(eq=False, kw_only=True)
class AdminAclProcessor:
    """Serves the account codes. ``manager`` is None without access control."""

    _manager: PlainPermissionManager | None
    _config: BrokerConfig
    _broker_addr: str

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes."""
        dispatcher.register_task(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, self.process_update, needs=ADMIN)
        dispatcher.register_task(RequestCode.DELETE_ACL_CONFIG, self.process_delete, needs=ADMIN)
        dispatcher.register_task(
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, self.process_update_white_addresses, needs=ADMIN
        )
        dispatcher.register(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, self.process_get_version, needs=STRICT_ADMIN)
        dispatcher.register(GET_BROKER_CLUSTER_ACL_CONFIG, self.process_get_config, needs=ADMIN)

    async def process_update(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Change or add an account; answered once it is durable and in effect."""
        failed = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        header = read_header(request, CreateAccessConfigRequestHeader)
        change = PlainAccessConfig(
            access_key=header.access_key,
            secret_key=header.secret_key,
            white_remote_address=header.white_remote_address,
            admin=header.admin,
            default_topic_perm=header.default_topic_perm,
            default_group_perm=header.default_group_perm,
            topic_perms=_split(header.topic_perms),
            group_perms=_split(header.group_perms),
        )
        try:
            await self._enabled(failed).update_account(change)
        except (AclError, StoreError) as failure:
            raise RequestError(failed, str(failure)) from failure
        return make_response(request)

    async def process_delete(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Delete an account."""
        failed = ResponseCode.DELETE_ACL_CONFIG_FAILED
        access_key = read_header(request, DeleteAccessConfigRequestHeader).access_key
        try:
            is_deleted = await self._enabled(failed).delete_account(access_key)
        except (AclError, StoreError) as failure:
            raise RequestError(failed, str(failure)) from failure
        if not is_deleted:
            raise RequestError(
                failed, f"The accesskey[{access_key}] corresponding to accessConfig has been deleted failed."
            )
        return make_response(request)

    async def process_update_white_addresses(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Replace the global white list of one of the loaded files; a request cannot name any other file."""
        failed = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        header = read_header(request, UpdateGlobalWhiteAddrsConfigRequestHeader)
        addresses = [each for each in header.global_white_addrs.split(",") if each]
        try:
            manager = self._enabled(failed)
            is_updated = await manager.update_white_addresses(addresses, header.acl_file_full_path)
        except (AclError, StoreError) as failure:
            raise RequestError(failed, str(failure)) from failure
        if not is_updated:
            raise RequestError(
                failed,
                f"The globalWhiteAddresses[{header.global_white_addrs}] has been updated failed. "
                f"{header.acl_file_full_path} is not a file with accounts",
            )
        return make_response(request)

    def process_get_version(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return the data version of each file: change count and last change time."""
        manager = self._enabled(ResponseCode.SYSTEM_ERROR)
        versions = {path: encode_value(version) for path, version in manager.versions().items()}
        header = GetBrokerAclConfigResponseHeader(
            version=encode_text(manager.version),
            all_acl_file_version=fastjson.dumps(versions),
            broker_name=self._config.broker_name,
            broker_addr=self._broker_addr,
            cluster_name=self._config.broker_cluster_name,
        )
        return make_response(request, header=header)

    def process_get_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return all accounts without their secret keys; only administrators may send this code."""
        return make_response(request, body=encode_body(self._enabled(ResponseCode.SYSTEM_ERROR).config()))

    def _enabled(self, failed: int) -> PlainPermissionManager:
        if self._manager is None:
            raise RequestError(failed, _NOT_ENABLED)
        return self._manager


def _split(text: str | None) -> list[str] | None:
    """Split at commas as Java does: trailing empty parts are dropped."""
    if text is None:
        return None
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts
