"""Listing of a store: its queues and index files, and the broker's tables by the broker's decoders."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.errors import SettingsError
from rocketpy.spark.pipelines.audit.store_files import list_store
from rocketpy.store.index.file import IndexLayout
from rocketpy.store.layout import deletion_name
from tests.store.golden_store import unpack_store


def test_a_java_brokers_store_is_listed_with_its_tables(tmp_path: Path) -> None:
    files = list_store(str(unpack_store("store-clean", tmp_path)))
    assert [(queue.topic, queue.queue_id, len(queue.files)) for queue in files.queues][:4] == [
        ("%DLQ%GoldRetryGroup", 0, 1),
        ("%RETRY%GoldRetryGroup", 0, 1),
        ("GoldA", 0, 1),
        ("GoldA", 1, 1),
    ]
    assert [each.layout for each in files.index_files] == [IndexLayout(500, 2000)] * 2
    assert files.tables.offsets is not None
    assert files.tables.offsets["GoldA@GoldGroupA"] == {0: 116, 1: 122}
    assert files.tables.retry_max_times is not None
    assert files.tables.retry_max_times["GoldRetryGroup"] == 16
    assert files.tables.topics is not None
    assert "GoldTx" in files.tables.topics
    assert files.tables.delay is not None
    assert (files.log_min_offset, files.is_live, files.tables.unreadable) == (0, False, ())


def test_light_queues_have_their_offsets_in_a_file_of_their_own(tmp_path: Path) -> None:
    files = list_store(str(unpack_store("store-multi", tmp_path)))
    assert files.tables.offsets == {"GoldA@GoldGroup": {0: 4}, "%LMQ%one@%LMQ%group": {0: 4}}


def test_a_topic_that_was_deleted_is_known_with_the_offset_before_which_it_was(tmp_path: Path) -> None:
    root = unpack_store("store-multi", tmp_path)
    (root / "consumequeue" / "Gone").mkdir()
    (root / "consumequeue" / "Gone" / deletion_name(4711)).touch()
    assert list_store(str(root)).deleted_before == {"Gone": 4711}


def test_a_malformed_table_is_read_from_its_backup_and_named_without_one(tmp_path: Path) -> None:
    root = unpack_store("store-clean", tmp_path)
    offsets = root / "config" / "consumerOffset.json"
    offsets.write_text("{")
    assert list_store(str(root)).tables.offsets is not None
    (root / "config" / "consumerOffset.json.bak").write_text('{"offsetTable":1}')
    tables = list_store(str(root)).tables
    assert tables.offsets is None
    [(path, why)] = tables.unreadable
    assert path == str(offsets)
    assert why


@pytest.mark.parametrize("times", ["many", "[16]", "2147483648"])
def test_a_group_whose_number_cannot_be_read_makes_the_table_unreadable(tmp_path: Path, times: str) -> None:
    """The broker does not start with it either; the group alone had the default, and its dead letters were findings."""
    root = unpack_store("store-clean", tmp_path)
    groups = root / "config" / "subscriptionGroup.json"
    groups.write_text(groups.read_text().replace('"retryMaxTimes":16', f'"retryMaxTimes":"{times}"', 1))
    (root / "config" / "subscriptionGroup.json.bak").unlink(missing_ok=True)
    [(path, why)] = list_store(str(root)).tables.unreadable
    assert path == str(groups)
    assert "SubscriptionGroupConfig.retryMaxTimes: expected int32" in why


def test_an_index_file_of_an_impossible_size_has_no_layout(tmp_path: Path) -> None:
    root = unpack_store("store-ext", tmp_path)
    [index] = (root / "index").iterdir()
    index.write_bytes(index.read_bytes()[:-3])
    [listed] = list_store(str(root)).index_files
    assert listed.layout is None


def test_no_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="expected a store directory at"):
        list_store(str(tmp_path / "none"))
