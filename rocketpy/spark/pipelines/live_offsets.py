"""Offsets of the consumer groups of a live cluster, as its masters have them at the moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rocketpy.broker.metadata.offsets import decode_offset_table
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol import fastjson
from rocketpy.protocol.codes import RequestCode
from rocketpy.spark.live.cluster import Cluster
from rocketpy.spark.live.settings import settings_of
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse
from rocketpy.spark.pipelines.audit.progress import OFFSET_SCHEMA, offset_rows
from rocketpy.spark.pipelines.local_rows import local_frame
from rocketpy.spark.pipelines.sources import live_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIVE_OFFSET_SCHEMA = f"{OFFSET_SCHEMA}, broker_name string"


def live_group_offsets(
    spark: SparkSession, name_server: str, topics: Sequence[str], *, options: Mapping[str, str] | None = None
) -> DataFrame:
    """Return the offsets of all groups in topics; columns: ``LIVE_OFFSET_SCHEMA``.

    They are asked for now, once from each master. ``RemotingError``, ``BrokerError`` or ``ClientError`` as a read.
    """
    settings = settings_of(parse(live_options(name_server, topics, options), Mode.LIVE))
    rows: list[tuple[object, ...]] = []
    with Cluster(settings.pull.access) as cluster:
        queues = settings.subscription.queues(cluster)
        chosen = {queue.topic for queue in queues}
        for broker_name, replicas in {each.broker_name: each for each in queues.values()}.items():
            [answer] = cluster.ask_master(replicas, [(RequestCode.GET_ALL_CONSUMER_OFFSET, None)])
            try:
                table = decode_offset_table(fastjson.loads_integer_keys(answer.body or b""))
            except RemoteProtocolError as error:
                raise RemoteProtocolError(f"{replicas.master}: {error}") from error
            rows += [(*row, broker_name) for row in offset_rows(table) if row[0] in chosen]
    return local_frame(spark, rows, LIVE_OFFSET_SCHEMA)
