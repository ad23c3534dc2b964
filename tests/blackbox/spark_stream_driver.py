"""A driver program: streams of a topic into Parquet, each with its checkpoint, until it is killed or has read it all.

``python spark_stream_driver.py NAME_SERVER TOPIC DIRECTORY STREAMS run`` never ends by itself; with ``finish`` it reads
what is there, and writes the rows of each stream, as a reader of Parquet finds them, to ``DIRECTORY/rows-N.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rocketpy.spark.session import open_local_session
from tests.spark.conftest import SMALL
from tests.spark_runtime import started_query

OFFSETS_PER_TRIGGER = 50


def main(name_server: str, topic: str, directory: str, streams: str, verb: str) -> None:
    spark = open_local_session("killed", master="local[2]", settings=SMALL)
    stream = spark.readStream.format("rocketmq").options(
        nameServer=name_server, topic=topic, startingOffsets="earliest", discoveryIntervalMs=0
    )
    if verb == "run":
        stream = stream.option("maxOffsetsPerTrigger", OFFSETS_PER_TRIGGER)
    queries = []
    for number in range(int(streams)):
        place = Path(directory) / str(number)
        writer = stream.load().writeStream.format("parquet").option("path", str(place / "out"))
        writer = writer.option("checkpointLocation", str(place / "checkpoint"))
        queries.append(started_query(writer.trigger(availableNow=True) if verb == "finish" else writer))
    (Path(directory) / "started").touch()
    for query in queries:
        query.awaitTermination()
    for number in range(int(streams)):
        rows = spark.read.parquet(str(Path(directory) / str(number) / "out")).collect()
        found = [[row.queue_id, row.queue_offset, row.body.decode()] for row in rows]
        (Path(directory) / f"rows-{number}.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
