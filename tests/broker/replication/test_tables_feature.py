"""Master, slave and nameserver in this process, over sockets: tables to the slave, offsets home to the master."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.broker.replication import offsets_from_slaves, slave_synchronize
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.bodies.topic import TopicConfigSerializeWrapper
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.offset import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from rocketpy.protocol.signature import RequestSigner
from rocketpy.remoting.client import RemotingClient
from rocketpy.store.config import BrokerRole
from tests.blackbox.ports import broker_port
from tests.broker.acl.test_running_broker import ACCOUNTS, ADMIN, running_nameserver
from tests.broker.test_app import running, send, settings_at
from tests.patience import PATIENCE_SECONDS
from tests.remoting.patient_client import open_patient_client

TOPIC = "hello"


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds follow each other; a start may wait as long as a busy machine takes."""
    monkeypatch.setattr(slave_synchronize, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(slave_synchronize, "PERIOD_SECONDS", 0.02)
    monkeypatch.setattr(offsets_from_slaves, "TAKE_SECONDS", PATIENCE_SECONDS)


def settings_of(directory: Path, role: BrokerRole, port: int, namesrv: str, **broker: object) -> BrokerSettings:
    settings = settings_at(directory / role.name, port, broker_role=role)
    is_slave = role is BrokerRole.SLAVE
    return attrs.evolve(
        settings,
        broker=attrs.evolve(settings.broker, namesrv_addr=namesrv, broker_id=int(is_slave), **broker),  # type: ignore[arg-type]
    )


@attrs.define(eq=False)
class Pair:
    """A master and a slave; the master may be stopped and started."""

    client: RemotingClient
    master: BrokerSettings
    slave: BrokerSettings
    nursery: trio.Nursery
    _stop: trio.Event = attrs.field(factory=trio.Event)
    _stopped: trio.Event = attrs.field(factory=trio.Event)

    def address_of(self, settings: BrokerSettings) -> str:
        return f"127.0.0.1:{settings.server.listen_port}"

    async def start_master(self) -> None:
        self._stop, self._stopped = trio.Event(), trio.Event()
        await self.nursery.start(self._run_master, self._stop, self._stopped)

    async def stop_master(self) -> None:
        self._stop.set()
        await self._stopped.wait()

    async def _run_master(
        self, stop: trio.Event, stopped: trio.Event, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async with running(self.master):
            task_status.started()
            await stop.wait()
        stopped.set()

    async def ask(self, settings: BrokerSettings, request: RemotingCommand) -> RemotingCommand:
        return await self.client.request(self.address_of(settings), request)

    async def commit(self, settings: BrokerSettings, offset: int) -> None:
        header = UpdateConsumerOffsetRequestHeader(consumer_group="g", topic=TOPIC, queue_id=0, commit_offset=offset)
        answer = await self.ask(settings, make_request(RequestCode.UPDATE_CONSUMER_OFFSET, header))
        assert answer.code == ResponseCode.SUCCESS, answer

    async def offset(self, settings: BrokerSettings) -> str | None:
        header = QueryConsumerOffsetRequestHeader(consumer_group="g", topic=TOPIC, queue_id=0)
        answer = await self.ask(settings, make_request(RequestCode.QUERY_CONSUMER_OFFSET, header))
        return (answer.ext_fields or {}).get("offset")

    async def topics(self, settings: BrokerSettings) -> TopicConfigSerializeWrapper:
        answer = await self.ask(settings, make_request(RequestCode.GET_ALL_TOPIC_CONFIG))
        return decode_body(answer.body, TopicConfigSerializeWrapper)

    async def until_following(self) -> None:
        """Wait until the slave has the whole log of the master, and follows it."""
        with trio.fail_after(PATIENCE_SECONDS):
            while True:
                ends = [(await self.figures(each))["commitLogMaxOffset"] for each in (self.master, self.slave)]
                if ends[0] == ends[1] and (await self.figures(self.slave))["haState"] == "following":
                    return
                await trio.sleep(0.05)

    async def figures(self, settings: BrokerSettings) -> Mapping[str, str]:
        answer = await self.ask(settings, make_request(RequestCode.GET_BROKER_RUNTIME_INFO))
        return decode_body(answer.body, KVTable).table

    async def until_offset(self, settings: BrokerSettings, offset: int) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            while await self.offset(settings) != str(offset):
                await trio.sleep(0.002)


@asynccontextmanager
async def running_pair(directory: Path, **broker: object) -> AsyncIterator[Pair]:
    """Run a nameserver, a master with a few messages, and a slave, which knows its master."""
    master_port, slave_port = broker_port(), broker_port()
    signer = RequestSigner(ADMIN) if broker else None
    async with (
        running_nameserver(directory) as namesrv,
        open_patient_client(before_request=signer) as client,
        trio.open_nursery() as nursery,
    ):
        pair = Pair(
            client,
            settings_of(directory, BrokerRole.ASYNC_MASTER, master_port, namesrv, **broker),
            settings_of(directory, BrokerRole.SLAVE, slave_port, namesrv, **broker),
            nursery,
        )
        await pair.start_master()
        for _ in range(10):
            assert (await pair.ask(pair.master, send(TOPIC))).code == ResponseCode.SUCCESS
        await pair.commit(pair.master, 3)
        async with running(pair.slave):
            yield pair
        await pair.stop_master()


async def test_a_slave_takes_topics_and_offsets(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await pair.until_offset(pair.slave, 3)
        tables = [await pair.topics(each) for each in (pair.master, pair.slave)]
        assert TOPIC in tables[0].topic_config_table
        assert tables[0] == tables[1]
        await pair.commit(pair.master, 1)
        await pair.until_offset(pair.slave, 1)
        assert (await pair.figures(pair.slave))["slaveOffsetsKept"] == "0"
        assert "slaveOffsetsKept" not in await pair.figures(pair.master)


async def test_with_accounts_a_slave_is_served_only_if_it_signs(tmp_path: Path) -> None:
    """RocketMQ's slave cannot, and needs a place in its master's white list. The logs are compared again, too."""
    await trio.Path(tmp_path / "plain_acl.yml").write_text(ACCOUNTS)
    access = {"acl_enable": True, "acl_directory": str(tmp_path)}
    async with running_pair(tmp_path, **access, replication_account=ADMIN.access_key) as pair:
        await pair.until_offset(pair.slave, 3)
        await pair.until_following()
        await pair.stop_master()
        await pair.commit(pair.slave, 7)
        await pair.start_master()
        assert await pair.offset(pair.master) == "7"
        await pair.until_following()


async def test_with_accounts_and_without_a_signature_nothing_is_taken(tmp_path: Path) -> None:
    await trio.Path(tmp_path / "plain_acl.yml").write_text(ACCOUNTS)
    access = {"acl_enable": True, "acl_directory": str(tmp_path)}
    async with running_pair(tmp_path, **access, replication_account="") as pair:
        await pair.stop_master()
        await pair.commit(pair.slave, 7)
        await pair.start_master()
        assert await pair.offset(pair.master) == "3"
