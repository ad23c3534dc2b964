"""A program that writes the classes which Spark has loaded to a file, for the other Spark processes of a test run.

``python -m tests.spark_classes`` writes the file that ROCKETPY_SPARK_CLASSES names; without PySpark or Java there is
none. Java calls it a dynamic archive for class-data sharing: a process that is started with it has none of these
classes to parse and to verify. It holds classes of Spark and Java only, so no test has less to find.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rocketpy.errors import StartError
from rocketpy.spark.session import check_java, open_local_session
from tests.spark_runtime import CLASSES, DRIVER_OPTIONS, SHORT_RUN, SILENT
from tests.store.golden_store import unpack_store

ROOT = Path(__file__).parents[1]
RUN_S = 1800.0


def main() -> int:
    """Have Spark run :func:`use_spark`, and Java write its classes when it ends; the exit status."""
    path = Path(os.environ[CLASSES])
    try:
        import pyspark

        check_java()
    except (ImportError, StartError) as error:
        print(f"no file of Spark's classes: {error}")
        return 0
    # With spark-submit Java is the process that is waited for: from Python it would outlive its session.
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]"]
    loopback = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    with tempfile.TemporaryDirectory(prefix="rocketpy-spark-") as directory:
        environment = os.environ | {
            DRIVER_OPTIONS: f"{SHORT_RUN} {SILENT} -XX:ArchiveClassesAtExit={path}",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_DIRS": directory,
        }
        program = [*submit, *loopback, "--conf", "spark.ui.enabled=false", __file__, directory]
        done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=RUN_S, check=False)
    if done.returncode != 0 or not path.is_file():
        print(f"no file of Spark's classes, status {done.returncode}:\n{done.stderr}", file=sys.stderr)
        return 1
    print(f"file of Spark's classes: {path.stat().st_size:,} bytes")
    return 0


def use_spark(directory: Path) -> None:
    """Archive a store, and read the archive as a table and as a stream: what most tests of Spark do."""
    from rocketpy.spark.pipelines.archive import archive, read_archive
    from rocketpy.spark.pipelines.sources import store_messages

    root = str(directory / "archive")
    with open_local_session(settings={"spark.sql.warehouse.dir": str(directory)}) as spark:
        archive(store_messages(spark, str(unpack_store("store-clean", directory)), "b"), root)
        messages = read_archive(spark, root)
        messages.groupBy("topic").count().orderBy("topic").toPandas()
        writer = spark.readStream.schema(messages.schema).parquet(f"{root}/topic=GoldA").writeStream.format("parquet")
        writer = writer.option("path", str(directory / "out")).option("checkpointLocation", str(directory / "log"))
        writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    sys.exit(use_spark(Path(sys.argv[1])) if len(sys.argv) > 1 else main())
