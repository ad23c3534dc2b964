"""Accounts of brokers with access control.

Compatibility: the calls of ``DefaultMQAdminExtImpl`` about access control (4.9.8).

A broker without ``aclEnable`` refuses these calls if it is ours; one in Java does not answer, and they time out.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketpy.client.admin.requests import AdminRequests
from rocketpy.client.instance import read_response
from rocketpy.protocol.bodies.acl import ClusterAclVersionInfo, PlainAccessConfig
from rocketpy.protocol.bodies.codec import decode_body, decode_value
from rocketpy.protocol.bodies.topic import DataVersion
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.fastjson import loads
from rocketpy.protocol.headers.admin import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)


class AccountAdmin:
    """Administration of accounts. Obtained as :attr:`AdminClient.accounts`."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def update(self, address: str, account: PlainAccessConfig) -> None:
        """Create an account on one broker, or change what is given of it; BrokerError 209 when that is refused.

        The secret key travels as it is: use TLS.
        """
        header = CreateAccessConfigRequestHeader(
            access_key=account.access_key,
            secret_key=account.secret_key,
            white_remote_address=account.white_remote_address,
            admin=account.admin,
            default_topic_perm=account.default_topic_perm,
            default_group_perm=account.default_group_perm,
            topic_perms=_joined(account.topic_perms),
            group_perms=_joined(account.group_perms),
        )
        await self._requests.ask_broker(address, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, header)

    async def delete(self, address: str, access_key: str) -> None:
        """Delete an account on one broker; BrokerError 210 when there is none."""
        header = DeleteAccessConfigRequestHeader(access_key)
        await self._requests.ask_broker(address, RequestCode.DELETE_ACL_CONFIG, header)

    async def update_global_white_addresses(
        self, address: str, white_addresses: Sequence[str], *, acl_file: str | None = None
    ) -> None:
        """Replace the addresses that need no account, of the main file or of another one of the broker's files.

        BrokerError 211 when that is refused.
        """
        header = UpdateGlobalWhiteAddrsConfigRequestHeader(
            global_white_addrs=",".join(white_addresses), acl_file_full_path=acl_file
        )
        await self._requests.ask_broker(address, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, header)

    async def version(self, address: str) -> ClusterAclVersionInfo:
        """Return the versions of a broker's files of accounts."""
        response = await self._requests.ask_broker(address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
        header = read_response(response, GetBrokerAclConfigResponseHeader)
        files = None
        if header.all_acl_file_version is not None:
            table = loads(header.all_acl_file_version, is_bounded=True)
            entries = table.items() if isinstance(table, dict) else ()
            files = {str(path): decode_value(version, DataVersion) for path, version in entries}
        return ClusterAclVersionInfo(
            broker_name=header.broker_name,
            broker_addr=header.broker_addr,
            cluster_name=header.cluster_name,
            acl_config_data_version=decode_body(header.version, DataVersion, is_bounded=True),
            all_acl_config_data_version=files,
        )


def _joined(permissions: Sequence[str] | None) -> str | None:
    return None if permissions is None else ",".join(permissions)
