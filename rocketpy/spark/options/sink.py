"""Options of writing."""

from __future__ import annotations

from rocketpy.spark.options.kinds import TEXT, one_of, whole_number
from rocketpy.spark.options.option import Mode, Option, modes

DEFAULT_PRODUCER_GROUP = "rocketpy_spark_sink"
MESSAGE_SIZE_MAX = 16 * 2**20 - 2**16  # a frame has 16 MiB
RETRIES_MAX = 100

_SINK = modes(Mode.SINK)

PRODUCER_GROUP: Option[str] = Option("producerGroup", TEXT, DEFAULT_PRODUCER_GROUP, _SINK, "Group of the producers.")
NAMESPACE: Option[str | None] = Option(
    "namespace", TEXT, None, _SINK, "Namespace that is put before topics, as in RocketMQ's clients."
)
BATCH_MAX_BYTES: Option[int] = Option(
    "batchMaxBytes",
    whole_number(1, MESSAGE_SIZE_MAX),
    256 * 1024,
    _SINK,
    "Largest request of several messages; a longer message goes alone, and compressed.",
)
MAX_MESSAGE_SIZE: Option[int] = Option(
    "maxMessageSize",
    whole_number(1, MESSAGE_SIZE_MAX),
    4 * 1024 * 1024,
    _SINK,
    "Largest body in bytes; as the brokers have it.",
)
RETRIES: Option[int] = Option(
    "retries",
    whole_number(0, RETRIES_MAX),
    5,
    _SINK,
    "How often a request that failed is sent again, after 0.5 s, 1 s, 2 s ... at most 8 s.",
)
ROW_KEY: Option[str] = Option(
    "rowKey",
    one_of("property", "uniquekey", "none"),
    "property",
    _SINK,
    "Where the key of write, partition and row goes, which shows duplicates: the property SPARK_ROW_KEY, or UNIQ_KEY.",
)
WRITE_ID: Option[str | None] = Option(
    "writeId",
    TEXT,
    None,
    _SINK,
    "Name of the write in the keys of its rows, to repeat a write with the same keys.",
    shown_default="a new one; of a stream the id of the query",
)
RESERVED_PROPERTIES: Option[str] = Option(
    "reservedProperties",
    one_of("refuse", "drop"),
    "refuse",
    _SINK,
    "What becomes of properties in the column `properties` that belong to RocketMQ, as stored messages have them.",
)
REPORT_PATH: Option[str | None] = Option(
    "reportPath", TEXT, None, _SINK, "Directory on the driver for a JSON file of what each write has stored."
)
CHECKPOINT_LOCATION: Option[str | None] = Option(
    "checkpointLocation", TEXT, None, _SINK, "Spark's own, of a streaming query."
)
QUERY_NAME: Option[str | None] = Option("queryName", TEXT, None, _SINK, "Spark's own, of a streaming query.")

OPTIONS = (
    PRODUCER_GROUP,
    NAMESPACE,
    BATCH_MAX_BYTES,
    MAX_MESSAGE_SIZE,
    RETRIES,
    ROW_KEY,
    WRITE_ID,
    RESERVED_PROPERTIES,
    REPORT_PATH,
    CHECKPOINT_LOCATION,
    QUERY_NAME,
)
