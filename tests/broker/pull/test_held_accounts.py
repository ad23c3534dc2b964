"""A held pull ends with the permission of its account, by whichever path it came."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
import trio
import trio.testing

from rocketpy.broker.acl.plain_permission import PlainPermissionManager
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.signature import RequestSigner, SessionCredentials
from rocketpy.remoting.connection import Connection
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.acl.accounts import DEFAULT, make_manager, write_file
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker, pull, send
from tests.broker.pull.pulling import SUBSCRIPTION, SUSPEND, bodies

READER = SessionCredentials("the-reader", "a-secret")
SENDER = SessionCredentials("the-sender", "b-secret")
SENDER_TEXT = f"""\
- accessKey: the-sender
  secretKey: b-secret
  topicPerms: [{TOPIC}=PUB]
"""
READER_TEXT = f"""\
- accessKey: the-reader
  secretKey: a-secret
  topicPerms: [{TOPIC}=SUB]
  groupPerms: [G=SUB]
"""
ALL = "accounts:\n" + SENDER_TEXT + READER_TEXT
HOST = "10.0.0.1"
WHITE = f"globalWhiteRemoteAddresses: [{HOST}]\n"

CHANGES = [
    ("accounts:\n" + SENDER_TEXT, "No acl config for the-reader"),
    (ALL.replace("=SUB]\n  groupPerms", "=DENY]\n  groupPerms"), f"No default permission for topic:{TOPIC}"),
    (ALL.replace("G=SUB", "G=DENY"), "No default permission for group:G"),
    (ALL.replace("a-secret", "another-secret"), "Check signature failed for accessKey=the-reader"),
]


class World(NamedTuple):
    broker: MessageBroker
    disk: SimDisk
    accounts: PlainPermissionManager

    def pull(self, *, is_signed: bool = True, host: str = HOST, **fields: object) -> Connection:
        """Let a pull be held."""
        connection = self.broker.connect((host, 50_000))
        request = pull(**{"sys_flag": SUBSCRIPTION | SUSPEND, **fields})  # type: ignore[arg-type]
        if is_signed:
            RequestSigner(READER)(request, "")
        self.broker.serve(encode_frame(request), connection)
        assert received(connection) == []
        return connection

    async def change(self, text: str) -> None:
        """Change the file of the accounts, and read it as the service does that watches it."""
        write_file(self.disk, DEFAULT, text)
        assert await self.accounts.reload()
        await trio.testing.wait_all_tasks_blocked()

    async def send(self, body: bytes, host: str = HOST) -> None:
        request = send(body)
        RequestSigner(SENDER)(request, "")
        assert (await self.broker.ask(request, self.broker.connect((host, 50_001)))).code == 0

    @property
    def held(self) -> int:
        return self.broker.hold.statistics().held


@asynccontextmanager
async def world_of(text: str, *, is_fast: bool, has_kernels: bool = True) -> AsyncIterator[World]:
    disk = SimDisk()
    accounts = make_manager(text, disk=disk)
    async with (
        open_message_broker(accounts=accounts, has_fast_paths=is_fast, has_kernels=has_kernels) as broker,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(broker.hold.run)
        yield World(broker, disk, accounts)
        nursery.cancel_scope.cancel()


@pytest.fixture(params=["kernels", "fast", "general"])
def path(request: pytest.FixtureRequest) -> dict[str, bool]:
    return {"is_fast": request.param != "general", "has_kernels": request.param == "kernels"}


@pytest.mark.parametrize(("changed", "why"), CHANGES, ids=["gone", "topic", "group", "secret"])
async def test_a_held_pull_whose_account_may_no_longer_pull_is_refused_at_once(
    path: dict[str, bool], changed: str, why: str
) -> None:
    async with world_of(ALL, **path) as world:
        connection = world.pull()
        assert world.broker.pull_path.taken == ([True] if path["is_fast"] else [])
        assert world.held == 1
        await world.change(changed)
        (answer,) = received(connection)
        assert (answer.code, answer.body) == (1, None)
        assert (answer.remark or "").endswith(why)
        assert world.held == 0
        await world.send(b"confidential")
        assert received(connection) == []


async def test_a_held_pull_stays_when_its_account_may_still_pull(path: dict[str, bool]) -> None:
    async with world_of(ALL, **path) as world:
        connection = world.pull()
        for text in (ALL + "  admin: false\n", ALL.replace("groupPerms: [G=SUB]", "defaultGroupPerm: SUB")):
            await world.change(text)
            assert received(connection) == []
        assert world.held == 1
        await world.send(b"new")
        (answer,) = received(connection)
        assert bodies(answer) == ["new"]


async def test_what_a_message_wakes_before_the_service_has_looked_is_refused_too(path: dict[str, bool]) -> None:
    """No step of the loop lies between the change and the burst with the message."""
    async with world_of(ALL, **path) as world:
        connection = world.pull()
        write_file(world.disk, DEFAULT, "accounts:\n" + SENDER_TEXT)
        assert await world.accounts.reload()
        request = send(b"confidential")
        RequestSigner(SENDER)(request, "")
        world.broker.serve(encode_frame(request), world.broker.connect())
        (answer,) = received(connection)
        assert (answer.remark or "").endswith("No acl config for the-reader")


async def test_a_pull_from_a_white_address_ends_with_the_white_list(path: dict[str, bool]) -> None:
    """That it names an account, also with its numbers not as text, proves nothing: no signature was looked at."""
    async with world_of(WHITE + ALL, **path) as world:
        unsigned, signed = world.pull(is_signed=False), world.pull(queue_id=1)
        await world.change(WHITE + ALL + "  admin: false\n")
        assert world.held == 2
        await world.change(ALL)
        assert [_remark(unsigned), _remark(signed)] == [
            "No accessKey is configured",
            "Check signature failed for accessKey=the-reader",
        ]


async def test_a_pull_from_an_account_s_own_address_ends_with_that_address(path: dict[str, bool]) -> None:
    at_home = ALL + f"  whiteRemoteAddress: {HOST}\n"
    async with world_of(at_home, **path) as world:
        connection, other = world.pull(), world.pull(host="10.0.0.2", queue_id=1)
        await world.change(at_home + "  admin: false\n")
        assert world.held == 2
        await world.change(ALL)
        assert _remark(connection) == "Check signature failed for accessKey=the-reader"
        assert received(other) == [], "this one was signed"


async def test_a_refusal_is_final_for_its_connection_only(path: dict[str, bool]) -> None:
    async with world_of(ALL, **path) as world:
        connections = [world.pull(queue_id=number % 4, host=f"10.0.0.{number}") for number in range(150)]
        assert world.held == 150
        await world.change("accounts:\n" + SENDER_TEXT)
        assert {_remark(each) for each in connections} == {"No acl config for the-reader"}
        assert world.broker.hold.held_bytes == 0


def _remark(connection: Connection) -> str:
    answers: list[RemotingCommand] = received(connection)
    assert [answer.code for answer in answers] == [1]
    return (answers[0].remark or "").partition(": ")[2]
