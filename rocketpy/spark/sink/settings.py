"""Options of one write as values that travel to the executors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from rocketpy.errors import SettingsError
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.spark.live.access import tls_of
from rocketpy.spark.live.tls import TlsFiles
from rocketpy.spark.options.connection import NAME_SERVER, REQUEST_TIMEOUT_MS
from rocketpy.spark.options.option import Mode, OptionValues
from rocketpy.spark.options.parsing import parse
from rocketpy.spark.options.read import credentials_of
from rocketpy.spark.options.reading import TOPIC
from rocketpy.spark.options.sink import (
    BATCH_MAX_BYTES,
    MAX_MESSAGE_SIZE,
    NAMESPACE,
    PRODUCER_GROUP,
    REPORT_PATH,
    RESERVED_PROPERTIES,
    RETRIES,
    ROW_KEY,
    WRITE_ID,
)
from rocketpy.spark.sink.row_keys import RowKeyMode


@attrs.frozen(kw_only=True)
class SinkSettings:
    """Validated options. Sizes in bytes."""

    name_servers: tuple[str, ...]
    topic: str | None = None
    namespace: str = ""
    producer_group: str
    credentials: SessionCredentials | None = attrs.field(default=None, repr=False)
    tls: TlsFiles | None = None
    request_timeout_ms: int
    retries: int
    batch_max_bytes: int
    max_message_size: int
    row_key: RowKeyMode
    write_id: str | None = None
    drops_reserved: bool = False
    report_path: Path | None = None


def parse_sink_options(options: Mapping[str, str]) -> SinkSettings:
    """Return the options as a value, or raise :class:`SettingsError` for the first that is wrong or missing."""
    values = parse(options, Mode.SINK)
    if not values[NAME_SERVER]:
        raise SettingsError("writing to format rocketmq needs the option nameServer (host:port of the cluster)")
    report_path = values[REPORT_PATH]
    return SinkSettings(
        name_servers=values[NAME_SERVER],
        topic=_topic(values),
        namespace=values[NAMESPACE] or "",
        producer_group=values[PRODUCER_GROUP],
        credentials=credentials_of(values),
        tls=_tls(values),
        request_timeout_ms=values[REQUEST_TIMEOUT_MS],
        retries=values[RETRIES],
        batch_max_bytes=min(values[BATCH_MAX_BYTES], values[MAX_MESSAGE_SIZE]),
        max_message_size=values[MAX_MESSAGE_SIZE],
        row_key=next(mode for mode in RowKeyMode if mode.value.lower() == values[ROW_KEY]),
        write_id=values[WRITE_ID],
        drops_reserved=values[RESERVED_PROPERTIES] == "drop",
        report_path=None if report_path is None else Path(report_path),
    )


def _tls(values: OptionValues) -> TlsFiles | None:
    """Return what the options say of TLS; the client checks no host names, so anybody's issuers would not do."""
    tls = tls_of(values)
    if tls is not None and tls.ca_file is None and not tls.is_insecure:
        raise SettingsError("writing with tls=true needs the option tlsCaFile (or tlsInsecure=true), found neither")
    return tls


def _topic(values: OptionValues) -> str | None:
    topics = values[TOPIC]
    if len(topics) > 1:
        raise SettingsError(
            f"option topic: a write has one topic for the rows that name none, found {', '.join(topics)}; "
            "for several use a column topic"
        )
    return topics[0] if topics else None
