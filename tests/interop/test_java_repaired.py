"""A damaged store that ``rocketpy store repair`` has mended opens in Java: it serves what is left, and placeholders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpy.protocol.stored_message import decode_message
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.inspection.repair.placeholders import PROPERTY_DAMAGED
from rocketpy.store.inspection.repair.repair import repair_store
from tests.interop.java_store import JavaStores, KeyQuestion, StoreSizes
from tests.store.broken_stores import LOG_DAMAGES, OTHER_DAMAGES, BrokenStore, unpack

pytestmark = pytest.mark.java

SIZES = StoreSizes(log_file=65536, queue_file=6000, index_slots=500, index_entries=2000)


@pytest.mark.parametrize("damage", [*LOG_DAMAGES, *OTHER_DAMAGES], ids=lambda damage: damage.__name__)
def test_java_opens_it(damage: Callable[[BrokenStore], None], java_stores: JavaStores, tmp_path: Path) -> None:
    store = unpack("store-clean", tmp_path)
    records = {each.physical_offset: each for each in store.records()}
    damage(store)
    damaged = {
        offset
        for each in store.inspect().damages
        for offset in records
        if each.begin_offset <= offset < each.end_offset
    }
    report = repair_store(OsDisk(), str(store.root), timestamp_ms=1_700_000_000_000)
    assert report.left == ()
    assert java_stores.open(store.root, SIZES)
    key = next(each.uniq_key for each in records.values() if each.physical_offset > 240_000 and each.uniq_key)
    topic = next(each.topic for each in records.values() if each.uniq_key == key)
    view = java_stores.view(store.root, keys=[KeyQuestion(topic, key)])
    wanted = [each for each in records.values() if (each.topic, each.queue_id) == ("GoldB", 0)]
    served = [decode_message(record) for record in view.queues["GoldB", 0].records]
    assert [each.queue_offset for each in served] == [each.queue_offset for each in wanted]
    placeholders = {each.queue_offset for each in served if PROPERTY_DAMAGED in each.properties}
    if damaged:
        assert {each.queue_offset for each in wanted if each.physical_offset in damaged} == placeholders
    for ours, theirs in zip(wanted, served, strict=True):
        if ours.queue_offset not in placeholders:
            assert (theirs.physical_offset, theirs.store_size) == (ours.physical_offset, ours.size)
    assert view.keys[0], "the index finds what is after the damage"
    assert java_stores.close(store.root)
    assert store.severe() == []
