"""The Spark data source ``rocketmq``: entry point of ``spark.read.format("rocketmq")``.

::

    spark.read.format("rocketmq").load("/var/lib/rocketmq/store")                         # files, of a dead broker too
    spark.read.format("rocketmq").options(nameServer="127.0.0.1:9876", topic="T").load()  # a live cluster
    frame.write.format("rocketmq").options(nameServer="127.0.0.1:9876", topic="T").mode("append").save()

Spark imports this module when a session first discovers Python data sources, used or not. Rule: it imports only modules
that PySpark has loaded anyway; the readers and pyarrow are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from rocketpy.spark.failures import stated

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

FORMAT_NAME = "rocketmq"


class RocketMQDataSource(DataSource):
    """``spark.read.format("rocketmq")``; also for ``spark.dataSource.register`` where the look-up is off."""

    @classmethod
    def name(cls) -> str:
        """Return the name used with ``format``."""
        return FORMAT_NAME

    @stated
    def schema(self) -> StructType:
        """Return the schema that the options ask for; wrong options fail here, before anything is read."""
        from rocketpy.spark.readers import schema_of

        return schema_of(self.options)

    @stated
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader that the options ask for."""
        from rocketpy.spark.readers import open_reader

        return open_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream; never raises.

        PySpark (4.3) stops the reader when the process of a query ends. Where this raises there is none, and all that
        the user reads is an UnboundLocalError. So the reader that is returned then raises the reason when it is used.
        """
        try:
            from rocketpy.spark.readers import open_streaming_reader

            return open_streaming_reader(self.options, schema)
        except Exception as error:
            return _refuse(error)

    @stated
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a DataFrame; its columns and the options are checked here, before anything is sent."""
        from rocketpy.spark.sink.settings import parse_sink_options
        from rocketpy.spark.sink.writers import BatchWriter

        return BatchWriter(schema, parse_sink_options(self.options), overwrite=overwrite)

    @stated
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return the writer of a stream's micro-batches, checked as :meth:`writer` does."""
        from rocketpy.spark.sink.settings import parse_sink_options
        from rocketpy.spark.sink.writers import StreamWriter

        return StreamWriter(schema, parse_sink_options(self.options), overwrite=overwrite)


def _refuse(error: Exception) -> DataSourceStreamReader:
    from rocketpy.spark.stream.refused_reader import RefusedStreamReader

    return RefusedStreamReader(error)
