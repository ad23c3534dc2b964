"""The broker's settings by command; and what no command may change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.start_settings import default_settings
from rocketpy.nameserver.config import NamesrvConfig
from rocketpy.properties_text import format_property
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.topic import DataVersion
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.settings import setting_rows, settings_from_text
from tests.broker.broker_on_bytes import BrokerOnBytes


def update(**settings: object) -> RemotingCommand:
    lines = [format_property(key, str(value)) for key, value in settings.items()]
    return make_request(RequestCode.UPDATE_BROKER_CONFIG, body="\n".join(lines).encode())


async def shown(broker: BrokerOnBytes) -> dict[str, str]:
    answer = await broker.ask(make_request(RequestCode.GET_BROKER_CONFIG))
    assert answer.body is not None
    return dict(line.split("=", 1) for line in answer.body.decode().splitlines())


async def version_of_settings(broker: BrokerOnBytes) -> DataVersion:
    answer = await broker.ask(make_request(RequestCode.GET_BROKER_CONFIG))
    return decode_body((answer.ext_fields or {})["version"], DataVersion)


async def test_settings_are_lines_that_read_back(broker: BrokerOnBytes) -> None:
    answer = await broker.ask(make_request(RequestCode.GET_BROKER_CONFIG))
    assert answer.code == ResponseCode.SUCCESS
    assert answer.body is not None
    loaded = settings_from_text(answer.body.decode(), "answer", BrokerConfig).of(BrokerConfig)
    assert loaded.broker_name == "broker-a"
    assert b"\nlistenPort=8888\n" in answer.body
    assert await version_of_settings(broker) == DataVersion(broker.tables.clock.timestamp_ms(), 0)


async def test_a_change_counts_at_once_and_is_in_the_file(broker: BrokerOnBytes, tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text("# offsets\nflushConsumerOffsetInterval = 5000 \n")
    answer = await broker.ask(update(flushConsumerOffsetInterval=4000))
    assert (answer.code, answer.remark, answer.ext_fields, answer.body) == (ResponseCode.SUCCESS, None, None, None)
    assert broker.tables.config.flush_consumer_offset_interval == 4000
    assert (await shown(broker))["flushConsumerOffsetInterval"] == "4000"
    assert (await version_of_settings(broker)).counter == 1
    assert (tmp_path / "broker.conf").read_text() == "# offsets\nflushConsumerOffsetInterval=4000\n"


async def test_what_waits_for_the_next_start_is_named(broker: BrokerOnBytes) -> None:
    answer = await broker.ask(update(maxMessageSize=65536, longPollingEnable="false"))
    assert answer.code == ResponseCode.SUCCESS
    assert answer.remark == "takes effect with the next start: maxMessageSize"


async def test_the_next_get_shows_what_was_accepted_and_what_is_in_force(broker: BrokerOnBytes) -> None:
    before = await shown(broker)
    await broker.ask(update(maxMessageSize=65536, longPollingEnable="false"))
    changed = {"maxMessageSize": "65536", "maxMessageSize.inForce": "4194304", "longPollingEnable": "false"}
    assert await shown(broker) == {**before, **changed}


@pytest.mark.parametrize(
    ("body", "remark"),
    [
        (b"flushConsumerOffsetInterval=4x", "nothing has changed: flushConsumerOffsetInterval = '4x': expected "),
        (b"longPollingEnable=maybe", "nothing has changed: longPollingEnable = 'maybe': expected true or false"),
        (b"brokerPermission=8", "nothing has changed: brokerPermission = '8': expected "),
        (b"longPolingEnable=true", "nothing has changed: unknown key longPolingEnable has no effect; did you mean "),
        (b"a=\\u12", "nothing has changed:  line 1: expected four hexadecimal digits"),
        (b"k" * 101 + b"=1", f"nothing has changed: unknown key {'k' * 100}... has no effect"),
        (b"#" * 65_536, "nothing has changed: body: expected at most 65536 bytes of settings, found 65557"),
        (b"brokerIP1=\xff", "string2Properties error: expected UTF-8, found byte 0xff at 10"),
    ],
)
async def test_a_wrong_change_is_refused_with_its_position(broker: BrokerOnBytes, body: bytes, remark: str) -> None:
    before = await shown(broker)
    answer = await broker.ask(make_request(RequestCode.UPDATE_BROKER_CONFIG, body=b"slaveReadEnable=true\n" + body))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith(remark.replace("line 1", "line 2").replace("at 10", "at 31"))
    assert await shown(broker) == before


async def test_no_body_changes_nothing(broker: BrokerOnBytes, tmp_path: Path) -> None:
    assert (await broker.ask(make_request(RequestCode.UPDATE_BROKER_CONFIG))).code == ResponseCode.SUCCESS
    assert not (tmp_path / "broker.conf").exists()


async def test_a_file_that_cannot_be_written_refuses_the_change(broker: BrokerOnBytes, tmp_path: Path) -> None:
    (tmp_path / "broker.conf").mkdir()
    answer = await broker.ask(update(longPollingEnable="false"))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("nothing has changed, the file could not be written: ")
    assert broker.tables.config.long_polling_enable


# ---- what no request may change -------------------------------------------------------------------------------------

CVE_2023_33246 = ["rocketmqHome", "filterServerNums"]
"""A command in the path of RocketMQ's home was run when filter servers were to be started."""

