"""A whole broker with accounts: real sockets, our own client, both ports, a file that changes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.broker.app import BrokerAddress
from rocketpy.broker.services import acl_file_watch
from rocketpy.broker.start_settings import StartOptions, load_broker_settings
from rocketpy.errors import StartError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.signature import RequestSigner, SessionCredentials
from rocketpy.remoting.client import RemotingClient, open_remoting_client
from tests.blackbox.processes import free_ports
from tests.broker.test_app import pull, running, send, settings_at

ACCOUNTS = """\
accounts:
- accessKey: an-account
  secretKey: a-secret
  topicPerms: [hello=PUB|SUB]
  groupPerms: [g=SUB]
- accessKey: the-admin
  secretKey: another-secret
  admin: true
"""
USER = SessionCredentials("an-account", "a-secret")
ADMIN = SessionCredentials("the-admin", "another-secret")


@asynccontextmanager
async def running_with_accounts(directory: Path, port: int = 0) -> AsyncIterator[BrokerAddress]:
    (directory / "plain_acl.yml").write_text(ACCOUNTS)
    settings = settings_at(directory / "store", port)
    broker = attrs.evolve(settings.broker, acl_enable=True, acl_directory=str(directory))
    async with running(attrs.evolve(settings, broker=broker)) as address:
        yield address


@asynccontextmanager
async def client_of(credentials: SessionCredentials | None) -> AsyncIterator[RemotingClient]:
    signer = None if credentials is None else RequestSigner(credentials)
    async with open_remoting_client(before_request=signer) as client:
        yield client


async def test_accounts_may_do_what_they_may_and_nobody_else_anything(tmp_path: Path) -> None:
    async with (
        running_with_accounts(tmp_path) as at,
        client_of(USER) as user,
        client_of(None) as stranger,
        client_of(SessionCredentials("an-account", "wrong-secret")) as liar,
    ):
        refused = "org.apache.rocketmq.acl.common.AclException: "
        for client, why in (
            (stranger, "No accessKey is configured"),
            (liar, "Check signature failed"),
        ):
            answer = await client.request(at.address, send())
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert (answer.remark or "").startswith(refused + why)
        for _ in range(2):
            assert (await user.request(at.address, send())).code == ResponseCode.SUCCESS
        denied = await user.request(at.address, send("other"))
        assert denied.remark == refused + "No default permission for topic:other"
        assert (await user.request(at.address, pull())).code == ResponseCode.SUCCESS
        assert (await user.request(at.address, pull("other"))).remark == denied.remark
    topics = (tmp_path / "store" / "config" / "topics.json").read_text()
    assert '"hello"' in topics
    assert '"other"' not in topics, "what was refused has left nothing"


async def test_the_vip_port_asks_too(tmp_path: Path) -> None:
    port = free_ports(3) + 2
    async with running_with_accounts(tmp_path, port) as at, client_of(None) as stranger:
        assert at.vip_port is not None
        for number in (at.port, at.vip_port):
            answer = await stranger.request(f"127.0.0.1:{number}", send())
            assert (answer.remark or "").endswith("No accessKey is configured")


@pytest.mark.parametrize(
    "code",
    [RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.DELETE_TOPIC_IN_BROKER],
)
async def test_remote_changes_take_an_administrator(tmp_path: Path, code: RequestCode) -> None:
    async with running_with_accounts(tmp_path) as at, client_of(USER) as user, client_of(ADMIN) as admin:
        answer = await user.request(at.address, RemotingCommand(code, {"topic": "hello"}, b"a=b"))
        assert f"Need admin permission for request code={code.value}" in (answer.remark or "")
        answer = await admin.request(at.address, RemotingCommand(code, {"topic": "hello"}, b"a=b"))
        assert "AclException" not in (answer.remark or "")


async def test_a_changed_file_counts_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_file_watch, "PERIOD_SECONDS", 0.01)
    async with running_with_accounts(tmp_path) as at, client_of(USER) as user:
        assert (await user.request(at.address, send())).code == ResponseCode.SUCCESS
        (tmp_path / "new").write_text(ACCOUNTS.replace("hello=PUB|SUB", "hello=SUB"))
        os.rename(tmp_path / "new", tmp_path / "plain_acl.yml")
        with trio.fail_after(10):
            while (await user.request(at.address, send())).code == ResponseCode.SUCCESS:
                await trio.sleep(0.01)


async def test_wrong_accounts_end_the_start_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "plain_acl.yml").write_text("accounts: nobody\n")
    settings = settings_at(tmp_path / "store")
    broker = attrs.evolve(settings.broker, acl_enable=True, acl_directory=str(tmp_path))
    with pytest.RaisesGroup(StartError, allow_unwrapped=True, flatten_subgroups=True):
        async with running(attrs.evolve(settings, broker=broker)):
            raise AssertionError("not reached")
    assert not (tmp_path / "store" / "abort").exists()


@pytest.mark.parametrize(("text", "warns"), [("aclEnable=true\n", False), ("", True)])
def test_a_broker_with_accounts_may_be_open_to_the_network(tmp_path: Path, text: str, warns: bool) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(f"brokerIP1=127.0.0.1\nnamesrvAddr=127.0.0.1:9876\n{text}")
    settings = load_broker_settings(StartOptions(config_file=str(path)))
    assert any("without access control" in each for each in settings.warnings) is warns
