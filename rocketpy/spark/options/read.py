"""Validated options of a batch read, as one value."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketpy.errors import SettingsError
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.spark.options.connection import ACCESS_KEY, NAME_SERVER, REQUEST_TIMEOUT_MS, SECRET_KEY
from rocketpy.spark.options.files import PATH
from rocketpy.spark.options.live import CONSUMER_GROUP, DEFAULT_CONSUMER_GROUP, FAIL_ON_DATA_LOSS
from rocketpy.spark.options.option import Mode, OptionValues
from rocketpy.spark.options.parsing import parse, read_mode
from rocketpy.spark.options.reading import DECOMPRESS, END_TIMESTAMP, MIN_PARTITIONS, START_TIMESTAMP, TOPIC


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
    values = parse(options, read_mode(options))
    shared = ReadOptions(
        topics=values[TOPIC],
        start_timestamp_ms=values[START_TIMESTAMP],
        end_timestamp_ms=values[END_TIMESTAMP],
        min_partitions=values[MIN_PARTITIONS],
        decompress=values[DECOMPRESS],
    )
    if values.mode is Mode.FILES:
        return attrs.evolve(shared, path=values[PATH])
    if not values[TOPIC]:
        raise SettingsError(
            "the option nameServer also needs the option topic (one name, or several separated by commas)"
        )
    return attrs.evolve(
        shared,
        name_servers=values[NAME_SERVER],
        fail_on_data_loss=values[FAIL_ON_DATA_LOSS],
        consumer_group=values[CONSUMER_GROUP],
        request_timeout_s=values[REQUEST_TIMEOUT_MS] / 1000,
        credentials=credentials_of(values),
    )


def credentials_of(values: OptionValues) -> SessionCredentials | None:
    """Return the account that signs requests; :class:`SettingsError` for half of one."""
    access_key, secret_key = values[ACCESS_KEY], values[SECRET_KEY]
    if (access_key is None) != (secret_key is None):
        raise SettingsError("the options accessKey and secretKey belong together, found only one of them")
    return None if access_key is None or secret_key is None else SessionCredentials(access_key, secret_key)
