"""Settings of a store: RocketMQ's keys and defaults, its misspellings included."""

from __future__ import annotations

import os.path

import attrs
import pytest

from rocketpy.errors import SettingsError
from rocketpy.settings import settings_from_text
from rocketpy.store.config import BrokerRole, FlushDiskType, MessageStoreConfig


def loaded(text: str) -> MessageStoreConfig:
    return settings_from_text(text, "broker.conf", MessageStoreConfig).of(MessageStoreConfig)


def test_defaults_are_rocketmq_s() -> None:
    config = MessageStoreConfig()
    assert config.mapped_file_size_commit_log == 1 << 30
    assert config.consume_queue_file_size == 6_000_000
    assert (config.max_hash_slot_num, config.max_index_num) == (5_000_000, 20_000_000)
    assert not config.is_sync_flush
    assert config.root == os.path.expanduser("~/store")
    assert config.commit_log_path == os.path.expanduser("~/store/commitlog")
    assert (config.consume_queue_path, config.index_path) == (config.root + "/consumequeue", config.root + "/index")


def test_values_are_read() -> None:
    config = loaded("storePathRootDir=/data\nstorePathCommitLog=/fast/log\nflushDiskType=SYNC_FLUSH\nbrokerRole=SLAVE")
    assert config.is_sync_flush
    assert config.flush_disk_type is FlushDiskType.SYNC_FLUSH
    assert config.broker_role is BrokerRole.SLAVE
    assert (config.commit_log_path, config.consume_queue_path) == ("/fast/log", "/data/consumequeue")


@pytest.mark.parametrize(
    ("text", "has_pool"),
    [
        ("", False),
        ("transientStorePoolEnable=true", True),
        ("transientStorePoolEnable=true\nflushDiskType=SYNC_FLUSH", False),
        ("transientStorePoolEnable=true\nbrokerRole=SLAVE", False),
        ("transientStorePoolEnable=true\nbrokerRole=SYNC_MASTER", True),
    ],
)
def test_the_transient_store_pool_is_for_masters_that_do_not_wait_for_the_disk(text: str, has_pool: bool) -> None:
    assert loaded(text).has_transient_store_pool is has_pool


def test_the_pool_is_as_large_as_its_files() -> None:
    assert MessageStoreConfig().transient_store_pool_bytes == 5 << 30
    assert loaded("transientStorePoolSize=2\nmappedFileSizeCommitLog=8192").transient_store_pool_bytes == 16_384


def test_files_are_synced_while_they_are_filled_only_for_sync_flush() -> None:
    assert loaded("warmMapedFileEnable=true").warm_sync_bytes is None
    assert loaded("flushDiskType=SYNC_FLUSH").warm_sync_bytes is None
    assert loaded("warmMapedFileEnable=true\nflushDiskType=SYNC_FLUSH").warm_sync_bytes == 16 << 20


def test_queue_files_hold_whole_units() -> None:
    assert attrs.evolve(MessageStoreConfig(), mapped_file_size_consume_queue=6001).consume_queue_file_size == 6020


@pytest.mark.parametrize(
    "text",
    [
        "flushDiskType=SOMETIMES",
        "mappedFileSizeCommitLog=100",
        "maxMessageSize=0",
        "brokerRole=BOSS",
        "maxIndexNum=1",
        "deleteWhen=24",
        "deleteWhen=4;",
        "deleteWhen=4,5",
        "deleteWhen=-1",
        "fileReservedTime=-1",
        "diskSpaceWarningLevelRatio=101",
        "diskSpaceCleanForciblyRatio=5",
    ],
)
def test_a_wrong_value_names_file_and_key(text: str) -> None:
    with pytest.raises(SettingsError) as raised:
        loaded(text)
    assert "broker.conf line 1" in str(raised.value)
    assert text.split("=")[0] in str(raised.value)


@pytest.mark.parametrize(("text", "hours"), [("04", {4}), ("0;23", {0, 23}), ("04; 16", {4, 16}), ("", set())])
def test_hours_of_deletion(text: str, hours: set[int]) -> None:
    assert loaded(f"deleteWhen={text}").delete_hours == hours


def test_a_log_may_lie_in_several_directories() -> None:
    config = loaded("storePathCommitLog=/a/log, /b/log/,~/log,/a/log\nreadOnlyCommitLogStorePaths=/b/log,/old/log")
    assert config.commit_log_paths == ("/a/log", "/b/log", os.path.expanduser("~/log"))
    assert config.read_only_commit_log_paths == ("/b/log", "/old/log")
    assert config.commit_log_path == "/a/log"
    assert MessageStoreConfig().read_only_commit_log_paths == ()
