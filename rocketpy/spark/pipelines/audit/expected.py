"""What queues and index should have for the messages of a log: the units and keys that a broker makes of each record.

The rules are those of dispatch: a prepared or rolled back record has no unit, a rolled back one no key, a placeholder
of ``rocketpy store repair`` no key. A record that names further queues (multi-dispatch) may have a unit in each.

Compatibility: ``DefaultMessageStore.CommitLogDispatcherBuildConsumeQueue`` and ``IndexService.buildIndex`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from rocketpy.protocol.properties import (
    INDEX_KEYS_MAX,
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
)
from rocketpy.protocol.sysflag import NO_QUEUE_FLAG, TRANSACTION_ROLLBACK_TYPE
from rocketpy.protocol.topic_name import LMQ_PREFIX, SCHEDULE_TOPIC
from rocketpy.spark.pipelines.audit.java_hashes import index_key_hashes, tags_codes
from rocketpy.store.inspection.repair.placeholders import PROPERTY_DAMAGED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TAGGED_SCHEMA = (
    "topic string, queue_id int, queue_offset bigint, physical_offset bigint, size int, since timestamp, "
    "is_timed boolean, is_placeholder boolean, names string, offsets string, tags_code bigint"
)
_KEY_SCHEMA = "topic string, physical_offset bigint, since timestamp, key string, is_due boolean, key_hash int"


def expected_units(messages: DataFrame) -> DataFrame:
    """Return the units that the records should have.

    Columns: ``topic``, ``queue_id``, ``queue_offset``, ``physical_offset``, ``size``, ``tags_code``, ``since`` (store
    time), ``is_own`` (false in a queue that multi-dispatch names), ``is_timed`` (the tag code may be a time of
    delivery), ``is_placeholder``.
    """
    properties = F.col("properties")
    tagged = (
        messages.where(F.col("sys_flag").bitwiseAND(NO_QUEUE_FLAG) == 0)
        .select(
            "topic",
            "queue_id",
            "queue_offset",
            "physical_offset",
            F.col("stored_size").alias("size"),
            F.col("store_timestamp").alias("since"),
            ((F.col("topic") == SCHEDULE_TOPIC) & F.map_contains_key(properties, PROPERTY_DELAY_TIME_LEVEL)).alias(
                "is_timed"
            ),
            F.map_contains_key(properties, PROPERTY_DAMAGED).alias("is_placeholder"),
            properties[PROPERTY_INNER_MULTI_DISPATCH].alias("names"),
            properties[PROPERTY_INNER_MULTI_QUEUE_OFFSET].alias("offsets"),
            "tags",
        )
        .mapInArrow(_with_tags_codes, _TAGGED_SCHEMA)
    )
    queues = F.expr(
        "concat(array(named_struct('topic', topic, 'queue_id', queue_id, 'queue_offset', queue_offset,"
        " 'is_own', true)),"
        " if(names is null or size(split(names, ',')) != size(split(offsets, ',')), array(),"
        " filter(transform(split(names, ','), (name, i) -> named_struct("
        f" 'topic', name, 'queue_id', if(startswith(name, '{LMQ_PREFIX}'), 0, queue_id),"
        " 'queue_offset', try_cast(split(offsets, ',')[i] as bigint), 'is_own', false)),"
        " x -> x.queue_offset >= 0 and (x.topic != topic or x.queue_id != queue_id))))"
    )
    return tagged.select(
        F.explode(queues).alias("queue"),
        "physical_offset",
        "size",
        "tags_code",
        "since",
        "is_timed",
        "is_placeholder",
    ).select("queue.*", "physical_offset", "size", "tags_code", "since", "is_timed", "is_placeholder")


def expected_keys(messages: DataFrame) -> DataFrame:
    """Return the index keys of the records: the unique key, and each part of KEYS.

    Columns: ``topic``, ``physical_offset``, ``since`` (store time), ``key``, ``key_hash``, ``is_due`` (false for keys
    past the 128th of a message, which our broker leaves out and a Java broker indexes).
    """
    keys = F.expr(
        "filter(concat(array(unique_key), split(coalesce(keys, ''), ' ')), key -> key is not null and key != '')"
    )
    return (
        messages.where(F.col("sys_flag").bitwiseAND(TRANSACTION_ROLLBACK_TYPE) != TRANSACTION_ROLLBACK_TYPE)
        .where(~F.map_contains_key(F.col("properties"), PROPERTY_DAMAGED))
        .select("topic", "physical_offset", F.col("store_timestamp").alias("since"), F.posexplode(keys))
        .select(
            "topic",
            "physical_offset",
            "since",
            F.col("col").alias("key"),
            (F.col("pos") < INDEX_KEYS_MAX).alias("is_due"),
        )
        .mapInArrow(_with_key_hashes, _KEY_SCHEMA)
    )


# ---- on executors ---------------------------------------------------------------------------------------------------


def _with_tags_codes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        codes = pa.array(tags_codes(batch.column("tags")))
        kept = batch.select([name for name in batch.schema.names if name != "tags"])
        yield kept.append_column("tags_code", codes)


def _with_key_hashes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.append_column(
            "key_hash", pa.array(index_key_hashes(batch.column("topic"), batch.column("key")), pa.int32())
        )
