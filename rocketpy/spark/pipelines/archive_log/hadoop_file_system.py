"""File operations of an archive in HDFS or any other file system that Hadoop knows.

Hadoop has no lock that ends with its owner. Two runs at once are found at the end: only one of them can create the
record of its number, if the file system renames atomically and never onto an existing file, as HDFS does (S3 does not:
there only one run at a time may be started). What a dead run has staged is removed when it is a day old.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rocketpy.clock import Clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ABANDONED_AFTER_MS = 24 * 3600 * 1000
"""Longer than any run: a staging directory that old belongs to none that is alive."""


class HadoopFileSystem:
    """Files behind Hadoop's interface, reached by the gateway of a classic Spark session."""

    def __init__(self, spark: SparkSession, root: str, *, clock: Clock) -> None:
        self._clock = clock
        jvm: Any = spark.sparkContext._jvm
        gateway: Any = spark.sparkContext._gateway
        self._hadoop = jvm.org.apache.hadoop
        self._never_replace = gateway.new_array(self._hadoop.fs.Options.Rename, 0)
        self._io = jvm.org.apache.commons.io.IOUtils
        configuration = spark.sparkContext._jsc.hadoopConfiguration()
        self._files = self._path(root).getFileSystem(configuration)
        self._context = self._hadoop.fs.FileContext.getFileContext(self._files.getUri(), configuration)

    def walk(self, directory: str) -> list[str]:
        """Return the paths of all files under a directory, relative to it, sorted; none if it does not exist."""
        found: list[str] = []
        for status in self._statuses(directory):
            name = status.getPath().getName()
            if status.isDirectory():
                found += [f"{name}/{each}" for each in self.walk(f"{directory}/{name}")]
            else:
                found.append(name)
        return sorted(found)

    def list_names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; none if it does not exist."""
        return sorted(status.getPath().getName() for status in self._statuses(directory))

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        stream = self._files.open(self._path(path))
        try:
            return bytes(self._io.toByteArray(stream))
        finally:
            stream.close()

    def create(self, path: str, content: bytes) -> None:
        """Create a file with this content, durably and at once. ``FileExistsError`` if it exists."""
        directory, name = posixpath.split(path)
        unfinished = self._path(f"{directory}/.{name}.{uuid.uuid4()}")
        stream = self._files.create(unfinished, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()
        try:
            self._rename(unfinished, self._path(path))
        finally:
            self._files.delete(unfinished, False)

    def move(self, source: str, target: str) -> None:
        """Rename a file, into a directory that may be new. No error if an earlier call has done it."""
        old, new = self._path(source), self._path(target)
        self._files.mkdirs(new.getParent())
        if self._files.exists(old):
            self._rename(old, new)
        elif not self._files.exists(new):
            raise FileNotFoundError(f"neither {source} nor {target} exists")

    def remove(self, path: str) -> None:
        """Delete a file or a directory with all it has; no error if it does not exist."""
        self._files.delete(self._path(path), True)

    def sync(self, paths: Iterable[str]) -> None:
        """Do nothing: a file that was closed is as durable as this file system makes it."""

    @contextmanager
    def locked(self, path: str) -> Iterator[None]:
        """Lock nothing."""
        yield

    def is_abandoned(self, directory: str) -> bool:
        """Return whether it was last changed long ago, by the clock of the driver."""
        changed_ms = self._files.getFileStatus(self._path(directory)).getModificationTime()
        return bool(self._clock.timestamp_ms() - changed_ms > ABANDONED_AFTER_MS)

    def _path(self, path: str) -> Any:
        return self._hadoop.fs.Path(path)

    def _statuses(self, directory: str) -> list[Any]:
        path = self._path(directory)
        return list(self._files.listStatus(path)) if self._files.exists(path) else []

    def _rename(self, source: Any, target: Any) -> None:
        """Rename to a name that nothing has; ``FileExistsError`` otherwise."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        try:
            self._context.rename(source, target, self._never_replace)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() == "FileAlreadyExistsException":
                raise FileExistsError(target.toString()) from error
            raise
