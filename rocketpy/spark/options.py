"""Validation of the options of ``spark.read.format("rocketmq")``.

Spark passes every option as text under a case-insensitive name. A mistake here is the user's, so an error names the
option, the value and what was expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import attrs

from rocketpy.errors import SettingsError
from rocketpy.protocol.signature import SessionCredentials

DEFAULT_CONSUMER_GROUP = "rocketpy_spark"
MIN_PARTITIONS_MAX = 100_000

OPTION_NAMES = (
    "path",
    "nameServer",
    "topic",
    "startTimestamp",
    "endTimestamp",
    "minPartitions",
    "decompress",
    "failOnDataLoss",
    "consumerGroup",
    "requestTimeoutMs",
    "accessKey",
    "secretKey",
)


@attrs.frozen(kw_only=True)
class ReadOptions:
    """Validated options. Exactly one of ``path`` (files) and ``name_servers`` (a live cluster) is set."""

    path: str | None = None
    name_servers: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()  # none: every topic, which only files can offer
    start_timestamp_ms: int | None = None  # of the store, inclusive
    end_timestamp_ms: int | None = None  # of the store, exclusive
    min_partitions: int = 1
    decompress: bool = True
    fail_on_data_loss: bool = True
    consumer_group: str = DEFAULT_CONSUMER_GROUP
    request_timeout_s: float = 10.0
    credentials: SessionCredentials | None = None  # requests are signed with them

    def wants(self, topic: str, store_timestamp_ms: int) -> bool:
        """Return whether a message belongs to the result."""
        if self.topics and topic not in self.topics:
            return False
        if self.start_timestamp_ms is not None and store_timestamp_ms < self.start_timestamp_ms:
            return False
        return self.end_timestamp_ms is None or store_timestamp_ms < self.end_timestamp_ms


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Return the options as a value, or raise :class:`SettingsError` for the first that is wrong or missing."""
    given = {name.lower(): value.strip() for name, value in options.items()}
    known = {name.lower(): name for name in OPTION_NAMES}
    for name in given:
        if name not in known:
            raise SettingsError(
                f"unknown option {name!r} of format rocketmq, expected one of {', '.join(OPTION_NAMES)}"
            )
    path, name_servers = given.get("path") or None, _list(given.get("nameserver", ""), ";")
    topics = _list(given.get("topic", ""), ",")
    if path is None and not name_servers:
        raise SettingsError(
            "format rocketmq needs the option path (a store directory) or nameServer (host:port of a live cluster), "
            "found neither"
        )
    if path is not None and name_servers:
        raise SettingsError(
            "format rocketmq reads either files (path) or a live cluster (nameServer), found both options"
        )
    if name_servers and not topics:
        raise SettingsError(
            "the option nameServer also needs the option topic (one name, or several separated by commas)"
        )
    access_key, secret_key = given.get("accesskey"), given.get("secretkey")
    if bool(access_key) != bool(secret_key):
        raise SettingsError("the options accessKey and secretKey belong together, found only one of them")
    for address in name_servers:
        check_address("nameServer", address)
    return ReadOptions(
        path=path,
        name_servers=name_servers,
        topics=topics,
        start_timestamp_ms=_timestamp_ms("startTimestamp", given),
        end_timestamp_ms=_timestamp_ms("endTimestamp", given),
        min_partitions=_integer("minPartitions", given, default=1, maximum=MIN_PARTITIONS_MAX),
        decompress=_boolean("decompress", given, default=True),
        fail_on_data_loss=_boolean("failOnDataLoss", given, default=True),
        consumer_group=given.get("consumergroup") or DEFAULT_CONSUMER_GROUP,
        request_timeout_s=_integer("requestTimeoutMs", given, default=10_000, maximum=600_000) / 1000,
        credentials=SessionCredentials(access_key, secret_key) if access_key and secret_key else None,
    )


def check_address(option: str, address: str) -> tuple[str, int]:
    """Return host and port of ``host:port``; :class:`SettingsError` naming the option otherwise."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise SettingsError(f"option {option}: expected host:port, found {address!r}")
    return host.strip("[]"), int(port)


def _list(text: str, separator: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(separator) if part.strip())


def _integer(name: str, given: Mapping[str, str], *, default: int, maximum: int) -> int:
    text = given.get(name.lower())
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= maximum:
        raise SettingsError(f"option {name}: expected a whole number from 1 to {maximum}, found {text!r}")
    return int(text)


def _boolean(name: str, given: Mapping[str, str], *, default: bool) -> bool:
    text = given.get(name.lower())
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise SettingsError(f"option {name}: expected true or false, found {text!r}")
    return text.lower() == "true"


def _timestamp_ms(name: str, given: Mapping[str, str]) -> int | None:
    """Milliseconds since the epoch, or an ISO 8601 time; one without a zone is UTC."""
    text = given.get(name.lower())
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(
            f"option {name}: expected milliseconds since the epoch or a time like 2026-01-31T12:00:00+00:00, "
            f"found {text!r}"
        ) from None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
