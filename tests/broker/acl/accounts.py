"""Managers over a simulated disk, and requests that are signed as clients sign them."""

from __future__ import annotations

from rocketpy.broker.acl.acl_files import AclFiles
from rocketpy.broker.acl.plain_permission import PlainPermissionManager
from rocketpy.clock import ManualClock
from rocketpy.protocol.codes import LanguageCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.signature import RequestSigner, SessionCredentials
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.runner import run_inline
from rocketpy.store.disk.interface import Disk
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.acl.declared import declared_needs
from tests.broker.broker_on_bytes import Transport, connect_to

DIRECTORY = "/conf"
DEFAULT = f"{DIRECTORY}/plain_acl.yml"
ACCOUNTS = """\
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress: 192.168.9.*
    topicPerms: [orders=PUB|SUB, invoices=SUB]
    groupPerms: [readers=SUB]
  - accessKey: theAdmin
    secretKey: 87654321
    admin: true
"""
USER = SessionCredentials("RocketMQ", "12345678")
ADMIN = SessionCredentials("theAdmin", "87654321")


def write_file(disk: Disk, path: str, text: str) -> None:
    disk.make_directories(path.rpartition("/")[0])
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write(0, text.encode())
    file.close()


def read_file(disk: Disk, path: str) -> str:
    file = disk.open(path, read_only=True)
    text = file.read(0, file.size()).decode()
    file.close()
    return text


HERE = "10.0.0.7:10911"
"""Where the broker of these tests is reached."""


def make_manager(
    text: str | None = ACCOUNTS,
    *,
    disk: SimDisk | None = None,
    clock: ManualClock | None = None,
    is_strict: bool = False,
    multi_dispatch: bool = False,
) -> PlainPermissionManager:
    disk = disk or SimDisk()
    if text is not None:
        write_file(disk, DEFAULT, text)
    manager = PlainPermissionManager(
        files=AclFiles(directory=DIRECTORY, disk=disk),
        run_blocking=run_inline,
        clock=clock or ManualClock(),
        is_strict=is_strict,
        multi_dispatch=multi_dispatch,
    )
    manager.declare(declared_needs())
    manager.serve_at([HERE])
    manager.load()
    return manager


def peer_at(address: str, port: int = 1234) -> Connection:
    return connect_to(Dispatcher(), Transport(lambda connection: None), (address, port))


def signed(
    code: int,
    fields: dict[str, str] | None = None,
    body: bytes | None = None,
    *,
    by: SessionCredentials = USER,
    at: str = "",
) -> RemotingCommand:
    """A request as RocketMQ's clients sign it; ``at`` is the server for which ours do."""
    request = RemotingCommand(code, dict(fields or {}), body)
    request.language = LanguageCode.PYTHON if at else LanguageCode.JAVA
    RequestSigner(by)(request, at)
    return request
