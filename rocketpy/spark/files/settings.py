"""The options of a read of files, as one value."""

from __future__ import annotations

from enum import Enum

import attrs

from rocketpy.protocol.topic_name import BENCHMARK_TOPIC, DELAY_DEAD_LETTER_TOPIC, SYSTEM_TOPICS
from rocketpy.spark.files.byte_ranges import PIECE_SIZE
from rocketpy.spark.files.problems import ReadMode
from rocketpy.spark.filters import EVERYTHING, MessageFilter, Range
from rocketpy.spark.options.files import (
    CHECK_CRC,
    INCLUDE_SYSTEM_TOPICS,
    KEYS,
    MAX_PARTITION_BYTES,
    MODE,
    PATH,
    READ_UNITS,
)
from rocketpy.spark.options.live import FAIL_ON_DATA_LOSS
from rocketpy.spark.options.option import OptionValues
from rocketpy.spark.options.reading import DECOMPRESS, END_TIMESTAMP, MIN_PARTITIONS, START_TIMESTAMP, TOPIC

BROKER_TOPICS = (SYSTEM_TOPICS - {BENCHMARK_TOPIC}) | {DELAY_DEAD_LETTER_TOPIC}
"""Topics that brokers write for themselves: a delayed or transactional message is in one of them a second time."""


class ReadUnits(Enum):
    """Whether ConsumeQueues and Index lead the read; the value is the option's."""

    AUTO = "auto"  # where that is less work
    ALWAYS = "always"
    NEVER = "never"  # not even to cut files


class CheckCrc(Enum):
    """Whether bodies are compared with their checksums; the value is the option's."""

    AUTO = "auto"  # where rows depend on bodies
    ALWAYS = "true"
    NEVER = "false"


@attrs.frozen(kw_only=True)
class FileSettings:
    """Validated options of a read of files."""

    path: str
    wants: MessageFilter = EVERYTHING
    mode: ReadMode = ReadMode.FAIL_FAST
    read_units: ReadUnits = ReadUnits.AUTO
    partition_bytes_max: int = MAX_PARTITION_BYTES.default
    partitions_min: int = 1
    check_crc: CheckCrc = CheckCrc.AUTO
    decompress: bool = True
    fail_on_data_loss: bool = True
    piece_size: int = PIECE_SIZE


def settings_of(values: OptionValues) -> FileSettings:
    """Return the options of mode FILES as settings."""
    path = values[PATH]
    assert path is not None, "a read of files has a path"
    topics, keys, with_system_topics = values[TOPIC], values[KEYS], values[INCLUDE_SYSTEM_TOPICS]
    wants = MessageFilter(
        topics=frozenset(topics) if topics else None,
        without_topics=frozenset() if topics or with_system_topics else BROKER_TOPICS,
        store_timestamps_ms=Range(values[START_TIMESTAMP], values[END_TIMESTAMP]),
        keys=frozenset(keys) if keys else None,
    )
    return FileSettings(
        path=path,
        wants=wants,
        mode=ReadMode(values[MODE]),
        read_units=ReadUnits(values[READ_UNITS]),
        partition_bytes_max=values[MAX_PARTITION_BYTES],
        partitions_min=values[MIN_PARTITIONS],
        check_crc=CheckCrc(values[CHECK_CRC]),
        decompress=values[DECOMPRESS],
        fail_on_data_loss=values[FAIL_ON_DATA_LOSS],
    )
