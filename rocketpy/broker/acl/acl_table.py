"""Immutable table of accounts and white lists, merged from all ACL files. A change of a file creates a new table.

Compatibility: ``PlainPermissionManager`` (4.9.8), which keeps an account after it was removed from its file, and
accumulates a file's white lists with each change of it. Here the table is rebuilt from the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from rocketpy.broker.acl.acl_files import AclFile
from rocketpy.broker.acl.plain_access_resource import PlainAccessResource
from rocketpy.broker.acl.remote_address import AddressPattern
from rocketpy.protocol.bodies.acl import AclConfig, PlainAccessConfig


@attrs.frozen
class AclTable:
    """Accounts by access key, each with the first file that defines it."""

    files: Mapping[str, AclFile] = attrs.field(factory=dict)
    accounts: Mapping[str, PlainAccessResource] = attrs.field(factory=dict)
    owners: Mapping[str, str] = attrs.field(factory=dict)
    white_addresses: tuple[AddressPattern, ...] = ()
    repeated: tuple[str, ...] = ()  # ignored repeated definitions: access key and file

    def is_white(self, address: str) -> bool:
        """Whether an address needs no account."""
        return any(pattern(address) for pattern in self.white_addresses)

    def config(self) -> AclConfig:
        """Return the merged configuration, secrets included."""
        accounts: dict[str, PlainAccessConfig] = {}
        white_addresses: list[str] = []
        for file in self.files.values():
            white_addresses += file.document.white_addresses
            for account in file.document.accounts:
                accounts.setdefault(account.access_key, account)
        return AclConfig(white_addresses, list(accounts.values()))


def make_table(files: Iterable[AclFile]) -> AclTable:
    """Merge files in order of precedence. The first definition of an access key is effective."""
    by_path = {file.path: file for file in files}
    accounts: dict[str, PlainAccessResource] = {}
    owners: dict[str, str] = {}
    repeated: list[str] = []
    for file in by_path.values():
        for account in file.accounts:
            if account.access_key in accounts:
                repeated.append(f"{account.access_key} in {file.path}")
            else:
                accounts[account.access_key] = account
                owners[account.access_key] = file.path
    white_addresses = tuple(pattern for file in by_path.values() for pattern in file.white_addresses)
    return AclTable(by_path, accounts, owners, white_addresses, tuple(repeated))
