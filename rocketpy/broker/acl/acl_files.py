"""ACL files: ``plain_acl.yml`` in the ACL directory, every ``.yml`` and ``.yaml`` below ``acl/``, and the table of all.

Reading and writing block; call them in a worker thread. The table is immutable: a change of a file makes a new one.

Rule: a file is read once, whatever the number of its names: by the first of them, in order.

Rule: reads are bounded (:data:`FILE_SIZE_MAX`, :data:`FILES_MAX`, :data:`DEPTH_MAX`), and a file is replaced
atomically, so that a crash leaves the old one or the new one.

Compatibility: ``PlainPermissionManager`` and ``AclFileWatchService`` (4.9.8). They read ``acl/`` in the order in which
the file system lists it; here files are sorted by name, with ``plain_acl.yml`` last as in Java. A missing
``plain_acl.yml`` is not created. They also keep an account after it was removed from its file, and accumulate a file's
white lists with each change of it; here the table is rebuilt from the files.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Final

import attrs

from rocketpy.broker.acl.acl_document import AclDocument, read_acl_document
from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.plain_access_resource import PlainAccessResource, build_account
from rocketpy.broker.acl.remote_address import AddressPattern, parse_address_pattern
from rocketpy.errors import StoreError
from rocketpy.protocol.bodies.acl import AclConfig, PlainAccessConfig
from rocketpy.protocol.bodies.topic import DataVersion
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.text_files import persist_text, sole_writer

DEFAULT_FILE: Final = "plain_acl.yml"
FILE_SIZE_MAX: Final = 1 << 20
FILES_MAX: Final = 256
DEPTH_MAX: Final = 8

_HIDDEN = ".."
"""How the names begin that Kubernetes gives to the versions of a mounted ConfigMap; its files are links into one."""
_TOOLS_FILE = "tools.yml"  # credentials of RocketMQ's tools, no accounts


@attrs.frozen
class FileStamp:
    """Attributes of a file that reveal a change."""

    modified_timestamp_ms: int
    size_bytes: int
    identity: str
    """Another one for a file that has taken the place of this one; empty where the system does not tell."""


@attrs.frozen
class AclFile:
    """A parsed and validated file."""

    path: str
    document: AclDocument
    white_addresses: tuple[AddressPattern, ...]
    accounts: tuple[PlainAccessResource, ...]
    version: DataVersion


class AclFiles:
    """The files below one directory."""

    def __init__(self, *, directory: str, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk

    @property
    def default_path(self) -> str:
        """The file to which new accounts are added."""
        return os.path.join(self._directory, DEFAULT_FILE)

    def stamps(self) -> dict[str, FileStamp]:
        """Return every file in order of precedence; AclError when there are too many or they cannot be listed."""
        try:
            paths = list(self._paths(os.path.join(self._directory, "acl"), 0))
            if self._disk.exists(self.default_path):
                paths.append(self.default_path)
            if len(paths) > FILES_MAX:
                raise AclError(f"{self._directory}: expected at most {FILES_MAX} files with accounts, found more")
            found: dict[str, FileStamp] = {}
            identities: set[str] = set()
            for path in paths:
                stamp = self._stamp(path)
                if stamp.identity not in identities:
                    found[path] = stamp
                identities |= {stamp.identity} - {""}
            return found
        except StoreError as failure:
            raise AclError(str(failure)) from failure

    def read(self, path: str) -> AclFile:
        """Read and validate a file; AclError names path, line and fault."""
        text = self.read_text(path)
        try:
            return _checked_file(path, text, self._stamp(path).modified_timestamp_ms)
        except AclError as failure:
            raise AclError(f"{path}: {failure}") from failure
        except StoreError as failure:
            raise AclError(str(failure)) from failure

    def read_text(self, path: str) -> str:
        """Return a file's text, empty when there is no file; AclError when it is too long or unreadable."""
        try:
            if not self._disk.exists(path):
                return ""
            file = self._disk.open(path, read_only=True)
            try:
                size = file.size()
                if size > FILE_SIZE_MAX:
                    raise AclError(f"{path}: expected at most {FILE_SIZE_MAX} bytes, found {size}")
                return file.read(0, size).decode("utf-8-sig")
            finally:
                file.close()
        except StoreError as failure:
            raise AclError(str(failure)) from failure
        except UnicodeDecodeError as failure:
            raise AclError(f"{path}: expected UTF-8, found byte {failure.object[failure.start]:#04x}") from failure

    def sole_writer(self, path: str) -> AbstractContextManager[None]:
        """Keep other processes from changing a file while the block runs; StoreError if that is not possible."""
        return sole_writer(self._disk, path)

    def write_text(self, path: str, text: str) -> None:
        """Replace a file durably. AclError when its text is invalid, StoreError when the write fails."""
        if len(text.encode("utf-8", "replace")) > FILE_SIZE_MAX:
            raise AclError(f"{path}: expected at most {FILE_SIZE_MAX} bytes, the change would make it longer")
        try:
            _checked_file(path, text, 0)
        except AclError as failure:
            raise AclError(f"{path}: {failure}") from failure
        persist_text(self._disk, path, text, is_private=True)  # it holds secrets

    def _paths(self, directory: str, depth: int) -> Iterator[str]:
        if depth > DEPTH_MAX:
            raise AclError(f"{directory}: expected at most {DEPTH_MAX} levels of directories, found more")
        for name in self._disk.list_directory(directory):
            if name.startswith(_HIDDEN):
                continue
            path = os.path.join(directory, name)
            if self._disk.is_directory(path):
                yield from self._paths(path, depth + 1)
            elif name.endswith((".yml", ".yaml")) and (depth or name != _TOOLS_FILE):
                yield path

    def _stamp(self, path: str) -> FileStamp:
        disk = self._disk
        return FileStamp(disk.modified_timestamp_ms(path), disk.file_size(path), disk.identity(path))


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
        """Return the merged configuration without the secret keys, which no request may read."""
        accounts: dict[str, PlainAccessConfig] = {}
        white_addresses: list[str] = []
        for file in self.files.values():
            white_addresses += file.document.white_addresses
            for account in file.document.accounts:
                accounts.setdefault(account.access_key, attrs.evolve(account, secret_key=None))
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


def _checked_file(path: str, text: str, modified_timestamp_ms: int) -> AclFile:
    document = read_acl_document(text)
    return AclFile(
        path=path,
        document=document,
        white_addresses=tuple(map(parse_address_pattern, document.white_addresses)),
        accounts=tuple(map(build_account, document.accounts)),
        version=document.version or DataVersion(modified_timestamp_ms, 0),
    )
