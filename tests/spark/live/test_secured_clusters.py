"""Batch reads and streams of a cluster that asks for an account and takes TLS only; what is said of wrong keys."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable

from rocketpy.client import ClientConfig, Message, open_producer
from rocketpy.errors import BrokerError, RemotingError
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.spark.live.reader import LiveReader
from rocketpy.spark.live.settings import settings_of
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse
from rocketpy.spark.schema import spark_schema
from rocketpy.spark.stream.reader import RocketMQStreamReader, open_stream_reader
from tests.client.real_cluster import open_real_cluster
from tests.remoting.certificate_files import client_config, crt, server_config

ACCOUNTS = """\
accounts:
- accessKey: an-account
  secretKey: a-secret
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
- accessKey: a-writer
  secretKey: a-secret
  defaultTopicPerm: PUB
  defaultGroupPerm: DENY
"""
ACCOUNT = {"accessKey": "an-account", "secretKey": "a-secret"}
SCHEMA = spark_schema(["body"])


def rows(reader: DataSourceReader | DataSourceStreamReader, partitions: object) -> list[bytes]:
    return [
        body
        for each in partitions  # type: ignore[attr-defined]
        for batch in reader.read(each)
        for body in batch.column("body").to_pylist()
    ]


def live(options: dict[str, str]) -> list[bytes]:
    reader = LiveReader(settings_of(parse(options, Mode.LIVE)), SCHEMA)
    return rows(reader, reader.partitions())


def stream(options: dict[str, str]) -> list[bytes]:
    reader = open_stream_reader(parse({**options, "startingOffsets": "earliest"}, Mode.STREAM), SCHEMA)
    assert isinstance(reader, RocketMQStreamReader)
    try:
        start = reader.initialOffset()
        return rows(reader, reader.partitions(start, reader.latestOffset(start, ReadAllAvailable())))
    finally:
        reader.stop()


async def test_a_cluster_with_accounts_and_tls_is_read_with_the_right_keys_only(tmp_path: Path) -> None:
    (tmp_path / "plain_acl.yml").write_text(ACCOUNTS)
    config = ClientConfig(use_tls=True, credentials=SessionCredentials(ACCOUNT["accessKey"], ACCOUNT["secretKey"]))
    async with open_real_cluster(
        tmp_path,
        tls_server=server_config(server_mode="enforcing"),
        tls_client=client_config(enable=True),
        acl_enable=True,
        acl_directory=str(tmp_path),
    ) as cluster:
        async with open_producer(cluster.address, config=config) as producer:
            for number in range(3):
                await producer.send(Message("Private", b"%d" % number))
        given = {"nameServer": cluster.address, "topic": "Private", "requestTimeoutMs": "60000"}
        tls = {"tls": "true", "tlsCaFile": crt("authority")}
        for read in (live, stream):
            found = await trio.to_thread.run_sync(read, {**given, **tls, **ACCOUNT})
            assert sorted(found) == [b"0", b"1", b"2"]
            for account, words in {
                ("an-account", "wrong"): "Check signature failed",
                ("nobody", "a-secret"): "No acl config for nobody",
                ("a-writer", "a-secret"): "No default permission for",
            }.items():
                options = {**given, **tls, "accessKey": account[0], "secretKey": account[1]}
                with pytest.raises(BrokerError, match=words) as caught:
                    await trio.to_thread.run_sync(read, options)
                assert cluster.broker_address in str(caught.value)
                assert "\n" not in str(caught.value)
                assert account[1] not in str(caught.value)
            with pytest.raises(BrokerError, match="accessKey"):
                await trio.to_thread.run_sync(read, {**given, **tls})
            with pytest.raises(RemotingError, match=f"{cluster.address} failed: .*certificate verify failed"):
                await trio.to_thread.run_sync(read, {**given, "tls": "true", **ACCOUNT})
            with pytest.raises(RemotingError, match=f"{cluster.address} failed: .*tls"):
                await trio.to_thread.run_sync(read, {**given, **ACCOUNT})
