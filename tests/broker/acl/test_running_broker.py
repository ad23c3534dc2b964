"""A whole broker with accounts: real sockets, our own client, both ports, a file that changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from rocketpy.broker.acl.plain_permission import PlainPermissionManager
from rocketpy.broker.app import BrokerAddress
from rocketpy.client.client import open_admin_client, open_producer, open_pull_consumer
from rocketpy.client.config import ClientConfig
from rocketpy.errors import BrokerError, StartError
from rocketpy.nameserver.app import run_nameserver
from rocketpy.nameserver.config import NamesrvConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.message import Message
from rocketpy.protocol.signature import RequestSigner, SessionCredentials
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.config import NettyServerConfig
from rocketpy.remoting.connection import Connection
from rocketpy.store.disk.os_disk import OsDisk
from tests.blackbox.ports import broker_port
from tests.broker.test_app import pull, running, send, settings_at
from tests.remoting.patient_client import open_patient_client

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
async def running_with_accounts(
    directory: Path, port: int = 0, namesrv: str = "", *, is_strict: bool = False, **store: object
) -> AsyncIterator[BrokerAddress]:
    (directory / "plain_acl.yml").write_text(ACCOUNTS)
    broker = {"acl_enable": True, "acl_strict": is_strict, "acl_directory": str(directory), "namesrv_addr": namesrv}
    async with running(settings_at(directory / "store", port, broker=broker, **store)) as address:
        yield address


@asynccontextmanager
async def client_of(credentials: SessionCredentials | None) -> AsyncIterator[RemotingClient]:
    signer = None if credentials is None else RequestSigner(credentials)
    async with open_patient_client(before_request=signer) as client:
        yield client


@asynccontextmanager
async def running_nameserver(directory: Path) -> AsyncIterator[str]:
    config = NamesrvConfig(
        kv_config_path=str(directory / "namesrv" / "kvConfig.json"),
        config_store_path=str(directory / "namesrv" / "namesrv.properties"),
    )
    async with trio.open_nursery() as nursery:
        run = partial(run_nameserver, config, NettyServerConfig(listen_port=0), host="127.0.0.1", disk=OsDisk())
        port: int = await nursery.start(run)
        yield f"127.0.0.1:{port}"
        nursery.cancel_scope.cancel()


async def test_accounts_have_their_permissions_and_other_peers_none(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("is_strict", "code"), [(False, ResponseCode.SUCCESS), (True, ResponseCode.SYSTEM_ERROR)])
async def test_with_acl_strict_settings_are_shown_to_administrators_only(
    tmp_path: Path, is_strict: bool, code: int
) -> None:
    async with (
        running_with_accounts(tmp_path, is_strict=is_strict) as at,
        client_of(USER) as user,
        client_of(ADMIN) as admin,
    ):
        request = RemotingCommand(RequestCode.GET_BROKER_CONFIG)
        assert (await user.request(at.address, request)).code == code
        assert (await admin.request(at.address, request)).code == ResponseCode.SUCCESS


async def test_a_message_gets_into_no_topic_by_naming_it(tmp_path: Path) -> None:
    """With multi-dispatch: not where its sender may not send to, whether it is for now or waits."""
    async with running_with_accounts(tmp_path, enable_multi_dispatch=True) as at, client_of(USER) as user:
        for waits in ("", "\x02DELAY\x011", "\x02TRAN_MSG\x01true"):
            answer = await user.request(at.address, send(properties=f"INNER_MULTI_DISPATCH\x01Secret{waits}"))
            assert (answer.remark or "").endswith("No default permission for topic:Secret"), waits
        answer = await user.request(at.address, send(properties="INNER_MULTI_DISPATCH\x01hello,%LMQ%x"))
        assert answer.code == ResponseCode.SUCCESS


async def test_plain_sends_and_pulls_keep_their_fast_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the guard does not know for certain is decoded a second time."""
    long_ways: list[int] = []
    plain = PlainPermissionManager.authorize

    def counted(self: PlainPermissionManager, connection: Connection, request: RemotingCommand) -> None:
        long_ways.append(request.code)
        plain(self, connection, request)

    monkeypatch.setattr(PlainPermissionManager, "authorize", counted)
    async with running_with_accounts(tmp_path) as at, client_of(USER) as user:
        assert (await user.request(at.address, send())).code == ResponseCode.SUCCESS
        long_ways.clear()  # the first one has made the topic
        usual = send()
        assert usual.ext_fields is not None
        usual.ext_fields["i"] = "UNIQ_KEY\x017F0000010000A1B2C3D400000000\x02WAIT\x01true"
        for _ in range(3):
            assert (await user.request(at.address, usual)).code == ResponseCode.SUCCESS
            assert (await user.request(at.address, pull())).code == ResponseCode.SUCCESS
    assert long_ways == []


async def test_our_clients_sign(tmp_path: Path) -> None:
    config = ClientConfig(credentials=USER)
    async with running_nameserver(tmp_path) as namesrv, running_with_accounts(tmp_path, namesrv=namesrv):
        async with open_admin_client(namesrv, config=ClientConfig(credentials=ADMIN)) as admin:
            await admin.create_topic("hello", queue_nums=1)
        async with open_producer(namesrv, config=config) as producer:
            await producer.send(Message("hello", b"signed"))
        async with open_pull_consumer(namesrv, group="g", config=config) as consumer:
            (queue,) = await consumer.queues("hello")
            assert [each.body for each in (await consumer.pull(queue, 0)).messages] == [b"signed"]
            await consumer.commit(queue, 1)
            assert await consumer.consumer_offset(queue) == 1
        async with open_producer(namesrv) as producer:
            with pytest.raises(BrokerError, match="No accessKey is configured"):
                await producer.send(Message("hello", b"unsigned"))


async def test_the_vip_port_asks_too(tmp_path: Path) -> None:
    port = broker_port()
    async with running_with_accounts(tmp_path, port) as at, client_of(None) as stranger:
        assert at.vip_port is not None
        for number in (at.port, at.vip_port):
            answer = await stranger.request(f"127.0.0.1:{number}", send())
            assert (answer.remark or "").endswith("No accessKey is configured")


async def test_wrong_accounts_end_the_start_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "plain_acl.yml").write_text("accounts: nobody\n")
    settings = settings_at(tmp_path / "store", broker={"acl_enable": True, "acl_directory": str(tmp_path)})
    with pytest.RaisesGroup(StartError, allow_unwrapped=True, flatten_subgroups=True):
        async with running(settings):
            raise AssertionError("not reached")
    assert not (tmp_path / "store" / "abort").exists()
