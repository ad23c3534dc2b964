"""Settings of a file, each with another value than its default, and what a whole broker does because of it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import attrs
import pytest

from rocketpy.broker.start_settings import BrokerSettings, StartOptions, load_broker_settings
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.topic import TopicConfigSerializeWrapper
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.offset import UpdateConsumerOffsetRequestHeader
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.disk.text_files import read_text
from rocketpy.testing.broker_world import BrokerWorld, Client
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.message_broker import pull, send
from tests.broker.test_app import client_of
from tests.broker.test_app import pull as plain_pull
from tests.broker.test_app import send as plain_send
from tests.broker.test_hooks import Recorder

SMALL = """\
bindAddress=127.0.0.1
brokerIP1=127.0.0.1
brokerName=broker-a
storePathRootDir=/store
mappedFileSizeCommitLog=524288
maxHashSlotNum=100
maxIndexNum=1000
waitTimeMillsInSendQueue=60000
osPageCacheBusyTimeOutMills=60000
"""


def settings_of(directory: Path, *lines: str, **options: object) -> BrokerSettings:
    """The settings of a file with these lines, as ``python -m rocketpy.broker -c FILE`` reads them."""
    path = directory / "broker.conf"
    path.write_text(SMALL + "".join(f"{line}\n" for line in lines))
    return load_broker_settings(StartOptions(config_file=str(path), namesrv_addr="127.0.0.1:1", **options))  # type: ignore[arg-type]


def world_of(directory: Path, *lines: str) -> BrokerWorld:
    """A broker with these settings, over a simulated disk and in virtual time."""
    world = BrokerWorld(settings_of(directory, *lines), disk=SimDisk())
    world.begin()
    return world


def asked(client: Client, request: RemotingCommand) -> RemotingCommand:
    answer = client.ask(request)
    assert answer is not None
    return answer


def test_producers_get_the_region(tmp_path: Path) -> None:
    with world_of(tmp_path, "regionId=Mars") as broker:
        answer = asked(broker.connect(), send(topic="T"))
        assert answer.code == ResponseCode.SUCCESS
        assert (answer.ext_fields or {})["MSG_REGION"] == "Mars"


@pytest.mark.parametrize(("asked_for", "made"), [(8, 3), (3, 3), (2, 2)])
def test_a_new_topic_has_no_more_queues_than_default_topic_queue_nums(
    tmp_path: Path, asked_for: int, made: int
) -> None:
    with world_of(tmp_path, "defaultTopicQueueNums=3") as broker:
        client = broker.connect()
        assert asked(client, send(topic="New", default_topic_queue_nums=asked_for)).code == ResponseCode.SUCCESS
        answer = asked(client, make_request(RequestCode.GET_ALL_TOPIC_CONFIG))
        table = decode_body(answer.body or b"", TopicConfigSerializeWrapper).topic_config_table
        assert (table["New"].read_queue_nums, table["New"].write_queue_nums) == (made, made)


def test_a_pull_without_long_polling_waits_for_short_polling_time_mills(tmp_path: Path) -> None:
    with world_of(tmp_path, "longPollingEnable=false", "shortPollingTimeMills=3000") as broker:
        client = broker.connect()
        asked(client, send(topic="T"))
        request = pull(topic="T", queue_offset=1, sys_flag=6, suspend_timeout_millis=15_000)
        assert client.ask(request) is None
        broker.pass_time(2.9)
        assert client.answer(request) is None
        broker.pass_time(0.7)
        answer = client.answer(request)
        assert answer is not None
        assert answer.code == ResponseCode.PULL_NOT_FOUND


def test_offsets_are_written_every_flush_consumer_offset_interval(tmp_path: Path) -> None:
    with world_of(tmp_path, "flushConsumerOffsetInterval=20000") as broker:
        client = broker.connect()
        header = UpdateConsumerOffsetRequestHeader(consumer_group="G", topic="T", queue_id=0, commit_offset=7)
        asked(client, make_request(RequestCode.UPDATE_CONSUMER_OFFSET, header))

        def is_written() -> bool:
            path, disk = "/store/config/consumerOffset.json", broker.life.disk
            return disk.exists(path) and '"T@G"' in (read_text(disk, path) or "")

        broker.pass_time(19)
        assert not is_written()
        broker.pass_time(2)
        assert is_written()


def test_levels_of_message_delay_level(tmp_path: Path) -> None:
    """Two of them: a higher one is the second, and takes three minutes."""
    with world_of(tmp_path, "messageDelayLevel=5s 3m") as broker:
        client = broker.connect()
        assert asked(client, send(b"later", topic="T", properties="DELAY\x019")).code == ResponseCode.SUCCESS
        assert len(broker.messages(SCHEDULE_TOPIC, 1)) == 1
        broker.pass_time(179)
        assert broker.messages("T", 0) == []
        broker.pass_time(2)
        assert [message.body for message in broker.messages("T", 0)] == [b"later"]


def test_files_have_the_sizes_that_are_set(tmp_path: Path) -> None:
    lines = ["mappedFileSizeCommitLog=65536", "mappedFileSizeConsumeQueue=400", "maxHashSlotNum=50", "maxIndexNum=200"]
    with world_of(tmp_path, *lines) as broker:
        for _ in range(3):
            asked(broker.connect(), send(topic="T", properties="KEYS\x01k"))
        broker.pass_time(5)
        disk = broker.life.disk
        (index,) = disk.list_directory("/store/index")
        assert size_of(disk, "/store/commitlog/00000000000000000000") == 65_536
        assert size_of(disk, "/store/consumequeue/T/0/00000000000000000000") == 400
        assert size_of(disk, f"/store/index/{index}") == 40 + 50 * 4 + 200 * 20


def size_of(disk: SimDisk, path: str) -> int:
    file = disk.open(path, read_only=True)
    try:
        return file.size()
    finally:
        file.close()


class AllCalls(Recorder):
    """A hook that a setting names; records the calls of all of them."""

    all_calls: ClassVar[list[str]] = []

    def send_message_after(self, context: object) -> None:
        self.all_calls.append("sent")

    def consume_message_before(self, context: object) -> None:
        self.all_calls.append("pulled")


@pytest.mark.parametrize(("key", "calls"), [("sendMessageHooks", ["sent"]), ("consumeMessageHooks", ["pulled"])])
async def test_hooks_that_settings_name_are_called(tmp_path: Path, key: str, calls: list[str]) -> None:
    AllCalls.all_calls.clear()
    settings = settings_of(tmp_path, f"{key}={__name__}:AllCalls", "listenPort=0", store_path=str(tmp_path / "store"))
    async with client_of(settings) as (client, broker):
        assert (await client.request(broker.address, plain_send())).code == ResponseCode.SUCCESS
        assert (await client.request(broker.address, plain_pull())).code == ResponseCode.SUCCESS
    assert AllCalls.all_calls == calls


async def test_clients_come_to_broker_ip_1(tmp_path: Path) -> None:
    """Whatever address the broker itself would have chosen."""
    settings = settings_of(tmp_path, "brokerIP1=127.0.0.9", "listenPort=0", store_path=str(tmp_path / "store"))
    async with client_of(attrs.evolve(settings, host="127.0.0.1")) as (_, broker):
        assert broker.address == f"127.0.0.9:{broker.port}"
