"""Settings of a broker, and conf/broker.conf, which documents those of all classes it reads."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.start_settings import TLS_SETTINGS, default_settings
from rocketpy.errors import SettingsError
from rocketpy.settings import format_settings, load_settings, setting_rows, settings_from_text, updated_settings

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf" / "broker.conf"
ALL = (*default_settings(), *(each() for each in TLS_SETTINGS))
GOLDEN = ROOT / "tests" / "golden" / "config" / "broker.properties"


def test_the_conf_file_documents_every_key_with_its_default_and_unit() -> None:
    blocks: dict[str, tuple[str, str]] = {}  # key -> value, the comment above it
    comment = ""
    for line in CONF.read_text().splitlines():
        match = re.match(r"#([A-Za-z0-9.]+)=(.*)$", line)
        if match:
            assert match.group(1) not in blocks, f"{match.group(1)} is there twice"
            blocks[match.group(1)] = (match.group(2), comment)
        elif line.startswith("#"):
            comment += line.removeprefix("#")
        else:
            comment = ""
    rows = [row for each in ALL for row in setting_rows(type(each))]
    assert sorted(blocks) == sorted({row.key for row in rows})
    defaults = dict(line.split("=", 1) for line in format_settings(*ALL))
    assert {key: value for key, (value, _) in blocks.items()} == defaults
    for row in rows:
        explained = re.sub(r"\s+", " ", blocks[row.key][1])
        assert explained, f"{row.key} is not explained"
        assert not row.unit or row.ignored or f"Unit: {row.unit}." in explained, f"the unit of {row.key} is {row.unit}"
        assert (f"No effect here: {row.ignored}." in explained) == (row.ignored is not None), row.key


def test_the_conf_file_as_it_is_changes_nothing() -> None:
    loaded = load_settings(str(CONF), *ALL)
    assert loaded.values == ALL
    assert loaded.warnings == ()


def test_the_conf_file_with_every_line_uncommented_is_the_default_too() -> None:
    text = re.sub(r"^#([A-Za-z0-9.]+=)", r"\1", CONF.read_text(), flags=re.MULTILINE)
    loaded = settings_from_text(text, "broker.conf", *ALL)
    assert loaded.warnings == ()
    assert format_settings(*loaded.values) == format_settings(*ALL)


def test_a_file_written_by_java_is_read_and_its_few_unknown_keys_are_named() -> None:
    loaded = load_settings(str(GOLDEN), *ALL)
    broker = loaded.of(BrokerConfig)
    assert (broker.broker_name, broker.namesrv_addr) == ("broker-0", "127.0.0.1:22876")
    assert set(loaded.unknown) <= {
        "channelNotActiveInterval",
        "clientPooledByteBufAllocatorEnable",
        "disableCallbackExecutor",
        "isEnableBatchPush",
    }


@pytest.mark.parametrize("key", ["brokerIP1", "brokerIP2", "namesrvAddr", "messageStorePlugIn", "transactionTimeOut"])
def test_the_odd_spellings_of_java_are_ours(key: str) -> None:
    assert key in {row.key for row in setting_rows(BrokerConfig)}


def test_every_field_that_java_writes_of_a_broker_config_is_known() -> None:
    java = dict(line.split("=", 1) for line in GOLDEN.read_text().splitlines() if "=" in line)
    ours = {row.key for row in setting_rows(BrokerConfig)}
    assert len(ours & set(java)) > 75


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aclEnable=yes", "expected true or false"),
        ("brokerId=-1", "expected an integer, at least 0"),
        ("brokerPermission=8", "expected a sum of 4"),
        ("defaultTopicQueueNums=0", "expected an integer from 1 to 65535"),
        ("flushConsumerOffsetInterval=0", "expected an integer, at least 1"),
        ("traceOn=yes", "expected true or false"),
    ],
)
def test_a_wrong_value_is_named_with_its_line(text: str, expected: str) -> None:
    with pytest.raises(SettingsError) as failure:
        settings_from_text(f"# a comment\n{text}\n", "b.conf", BrokerConfig)
    key, _, value = text.partition("=")
    assert str(failure.value).startswith(f"b.conf line 2: {key} = {value!r}: {expected}")


@pytest.mark.parametrize(("period", "seconds"), [(1, 10), (10_000, 10), (30_000, 30), (999_999, 60)])
def test_the_registration_period_has_rocketmqs_bounds(period: int, seconds: float) -> None:
    assert BrokerConfig(register_name_server_period=period).registration_period_seconds == seconds


def test_nameservers_are_separated_by_semicolons() -> None:
    assert BrokerConfig(namesrv_addr=" a:1 ; b:2;").namesrv_addresses == ("a:1", "b:2")
    assert BrokerConfig().namesrv_addresses == ()


def test_settings_are_values() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        BrokerConfig().broker_id = 1  # type: ignore[misc]


def test_a_store_plug_in_counts_only_where_the_broker_is_started() -> None:
    loaded = settings_from_text("messageStorePlugIn=my.module:Store, other:make", "b.conf", BrokerConfig)
    config = loaded.of(BrokerConfig)
    assert config.message_store_plug_in == "my.module:Store, other:make"
    with pytest.raises(SettingsError, match=r"^b\.conf line 1: messageStorePlugIn = 'org\.Store': expected package"):
        settings_from_text("messageStorePlugIn=org.Store", "b.conf", BrokerConfig)
    with pytest.raises(SettingsError, match=r"^messageStorePlugIn = 'evil:Store': expected no change"):
        updated_settings(config, {"messageStorePlugIn": "evil:Store"})
