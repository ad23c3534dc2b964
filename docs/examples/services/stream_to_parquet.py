"""A Spark stream that writes a topic to Parquet, each message once.

``python stream_to_parquet.py 127.0.0.1:9876 orders /data`` follows the topic until SIGTERM. It needs Java 17, and
``pip install pyspark pyarrow pandas``. On a cluster ``spark-submit`` starts it, and ``/data`` is shared by driver and
executors.

The offsets of a micro-batch are in the checkpoint before it runs, and its files belong to the table once it has ended.
So a driver that is killed, at whatever moment, goes on when it is started again, and no message is missing or twice.
Spark reads the table like that; other tools also see files of a micro-batch that was cut off. A broker that dies is
waited for, ten seconds (``requestTimeoutMs``); then the query fails, the program ends, and whatever runs it starts it
again. Checkpoint and table belong together: neither is of use without the other.
"""

import logging
import os
import signal
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession

COLUMNS = "queue_id,queue_offset,keys,tags,body,store_timestamp"
log = logging.getLogger("stream_to_parquet")


def main(name_server: str, topic: str, directory: str) -> None:
    logging.basicConfig(level=logging.INFO)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark's workers are the first python3 of the PATH
    spark = SparkSession.builder.appName("stream_to_parquet").getOrCreate()
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # after the start of Spark, which has a handler of its own
        signal.signal(number, lambda *_: stopping.set())

    messages = (
        spark.readStream.format("rocketmq")
        .options(nameServer=name_server, topic=topic, startingOffsets="earliest")  # counts without a checkpoint only
        .options(columns=COLUMNS, bodyAs="string", maxOffsetsPerTrigger=10_000)
        .load()
    )
    writer = messages.writeStream.format("parquet").option("path", str(Path(directory) / "table"))
    writer = writer.option("checkpointLocation", str(Path(directory) / "checkpoint"))
    query = writer.trigger(processingTime="1 second").start()
    log.info("query %s has started", query.runId)
    while not query.awaitTermination(1):  # raises what has ended the query
        if stopping.is_set():
            query.stop()  # in the middle of a micro-batch, perhaps: it is done again at the next start
    log.info("stopped")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
