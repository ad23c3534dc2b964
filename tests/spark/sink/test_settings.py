"""Options of a write as values."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.errors import SettingsError
from rocketpy.spark.sink.row_keys import RowKeyMode
from rocketpy.spark.sink.settings import parse_sink_options

NAME_SERVER = {"nameserver": "127.0.0.1:9876"}


def test_the_defaults_need_only_a_cluster() -> None:
    settings = parse_sink_options(NAME_SERVER)
    assert (settings.topic, settings.row_key, settings.drops_reserved, settings.report_path) == (
        None,
        RowKeyMode.PROPERTY,
        False,
        None,
    )


def test_options_travel_to_executors_and_a_secret_is_not_printed() -> None:
    options = {
        **NAME_SERVER,
        "topic": "T",
        "accessKey": "me",
        "secretKey": "hidden-secret",
        "rowKey": "uniqueKey",
        "reservedProperties": "drop",
        "reportPath": "reports",
        "batchMaxBytes": "9000",
        "maxMessageSize": "5000",
    }
    settings = pickle.loads(pickle.dumps(parse_sink_options(options)))
    assert settings == parse_sink_options(options)
    assert (settings.row_key, settings.drops_reserved, settings.report_path) == (
        RowKeyMode.UNIQUE_KEY,
        True,
        Path("reports"),
    )
    assert settings.batch_max_bytes == 5000, "a batch is a message to the broker that checks its size"
    assert "hidden-secret" not in repr(settings)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topic": "T"}, "needs the option nameServer"),
        (
            {**NAME_SERVER, "topic": "A,B"},
            "one topic for the rows that name none, found A, B; for several use a column",
        ),
        ({**NAME_SERVER, "rowkey": "id"}, "option rowKey: expected property, uniquekey or none, found 'id'"),
        ({**NAME_SERVER, "retrys": "1"}, "the nearest is retries"),
        ({**NAME_SERVER, "path": "/tmp"}, "option path is for reads of files"),
        ({**NAME_SERVER, "tls": "true"}, r"needs the option tlsCaFile \(or tlsInsecure=true\), found neither"),
        ({**NAME_SERVER, "tlscafile": "x"}, "has no effect without tls=true"),
        ({**NAME_SERVER, "accesskey": "a"}, "belong together"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        parse_sink_options(options)
