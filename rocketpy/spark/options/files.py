"""Options of reading store directories."""

from __future__ import annotations

from rocketpy.spark.options.kinds import BOOLEAN, LOCAL_PATH, NAMES, one_of, size_in_bytes
from rocketpy.spark.options.option import Mode, Option, modes

_FILES = modes(Mode.FILES)

PATH: Option[str | None] = Option(
    "path",
    LOCAL_PATH,
    None,
    _FILES,
    "Store directory, or its `commitlog` directory, also as `file:///...`; `load(path)` sets it.",
    shown_default="required",
)
KEYS: Option[tuple[str, ...]] = Option(
    "keys",
    NAMES,
    (),
    _FILES,
    "Only messages with one of these index keys: in KEYS, or as UNIQ_KEY.",
    shown_default="none",
)
INCLUDE_SYSTEM_TOPICS: Option[bool] = Option(
    "includeSystemTopics",
    BOOLEAN,
    False,
    _FILES,
    "Where no `topic` is named: also those of the broker itself, which hold half messages, delayed messages, traces.",
)
MODE: Option[str] = Option(
    "mode",
    one_of("failfast", "permissive", "dropmalformed"),
    "failfast",
    _FILES,
    "About damage: `failFast` stops with file and position; `permissive` skips bytes that are no record; "
    "`dropMalformed` also skips records whose body does not fit its checksum or does not decompress.",
    shown_default="`failFast`",
)
VIEW: Option[str] = Option(
    "view",
    one_of("messages", "problems"),
    "messages",
    _FILES,
    "`problems`: the damaged places instead of the messages, as columns file, position, size, what.",
)
CHECK_CRC: Option[str] = Option(
    "checkCrc",
    one_of("auto", "true", "false"),
    "auto",
    _FILES,
    "Compare bodies with their checksums: `auto` does where bodies are read, so not in a `failFast` or `permissive` "
    "read of columns without `body` and `body_size`; `true` always does.",
)
MAX_PARTITION_BYTES: Option[int] = Option(
    "maxPartitionBytes",
    size_in_bytes(64 * 2**10, 2**40),
    128 * 2**20,
    _FILES,
    "Bytes of a file that one task reads, about; Spark's own for files.",
    shown_default="`128m`",
)
READ_UNITS: Option[str] = Option(
    "readUnits",
    one_of("auto", "always", "never"),
    "auto",
    _FILES,
    "Read topics through their ConsumeQueues, and keys of topics through the index: `auto` where that is less work, "
    "`always` where a topic is named. Through queues records of deleted topics are not read. `never` uses neither, not "
    "even queues to cut files.",
)

OPTIONS = (PATH, KEYS, INCLUDE_SYSTEM_TOPICS, MODE, VIEW, CHECK_CRC, MAX_PARTITION_BYTES, READ_UNITS)
