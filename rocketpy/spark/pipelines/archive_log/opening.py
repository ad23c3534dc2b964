"""Opens an archive, or any directory of a pipeline, on the file system of its path."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rocketpy.clock import Clock, SystemClock
from rocketpy.spark.pipelines.archive_log.file_system import FileSystem, LocalFileSystem
from rocketpy.spark.pipelines.archive_log.hadoop_file_system import HadoopFileSystem
from rocketpy.spark.pipelines.archive_log.log import ArchiveLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_SCHEME = "file"


def open_archive_log(spark: SparkSession, path: str, *, clock: Clock | None = None) -> ArchiveLog:
    """Return the log of the archive at a path."""
    root, files = open_files(spark, path, clock=clock)
    return ArchiveLog(root, files=files)


def open_files(spark: SparkSession, path: str, *, clock: Clock | None = None) -> tuple[str, FileSystem]:
    """Return a directory as an absolute path, completed as Spark completes any path, and its file system."""
    jvm: Any = spark.sparkContext._jvm
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
    files = hadoop_path.getFileSystem(configuration)
    if files.getScheme() == LOCAL_SCHEME:
        return os.path.abspath(hadoop_path.toUri().getPath()), LocalFileSystem()
    qualified = str(files.makeQualified(hadoop_path).toString())
    return qualified, HadoopFileSystem(spark, qualified, clock=clock or SystemClock())
