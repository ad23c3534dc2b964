"""A whole broker in this process: real sockets on loopback, a real store in a temporary directory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import TypeVar

import attrs
import pytest
import trio

from rocketpy.broker import app
from rocketpy.broker.app import BrokerAddress, run_broker
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.context import BrokerContext
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.clock import SystemClock
from rocketpy.errors import RemotingError, SettingsError, StartError, StoreError
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.config import NettyClientConfig, NettyServerConfig
from rocketpy.remoting.network import SocketListener, SocketNetwork
from rocketpy.runner import RunBlocking
from rocketpy.store.config import BrokerRole, FlushDiskType, MessageStoreConfig
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.message_store import MessageStore
from rocketpy.store.plug_in import PlugInMessageStore
from rocketpy.store.results import PutMessageStatus
from tests.blackbox.ports import broker_port, port_in_use
from tests.patience import PATIENCE_SECONDS, PATIENT_BROKER, PATIENT_STORE
from tests.remoting.patient_client import open_patient_client
from tests.remoting.test_server import Peer

T = TypeVar("T")


def settings_at(
    directory: Path, port: int = 0, *, broker: Mapping[str, object] = {}, **store: object
) -> BrokerSettings:
    own = {"broker_name": "broker-a", "broker_ip1": "127.0.0.1", "broker_ip2": "127.0.0.1", **PATIENT_BROKER}
    return BrokerSettings(
        broker=BrokerConfig(**{**own, **broker}),  # type: ignore[arg-type]
        server=NettyServerConfig(listen_port=port),
        client=NettyClientConfig(),
        store=MessageStoreConfig(
            store_path_root_dir=str(directory),
            mapped_file_size_commit_log=1 << 20,
            max_hash_slot_num=1000,
            max_index_num=4000,
            **PATIENT_STORE,
            **store,  # type: ignore[arg-type]
        ),
        host="127.0.0.1",
        embeds_nameserver=False,
    )


@asynccontextmanager
async def running(
    settings: BrokerSettings, run_blocking: RunBlocking = trio.to_thread.run_sync
) -> AsyncIterator[BrokerAddress]:
    """Run a broker for the block and stop it in order."""
    stop = trio.Event()

    async def run(task_status: trio.TaskStatus[BrokerAddress]) -> None:
        await run_broker(
            settings,
            disk=OsDisk(),
            clock=SystemClock(),
            run_blocking=run_blocking,
            randomness=Random(0),
            stop=stop,
            task_status=task_status,
        )

    async with trio.open_nursery() as nursery:
        address: BrokerAddress = await nursery.start(run)
        yield address
        stop.set()


@asynccontextmanager
async def client_of(settings: BrokerSettings) -> AsyncIterator[tuple[RemotingClient, BrokerAddress]]:
    async with running(settings) as address, open_patient_client() as client:
        yield client, address


def send(topic: str = "hello", body: bytes = b"one", properties: str = "") -> RemotingCommand:
    fields = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": properties}
    return RemotingCommand(RequestCode.SEND_MESSAGE_V2, {**fields, "m": "false"}, body)


def pull(topic: str = "hello", *, suspend_ms: int = 0) -> RemotingCommand:
    fields = {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "6" if suspend_ms else "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": str(suspend_ms),
        "subscription": "*",
        "subVersion": "0",
    }
    return RemotingCommand(RequestCode.PULL_MESSAGE, fields)


_MEMBER = HeartbeatData("c", [], [ConsumerData("g", subscription_data_set=[SubscriptionData("hello")])])
HEARTBEAT = make_request(RequestCode.HEART_BEAT, body=encode_body(_MEMBER))
"""Of a member of group g, which subscribes to hello."""


async def test_what_is_sent_is_pulled_and_survives_a_restart(tmp_path: Path) -> None:
    settings = settings_at(tmp_path / "store")
    async with client_of(settings) as (client, at):
        assert (await client.request(at.address, send())).code == ResponseCode.SUCCESS
        answer = await client.request(at.address, pull())
        assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, "FOUND")
        offsets = {"minOffset": "0", "nextBeginOffset": "1", "maxOffset": "1", "suggestWhichBrokerId": "0"}
        assert answer.ext_fields == offsets
        assert answer.body is not None
        assert b"one" in answer.body
    assert not (tmp_path / "store" / "abort").exists()
    assert '"hello"' in (tmp_path / "store" / "config" / "topics.json").read_text()
    async with client_of(settings) as (client, at):
        again = await client.request(at.address, pull())
        assert again.body == answer.body


@pytest.mark.parametrize(
    ("flush", "is_durable"), [(FlushDiskType.SYNC_FLUSH, True), (FlushDiskType.ASYNC_FLUSH, False)]
)
async def test_an_answer_comes_when_the_message_is_durable_or_before(
    tmp_path: Path, flush: FlushDiskType, is_durable: bool
) -> None:
    """With ASYNC_FLUSH before: nothing is synced for it."""
    never_ms = 3_600_000
    settings = settings_at(
        tmp_path, flush_disk_type=flush, flush_interval_commit_log=never_ms, flush_commit_log_thorough_interval=never_ms
    )
    async with client_of(settings) as (client, at):
        assert (await client.request(at.address, send())).code == ResponseCode.SUCCESS
        answer = await client.request(at.address, RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO))
        info = decode_body(answer.body or b"", KVTable).table
        assert (info["remainHowManyDataToFlush"] == "0 B") is is_durable


async def test_how_many_connections_may_wait_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Noting(SocketNetwork):
        async def listen(self, host: str | None, port: int, backlog: int = 0) -> Sequence[SocketListener]:
            asked.append(backlog)
            return await super().listen(host, port, backlog)

    monkeypatch.setattr(app, "SocketNetwork", Noting)
    settings = settings_at(tmp_path)
    async with running(attrs.evolve(settings, server=attrs.evolve(settings.server, server_socket_backlog=7))):
        assert asked == [7, 7], "for clients and for slaves"


async def test_a_held_pull_is_answered_when_a_delayed_message_is_delivered(tmp_path: Path) -> None:
    """Although no request comes at that time whose answers would be sent."""
    async with client_of(settings_at(tmp_path / "store")) as (client, at):
        await client.request(at.address, send())
        await client.request(at.address, send(properties="DELAY\x011"))  # a second
        after_the_first = pull(suspend_ms=1000 * int(PATIENCE_SECONDS))
        after_the_first.ext_fields = {**(after_the_first.ext_fields or {}), "queueOffset": "1"}
        began = trio.current_time()
        answer = await client.request(at.address, after_the_first, PATIENCE_SECONDS + 5)
        assert answer.code == ResponseCode.SUCCESS
        assert trio.current_time() - began < PATIENCE_SECONDS / 2


async def test_offsets_and_groups_are_in_their_files_after_a_clean_shutdown(tmp_path: Path) -> None:
    settings = settings_at(tmp_path / "store")
    async with client_of(settings) as (client, at):
        await client.request(at.address, HEARTBEAT)
        fields = {"consumerGroup": "g", "topic": "hello", "queueId": "0", "commitOffset": "7"}
        await client.request(at.address, RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET, fields))
    config = tmp_path / "store" / "config"
    assert (config / "consumerOffset.json").read_text() == '{\n\t"offsetTable":{\n\t\t"hello@g":{0:7\n\t\t}\n\t}\n}'
    assert '"g"' in (config / "subscriptionGroup.json").read_text()
    assert '"%RETRY%g"' in (config / "topics.json").read_text()


async def test_the_vip_port_serves_everything_but_pulls(tmp_path: Path) -> None:
    port = broker_port()
    async with client_of(settings_at(tmp_path / "store", port)) as (client, at):
        assert (at.address, at.port, at.vip_port) == (f"127.0.0.1:{port}", port, port - 2)
        vip = f"127.0.0.1:{port - 2}"
        assert (await client.request(vip, send())).code == ResponseCode.SUCCESS
        answer = await client.request(vip, pull())
        assert (answer.code, answer.remark) == (
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            " request type 11 not supported",
        )
        assert (await client.request(at.address, pull())).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("step", [0, 2])
async def test_a_port_in_use_is_named_and_nothing_remains(tmp_path: Path, step: int) -> None:
    with port_in_use() as taken:
        settings = settings_at(tmp_path / "store", taken + step)
        with pytest.raises(StartError, match=f"port {taken}: another process uses it"):
            await run_alone(settings)
    assert names_in(tmp_path) == []


async def test_a_store_in_use_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    settings = settings_at(tmp_path / "store")
    async with running(settings):
        before = sorted(str(path) for path in (tmp_path / "store").rglob("*"))
        with pytest.raises(StartError, match="store"):
            await run_alone(settings)
        assert sorted(str(path) for path in (tmp_path / "store").rglob("*")) == before


class RefusingStore(PlugInMessageStore):
    """A plug-in: takes no message."""

    def writable_or_why(self) -> str:
        return "not today"

    def put(self, *message: object) -> tuple[PutMessageStatus, int, int]:
        return PutMessageStatus.SERVICE_NOT_AVAILABLE, -1, -1


async def test_a_plug_in_stands_between_the_broker_and_its_store(tmp_path: Path) -> None:
    plug_in = {"message_store_plug_in": f"{__name__}:RefusingStore"}
    async with client_of(settings_at(tmp_path / "store", broker=plug_in)) as (client, at):
        assert (await client.request(at.address, send())).code == ResponseCode.SERVICE_NOT_AVAILABLE


class BreakingStore(PlugInMessageStore):
    """A plug-in: from a moment on nothing can be written."""

    breaks = False

    def end_burst(self) -> None:
        if BreakingStore.breaks:
            raise StoreError("the disk is gone", path="commitlog")
        self.store.end_burst()


async def test_no_message_is_acknowledged_that_was_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under ASYNC_FLUSH and on both ports, while members of one group send and all their connections end."""
    monkeypatch.setattr(BreakingStore, "breaks", False)
    plug_in = {"message_store_plug_in": f"{__name__}:BreakingStore"}
    settings = settings_at(tmp_path / "store", broker_port(), broker=plug_in)
    acknowledged: list[int] = []

    async def listen(peer: Peer) -> None:
        while (command := await peer.receive()) is not None:
            if command.is_response:
                acknowledged.append(command.opaque)

    async def attack(at: BrokerAddress) -> None:
        assert at.vip_port is not None
        peers = [Peer(await trio.open_tcp_stream("127.0.0.1", each)) for each in (at.port, at.vip_port) * 2]
        for peer in peers:
            first = send()
            first.opaque = 1
            await peer.send(HEARTBEAT, first)
            while not ((answer := await peer.answer()).is_response and answer.opaque == 1):
                pass
            assert answer.code == ResponseCode.SUCCESS
        BreakingStore.breaks = True
        with trio.fail_after(PATIENCE_SECONDS):
            async with trio.open_nursery() as nursery:
                for peer in peers:
                    nursery.start_soon(listen, peer)
                    sends = [send(body=b"%d" % number) for number in range(20)]
                    for opaque, each in enumerate(sends, start=100):
                        each.opaque = opaque
                    with suppress(trio.BrokenResourceError):
                        await peer.send(*sends)

    with pytest.raises(BaseExceptionGroup) as caught:
        async with running(settings) as at:
            with trio.CancelScope(shield=True):
                await attack(at)
    assert caught.group_contains(StoreError)
    assert [opaque for opaque in acknowledged if opaque >= 100] == []