FORBIDDEN = [
    *CVE_2023_33246,
    "brokerConfigPath",
    "configBlackList",
    "storePathRootDir",
    "storePathCommitLog",
    "readOnlyCommitLogStorePaths",
    "storePathDLedgerCommitLog",
    "namesrvAddr",
    "fetchNamesrvAddrByAddressServer",
    "brokerIP1",
    "brokerIP2",
    "listenPort",
    "bindAddress",
    "haListenPort",
    "haMasterAddress",
    "brokerRole",
    "brokerId",
    "dLegerPeers",
    "messageStorePlugIn",
]


@pytest.mark.parametrize("key", FORBIDDEN)
async def test_no_request_changes_a_path_an_address_or_a_command(
    broker: BrokerOnBytes, tmp_path: Path, key: str
) -> None:
    value = "1" if key in ("filterServerNums", "listenPort", "haListenPort", "brokerId") else "-c $@|sh . echo id;"
    before = await shown(broker)
    answer = await broker.ask(update(longPollingEnable="false", **{key: value}))
    assert answer.code == ResponseCode.NO_PERMISSION
    assert (answer.remark or "").startswith(f"Can not update config in black list. {key} ")
    assert await shown(broker) == before
    assert not (tmp_path / "broker.conf").exists()


def test_every_setting_that_smells_of_a_path_an_address_or_a_command_is_fixed() -> None:
    """A setting that is added later is caught here, not by a CVE."""
    smells = re.compile(
        r"path|dir$|directory|home|file(?!ReservedTime)|addr|ip\d|listenPort|host|peers|plugIn|command|script|class|blackList",
        re.IGNORECASE,
    )
    harmless = re.compile(r"(mappedFile|maped|openMax|FilesInterval|FileForcibly|WarmMaped|FileInterval|HangedFile)")
    rows = [row for each in (*default_settings(), NamesrvConfig()) for row in setting_rows(each.__class__)]
    open_ones = [
        row.key
        for row in rows
        if smells.search(row.key) and not harmless.search(row.key) and row.value_type not in (int, bool, float)
    ]
    loose = [row.key for row in rows if row.key in open_ones and not row.fixed]
    assert not loose, f"settings that a request could change: {loose}"
    assert set(FORBIDDEN) <= {row.key for row in rows if row.fixed}


async def test_the_black_list_of_the_file_is_obeyed_and_cannot_be_emptied(
    broker_with: type[BrokerOnBytes],
) -> None:
    broker = broker_with(config_black_list="maxMessageSize;;autoCreateTopicEnable")
    for key, value in {"maxMessageSize": 1000, "autoCreateTopicEnable": "false", "configBlackList": ""}.items():
        answer = await broker.ask(update(**{key: value}))
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark == f"Can not update config in black list. {key} is changed in the file, with a restart"
    assert broker.tables.config.auto_create_topic_enable
