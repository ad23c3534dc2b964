"""Messages come out of the files of a store: all of them, in order, and what is left of a damaged one."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from rocketpy.protocol.message import MessageExt
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.inspection.show.export import ExportOptions, StoreExport
from tests.store import broken_stores
from tests.store.broken_stores import LOG_DAMAGES, unpack
from tests.store.golden_store import expected

STORES = ("store-clean", "store-crash", "store-torn", "store-ext", "store-ipv6", "store-multi")


def export(root: Path, **options: object) -> tuple[list[MessageExt], list[str]]:
    """Return messages, and what was reported."""
    reports: list[str] = []
    exported = StoreExport(OsDisk(), str(root), ExportOptions(**options), report=reports.append)  # type: ignore[arg-type]
    messages = list(exported.messages())
    exported.close()
    return messages, reports


@pytest.mark.parametrize("name", STORES)
def test_all_messages_with_their_bodies(name: str, tmp_path: Path) -> None:
    found, reports = export(unpack(name, tmp_path).root)
    java = [each for each in expected(name)["record"] if not each["sysFlag"] & 4]
    assert reports == []
    assert [each.physical_offset for each in found] == [each["offset"] for each in java]
    for ours, theirs in zip(found, java, strict=True):
        assert hashlib.sha256(ours.body).hexdigest() == theirs.get("plainSha256", theirs["bodySha256"])


@pytest.mark.parametrize("name", STORES)
def test_topic_by_topic_is_the_same_with_queues_and_without(name: str, tmp_path: Path) -> None:
    root = unpack(name, tmp_path).root
    topics = {each["topic"] for each in expected(name)["record"]}
    by_queue = {topic: export(root, topic=topic)[0] for topic in topics}
    shutil.rmtree(root / "consumequeue")
    for topic in topics:
        by_log, reports = export(root, topic=topic)
        assert reports == []
        assert sorted(by_log, key=lambda each: (each.queue_id, each.queue_offset)) == by_queue[topic]


def test_a_queue_of_multi_dispatch(tmp_path: Path) -> None:
    """Its messages are other topics', found by its units."""
    root = unpack("store-multi", tmp_path).root
    found, _ = export(root, topic="%LMQ%one")
    assert found
    assert {each.topic for each in found} == {"GoldA"}
    shutil.rmtree(root / "consumequeue")
    assert export(root, topic="%LMQ%one")[0] == found


def test_a_name_alone_puts_no_message_into_a_topic_that_has_its_own(tmp_path: Path) -> None:
    """In the log of a broker without multi-dispatch clients may have written it."""
    root = unpack("store-multi", tmp_path).root
    named = {
        name
        for each in export(root)[0]
        for name in each.properties.get("INNER_MULTI_DISPATCH", "").split(",")
        if name and not name.startswith("%LMQ%")
    }
    assert named
    for topic in named:
        by_queue, _ = export(root, topic=topic)
        through_log, _ = export(root, topic=topic, through_log=True)
        key = {each.physical_offset for each in by_queue}
        assert {each.physical_offset for each in through_log} == key, "its units lead to them"
    shutil.rmtree(root / "consumequeue")
    for topic in named:
        assert {each.topic for each in export(root, topic=topic)[0]} <= {topic}


def test_what_units_are_missing_for_after_a_crash_comes_from_the_log(tmp_path: Path) -> None:
    store = unpack("store-crash", tmp_path)
    whole, _ = export(store.root, topic="GoldA")
    path = store.queue_file("GoldA", 6000, 1)
    store.overwrite(path, 4000, bytes(2000))
    found, _ = export(store.root, topic="GoldA")
    assert {each.physical_offset for each in found} == {each.physical_offset for each in whole}
    assert len(found) == len(whole)


def test_choices(tmp_path: Path) -> None:
    """Each choice against the same choice made of everything that is there."""
    root = unpack("store-clean", tmp_path).root
    whole = export(root)[0]
    found, _ = export(root, topic="GoldB", begin_offset=290, end_offset=310)
    assert [each.queue_offset for each in found] == list(range(290, 310))
    some = found[5]
    assert some.keys
    assert offsets(export(root, key=some.msg_id)[0]) == offsets(each for each in whole if each.msg_id == some.msg_id)
    keyed = [each for each in whole if some.keys in (each.keys or "").split()]
    assert keyed
    assert offsets(export(root, key=some.keys)[0]) == offsets(keyed)
    timed, _ = export(root, begin_timestamp_ms=some.store_timestamp, end_timestamp_ms=some.store_timestamp)
    assert offsets(timed) == offsets(each for each in whole if each.store_timestamp == some.store_timestamp)
    of_queue = [each for each in whole if (each.topic, each.queue_id) == ("GoldA", 1)]
    assert of_queue
    assert offsets(export(root, topic="GoldA", queue_id=1)[0]) == offsets(of_queue)
    through_log, _ = export(root, topic="GoldA", through_log=True)
    assert [each.physical_offset for each in through_log] == offsets(each for each in whole if each.topic == "GoldA")


def offsets(messages: Iterable[MessageExt]) -> list[int]:
    return sorted(each.physical_offset for each in messages)


@pytest.mark.parametrize("damage", LOG_DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_skipped_and_reported(damage: object, tmp_path: Path) -> None:
    store = unpack("store-clean", tmp_path)
    whole, _ = export(store.root)
    damage(store)  # type: ignore[operator]
    found, reports = export(store.root)
    intact = {(each.physical_offset, each.body) for each in whole}
    assert {(each.physical_offset, each.body) for each in found} <= intact
    assert len(found) >= len(whole) * 0.3
    if len(found) < len(whole):
        assert all(each.startswith("skipped ") for each in reports)
        assert reports
    by_queue, reports_of_queue = export(store.root, topic="GoldB")
    assert [each.queue_offset for each in by_queue] == sorted({each.queue_offset for each in by_queue})
    assert reports_of_queue or len(by_queue) >= len([each for each in found if each.topic == "GoldB"])


def test_holes_in_a_queue_are_reported_and_its_free_end_is_not(tmp_path: Path) -> None:
    store = unpack("store-clean", tmp_path)
    broken_stores.hole_in_queue(store)
    found, reports = export(store.root, topic="GoldB")
    assert reports == ["skipped queue offsets 320 to 339 of 'GoldB', queue 0: no unit"]
    assert not {each.queue_offset for each in found} & set(range(320, 340))


def test_a_store_without_anything(tmp_path: Path) -> None:
    assert export(tmp_path) == ([], [])
    assert os.listdir(tmp_path) == []