async def test_a_plug_in_that_is_not_there_is_named_and_no_store_is_made(tmp_path: Path) -> None:
    settings = settings_at(tmp_path / "store", broker={"message_store_plug_in": f"{__name__}:Missing"})
    with pytest.raises(SettingsError, match=r"^messageStorePlugIn = .*Missing'.* has no Missing that can be called$"):
        await run_alone(settings)
    assert names_in(tmp_path) == []


async def test_a_damaged_table_is_named_and_no_store_is_made(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text("{{")
    with pytest.raises(StartError, match=r"topics\.json and its \.bak cannot be read"):
        await run_alone(settings_at(tmp_path))
    assert names_in(tmp_path) == ["config"]


async def test_a_failing_service_ends_the_broker_and_leaves_the_abort_file(tmp_path: Path) -> None:
    async def run_blocking(function: Callable[..., T], /, *arguments: object) -> T:
        if getattr(function, "__qualname__", "") == "StoredTable._write":
            raise StoreError("the disk is gone", path="topics.json")
        return await trio.to_thread.run_sync(function, *arguments)

    with pytest.raises(ExceptionGroup) as failure:
        async with running(settings_at(tmp_path / "store"), run_blocking) as at, open_patient_client() as client:
            await client.request(at.address, send())
            await trio.sleep_forever()
    assert failure.group_contains(StoreError)
    assert (tmp_path / "store" / "abort").exists()


async def test_a_slave_that_must_cut_its_log_opens_its_store_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only an opening cuts. The broker comes back at its address, and ends with its caller's stop."""
    async with client_of(settings_at(tmp_path / "store")) as (client, at):
        for _ in range(3):
            assert (await client.request(at.address, send())).code == ResponseCode.SUCCESS
    stores: list[MessageStore] = []

    class CaughtWiring(app.Wiring):
        def __init__(self, context: BrokerContext, **collaborators: object) -> None:
            stores.append(context.store)
            super().__init__(context, **collaborators)  # type: ignore[arg-type]

    monkeypatch.setattr(app, "Wiring", CaughtWiring)
    role = {"broker_role": BrokerRole.SLAVE, "ha_truncate_diverged_log": True}
    settings = settings_at(tmp_path / "store", broker_port(), broker={"broker_id": 1}, **role)
    async with client_of(settings) as (client, at):
        end = stores[0].max_physical_offset
        units = await stores[0].list_units("hello", 0, 0, 3)
        assert units is not None
        second = units.units[1].physical_offset
        assert await stores[0].order_cut(second) is None
        with trio.fail_after(PATIENCE_SECONDS):
            while True:
                with suppress(RemotingError):
                    answer = await client.request(at.address, pull())
                    if answer.ext_fields is not None and answer.ext_fields["maxOffset"] == "1":
                        break
                await trio.sleep(0.02)
        assert len(stores) == 2
        assert stores[1].max_physical_offset == second < end
    assert len(stores) == 2
    assert not (tmp_path / "store" / "abort").exists()
    assert len(names_in(tmp_path / "store" / "diverged")) == 1


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def run_alone(settings: BrokerSettings) -> None:
    await run_broker(
        settings,
        disk=OsDisk(),
        clock=SystemClock(),
        run_blocking=trio.to_thread.run_sync,
        randomness=Random(0),
        stop=trio.Event(),
    )
