"""Authorization of requests by accounts, in RocketMQ's order and with RocketMQ's texts.

1. an address of a global white list needs no account;
2. a request without an access key, or with an unknown one, is refused;
3. an address of the account's own white list needs neither signature nor permission (with ``aclStrict``, an
   administrator's request still needs the account of an administrator);
4. the signature must be valid, and made for this code and this broker if it says for which; with ``aclStrict`` that of
   an administrator's request must say so if a client in Python has made it: ours do;
5. a send to RMQ_SYS_TRACE_TOPIC needs no permission on that topic;
6. administrators' requests need an administrator, all others the permissions in :mod:`.needed_permissions`.

An unknown access key takes as long as a wrong signature: it is checked against the key of a dummy account. The table
follows the files; an invalid file keeps its previous content in effect, and the log names the fault.

Compatibility: ``PlainPermissionManager`` (4.9.8). Java decodes a body before any check; here the body of
an unauthenticated request is not decoded. A removed account is unknown here, and "No PlainAccessResource" in Java.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs
import trio

from rocketpy.broker.acl.acl_document import read_acl_document
from rocketpy.broker.acl.acl_edit import with_account, with_version, with_white_addresses, without_account
from rocketpy.broker.acl.acl_error import AclError, refusal
from rocketpy.broker.acl.acl_files import AclFile, AclFiles, AclTable, FileStamp, make_table
from rocketpy.broker.acl.needed_permissions import BODY_SIZE_MAX, needed_permissions
from rocketpy.broker.acl.needs import ANY_ACCOUNT, Needs
from rocketpy.broker.acl.permission import PUB, check_resource_permissions
from rocketpy.broker.acl.plain_access_resource import PlainAccessResource, build_account, check_keys
from rocketpy.broker.acl.remote_address import host_of_peer, parse_address_pattern
from rocketpy.broker.acl.session import HeldPermission
from rocketpy.clock import Clock
from rocketpy.errors import RequestError, StartError
from rocketpy.protocol.bodies.acl import AclConfig, PlainAccessConfig
from rocketpy.protocol.bodies.topic import DataVersion
from rocketpy.protocol.codes import LanguageCode, RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.signature import ACCESS_KEY, SIGNED_FOR_BEGIN, proved_content, shape_of_request
from rocketpy.protocol.topic_name import TRACE_TOPIC
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.limits.targets import ANY_ADDRESS
from rocketpy.runner import RunBlocking

_DUMMY_ACCOUNT = build_account(PlainAccessConfig("no such account", "the key of no account"))
_LOGGED_MAX = 1000
_SHOWN_MAX = 100
_SIGNED_FOR_MAX = 512  # more than the longest name of a host needs
_SENDS = frozenset((RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE))

_log = logging.getLogger("rocketpy.broker.acl")


@attrs.frozen
class Requester:
    """The account that an allowed request was made with."""

    account: PlainAccessResource
    is_at_home: bool  # its address is in the account's white list: it needs no permission


class PlainPermissionManager:
    """The accounts of one broker. :meth:`load` comes first; :meth:`reload` is called by a service."""

    def __init__(
        self,
        *,
        files: AclFiles,
        run_blocking: RunBlocking,
        clock: Clock,
        is_strict: bool,
        multi_dispatch: bool = False,
        body_size_max: Callable[[], int] = lambda: BODY_SIZE_MAX,
    ) -> None:
        self.is_strict = is_strict
        self._body_size_max = body_size_max  # bound for bodies that must be decoded to find the needed permissions
        self._multi_dispatch = multi_dispatch  # messages are dispatched to the queues that they name
        self._files = files
        self._run_blocking = run_blocking
        self._clock = clock
        self._addresses: tuple[str, ...] = ()  # of this broker, beside the one by which a peer has reached it
        self._needs: Mapping[int, Needs] | None = None  # of every request code that is served; None before it is known
        self._table = AclTable()
        self._table_number = 0  # counts the replacements of the table
        self._listeners: list[Callable[[], None]] = []  # for replacements of the table
        self._stamps: dict[str, FileStamp] = {}
        self._refused: set[tuple[str, str]] = set()  # refusals logged in this hour
        self._refused_hour = 0
        self._logged_fault = ""  # the fault of the files that was logged last
        # Reads and writes of files await: a reload between the two halves of an edit would restore the old table.
        self._changing = trio.Lock()

    # ---- requests ---------------------------------------------------------------------------------------------------

    def declare(self, needs: Mapping[int, Needs]) -> None:
        """Set what each served request code needs; comes before the first request."""
        self._needs = needs

    def serve_at(self, addresses: Iterable[str]) -> None:
        """Set the addresses for which requests may be signed beside the one that they have come to; ``*`` is any."""
        self._addresses = tuple(addresses)

    def authorize(self, connection: Connection, request: RemotingCommand) -> None:
        """Raise RequestError unless the request is allowed."""
        address = host_of_peer(connection.peer)
        if self._table.is_white(address):
            return
        try:
            self._validate(connection, request, address)
        except AclError as failure:
            self._log_refusal(address, request, str(failure))
            raise refusal(str(failure)) from failure

    def held_permission(self, connection: Connection, access_key: str | None) -> HeldPermission:
        """Return the permission of a request that was allowed just now, for :meth:`check_held`."""
        address = host_of_peer(connection.peer)
        account = None if self._table.is_white(address) else self._table.accounts.get(access_key or "")
        if account is not None and account.is_white(address):
            account = None
        return HeldPermission(access_key, account, self._table_number)

    def check_held(self, connection: Connection, request: RemotingCommand, held: HeldPermission) -> None:
        """Raise RequestError unless the accounts as they are now allow a request that was allowed and still waits.

        ``request`` has what its needs are read from. Nothing is done while the accounts are the same. A new secret key
        ends what was signed with the old one, which may be why it was replaced.
        """
        if held.table_number == self._table_number:
            return
        address = host_of_peer(connection.peer)
        if not self._table.is_white(address):
            try:
                self._check_held(address, request, held)
            except AclError as failure:
                self._log_refusal(address, request, str(failure))
                raise refusal(str(failure)) from failure
        held.table_number = self._table_number

    def requester(self, connection: Connection, request: RemotingCommand) -> Requester | None:
        """Return the account of an allowed request; None for an address of a global white list.

        An account that has been removed since is replaced by one without permissions.
        """
        address = host_of_peer(connection.peer)
        if self._table.is_white(address):
            return None
        account = self._table.accounts.get((request.ext_fields or {}).get(ACCESS_KEY, ""), _DUMMY_ACCOUNT)
        return Requester(account, is_at_home=account is not _DUMMY_ACCOUNT and bool(account.is_white(address)))

    def refuse(self, connection: Connection, request: RemotingCommand, why: str) -> RequestError:
        """Return the refusal of a request that passed :meth:`authorize` but lacks a permission found later."""
        self._log_refusal(host_of_peer(connection.peer), request, why)
        return refusal(why)

    def account(self, access_key: str) -> PlainAccessResource | None:
        """Return an account as it is now; None for an unknown key."""
        return self._table.accounts.get(access_key)

    def is_white(self, address: str) -> bool:
        """Whether an address is in a global white list, and so needs no account."""
        return self._table.is_white(address)

    def is_meant(self, connection: Connection, code: int, signed: bytes, shape: str) -> bool:
        """Whether what is signed, which begins with ``#signedFor``, is for a code, this broker and such fields."""
        words = signed[:_SIGNED_FOR_MAX].split(b" ", 4)
        if len(words) != 5 or words[1] != b"%d" % code or words[3] != shape.encode():
            return False
        return ANY_ADDRESS in self._addresses or words[2].decode("utf-8", "replace") in self._all_addresses(connection)

    def is_permitted(self, account: PlainAccessResource, request: RemotingCommand) -> bool:
        """Whether an account may make a request. Neither its signature nor its address is checked."""
        try:
            self._check_permissions(request, self._needs_of(request), account)
        except AclError:
            return False
        return True

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever the accounts or white lists change."""
        self._listeners.append(listener)

    # ---- files ------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read all files; StartError when one is invalid. Blocks, so call it before the server starts."""
        try:
            stamps = self._files.stamps()
            self._take(stamps, [self._files.read(path) for path in stamps])
        except AclError as failure:
            raise StartError(f"the accounts of aclEnable=true cannot be read: {failure}") from failure
        if not self._table.accounts and not self._table.white_addresses:
            _log.warning("aclEnable=true, and there is no account in %s: every request is refused", self.default_path)

    async def reload(self) -> bool:
        """Read the files that have changed since the last call; False when none has."""
        async with self._changing:
            return await self._reload()

    @property
    def default_path(self) -> str:
        """The file to which new accounts are added."""
        return self._files.default_path

    @property
    def version(self) -> DataVersion:
        """The data version of the default file."""
        file = self._table.files.get(self.default_path)
        return DataVersion() if file is None else file.version

    def versions(self) -> dict[str, DataVersion]:
        """Return the data version of each file by its path."""
        return {path: file.version for path, file in self._table.files.items()}

    def config(self) -> AclConfig:
        """Return all accounts, without their secret keys."""
        return self._table.config()

    # ---- changes by request -----------------------------------------------------------------------------------------

    async def update_account(self, change: PlainAccessConfig) -> None:
        """Change an account in the file that defines it, or add one to the default file; durable on return.

        AclError when the change is invalid, StoreError when the write fails; nothing has changed then.
        """
        check_keys(change)
        check_resource_permissions(change.topic_perms)
        check_resource_permissions(change.group_perms)
        parse_address_pattern(change.white_remote_address)
        async with self._changing:
            path = self._table.owners.get(change.access_key, self.default_path)
            await self._edit(path, lambda text: with_account(text, change))
        _log.info("account %s changed by request in %s", change.access_key, path)

    async def delete_account(self, access_key: str) -> bool:
        """Remove an account from the file that defines it; False for an unknown account."""
        async with self._changing:
            path = self._table.owners.get(access_key)
            if path is None:
                return False
            await self._edit(path, lambda text: without_account(text, access_key))
        _log.info("account %s removed by request from %s", access_key, path)
        return True

    async def update_white_addresses(self, addresses: Sequence[str], path: str | None) -> bool:
        """Replace the global white list of one file, by default the default file; False for an unknown file."""
        for each in addresses:
            parse_address_pattern(each)
        async with self._changing:
            if path and path not in self._table.files and path != self.default_path:
                return False
            await self._edit(path or self.default_path, lambda text: with_white_addresses(text, addresses))
        _log.info("global white list changed by request in %s", path or self.default_path)
        return True

    # ---- private ----------------------------------------------------------------------------------------------------

    def _validate(self, connection: Connection, request: RemotingCommand, address: str) -> None:
        needs = self._needs_of(request)
        fields = request.ext_fields or {}
        access_key = fields.get(ACCESS_KEY)
        if access_key is None:
            raise AclError("No accessKey is configured")
        account = self._table.accounts.get(access_key)
        signed = proved_content(fields, request.body, (account or _DUMMY_ACCOUNT).signing_key)
        if account is None:
            raise AclError(f"No acl config for {access_key}")
        if account.is_white(address):
            if self.is_strict:
                self._check_administrator(request, needs, account)
            return
        if signed is None:
            raise AclError(f"Check signature failed for accessKey={access_key}")
        if signed.startswith(SIGNED_FOR_BEGIN):
            if not self.is_meant(connection, request.code, signed, shape_of_request(fields, request.body)):
                raise AclError(self._signed_for_another(connection, request.code, signed))
        elif self.is_strict and needs.is_strict_admin and request.language is LanguageCode.PYTHON:
            raise AclError(
                f"accessKey={access_key}: expected a signature with #signedFor, which clients of rocketpy make "
                f"since 2026-11, for an administrator's request code={request.code}"
            )
        self._check_permissions(request, needs, account)

    def _check_held(self, address: str, request: RemotingCommand, held: HeldPermission) -> None:
        if held.access_key is None:
            raise AclError("No accessKey is configured")
        account = self._table.accounts.get(held.access_key)
        if account is None:
            raise AclError(f"No acl config for {held.access_key}")
        if account.is_white(address):
            if self.is_strict:
                self._check_administrator(request, self._needs_of(request), account)
            return
        if held.account is None or not held.account.signing_key.is_same(account.signing_key):
            raise AclError(f"Check signature failed for accessKey={held.access_key}")
        self._check_permissions(request, self._needs_of(request), account)

    def _all_addresses(self, connection: Connection) -> list[str]:
        return list(dict.fromkeys(filter(None, (connection.local, *self._addresses))))

    def _signed_for_another(self, connection: Connection, code: int, signed: bytes) -> str:
        words = signed[:_SIGNED_FOR_MAX].decode("utf-8", "replace").split(" ", 4)
        found = f"code={words[1][:_SHOWN_MAX]} at {' '.join(words[2:3])[:_SHOWN_MAX]}"
        return (
            f"expected a signature for these fields of request code={code} at "
            f"{' or '.join(self._all_addresses(connection))}, found one for {found}; aclTargets names other addresses "
            "that lead to this broker"
        )

    def _needs_of(self, request: RemotingCommand) -> Needs:
        assert self._needs is not None, "declare comes before the first request"
        return self._needs.get(request.code, ANY_ACCOUNT)  # a code that is not served is answered so, to any account

    def _check_permissions(self, request: RemotingCommand, needs: Needs, account: PlainAccessResource) -> None:
        """Raise AclError unless an account, which its signature has proved, has what a request needs."""
        needed = needed_permissions(
            request,
            needs,
            is_strict=self.is_strict,
            multi_dispatch=self._multi_dispatch,
            body_size_max=self._body_size_max(),
        )
        if request.code in _SENDS and needed.get(TRACE_TOPIC) == PUB:
            del needed[TRACE_TOPIC]
        self._check_administrator(request, needs, account)
        for resource, permission in needed.items():
            account.check(resource, permission)

    def _check_administrator(self, request: RemotingCommand, needs: Needs, account: PlainAccessResource) -> None:
        if (needs.is_strict_admin if self.is_strict else needs.is_admin) and not account.is_admin:
            access_key = account.access_key
            raise AclError(f"Need admin permission for request code={request.code}, but accessKey={access_key} is not")

    def _log_refusal(self, address: str, request: RemotingCommand, why: str) -> None:
        """Log a refusal once an hour per address and reason, so that a peer guessing keys cannot fill the disk.

        What a flood of reasons has left unsaid is said in the next hour, if it is still so.
        """
        hour = self._clock.timestamp_ms() // 3_600_000
        if hour != self._refused_hour:
            self._refused.clear()
            self._refused_hour = hour
        if (address, why) not in self._refused and len(self._refused) < _LOGGED_MAX and len(why) < _LOGGED_MAX:
            self._refused.add((address, why))
            _log.warning("request code %d from %s refused: %r", request.code, address, why)

    async def _reload(self) -> bool:
        try:
            stamps = await self._run_blocking(self._files.stamps)
        except AclError as failure:
            self._log_refused_file(str(failure))
            return False
        if stamps == self._stamps:
            return False
        self._logged_fault = ""
        files = []
        for path, stamp in stamps.items():
            known = self._table.files.get(path)
            if stamp != self._stamps.get(path):
                try:
                    known = await self._run_blocking(self._files.read, path)
                except AclError as failure:
                    self._log_refused_file(str(failure))
            if known is not None:
                files.append(known)
        self._take(stamps, files)
        _log.info("accounts read: %d in %d files", len(self._table.accounts), len(files))
        return True

    def _take(self, stamps: dict[str, FileStamp], files: list[AclFile]) -> None:
        """Replace the table by one made from the files, and notify the listeners."""
        self._stamps = stamps
        self._table = make_table(files)
        self._table_number += 1
        self._refused.clear()
        for listener in self._listeners:
            listener()
        for each in self._table.repeated:
            _log.warning("the accessKey %s is repeated, the first one counts", each)
        for file in files:
            for unknown in file.document.unknown_keys:
                _log.warning("%s %s is unknown and ignored", file.path, unknown)
            for note in file.document.notes:
                _log.warning("%s %s", file.path, note)

    def _log_refused_file(self, why: str) -> None:
        """Log a fault of the files, once as long as it is the same."""
        if why == self._logged_fault:
            return
        self._logged_fault = why
        _log.error("%s; the previous state stays", why)

    async def _edit(self, path: str, change: Callable[[str], str]) -> None:
        """Edit one file with its next data version, and apply it at once. Called with the lock held."""
        timestamp_ms = self._clock.timestamp_ms()

        def edit() -> None:
            with self._files.sole_writer(path):  # brokers of several groups share it
                text = self._files.read_text(path)
                try:
                    text = change(text)
                    version = read_acl_document(text).version or DataVersion()
                    text = with_version(text, version.next_version(timestamp_ms))
                except AclError as failure:
                    raise AclError(f"{path}: {failure}") from failure
                self._files.write_text(path, text)

        await self._run_blocking(edit)
        self._stamps.pop(path, None)
        await self._reload()
