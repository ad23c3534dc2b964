"""Settings of a broker: what Java writes, wrong values, and what is derived from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.start_settings import default_settings
from rocketpy.errors import SettingsError
from rocketpy.settings import load_settings, settings_from_text, updated_settings

GOLDEN = Path(__file__).parents[1] / "golden" / "config" / "broker.properties"


def test_a_file_written_by_java_is_read_and_its_few_unknown_keys_are_named() -> None:
    loaded = load_settings(str(GOLDEN), *default_settings())
    broker = loaded.of(BrokerConfig)
    assert (broker.broker_name, broker.namesrv_addr) == ("broker-0", "127.0.0.1:22876")
    assert set(loaded.unknown) <= {
        "channelNotActiveInterval",
        "clientPooledByteBufAllocatorEnable",
        "disableCallbackExecutor",
        "isEnableBatchPush",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aclEnable=yes", "expected true or false"),
        ("brokerId=a", "expected an integer: above 0 for a slave"),
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


def test_a_store_plug_in_counts_only_where_the_broker_is_started() -> None:
    loaded = settings_from_text("messageStorePlugIn=my.module:Store, other:make", "b.conf", BrokerConfig)
    config = loaded.of(BrokerConfig)
    assert config.message_store_plug_in == "my.module:Store, other:make"
    with pytest.raises(SettingsError, match=r"^b\.conf line 1: messageStorePlugIn = 'org\.Store': expected package"):
        settings_from_text("messageStorePlugIn=org.Store", "b.conf", BrokerConfig)
    with pytest.raises(SettingsError, match=r"^messageStorePlugIn = 'evil:Store': expected no change"):
        updated_settings(config, {"messageStorePlugIn": "evil:Store"})


@pytest.mark.parametrize("field", ["broker_name", "broker_cluster_name", "region_id"])
@pytest.mark.parametrize("text", ["../../outside/evil", "a\0b", "a\x01b", "a\nb", " a", "/"])
def test_a_name_leads_nowhere(field: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{field} is .*expected a name without / and control characters"):
        BrokerConfig(**{field: text})
    BrokerConfig(**{field: "größe #7..b"})
