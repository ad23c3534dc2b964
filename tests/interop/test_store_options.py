"""Our store and Java's on the same directories, with what is off unless it is asked for (extensions of queues, dispatch
to several queues, a pool before the log); and on stores of many queues that lost their first files.

Logs in several directories are also in ``test_store_directories.py``.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis import given

from rocketpy.clock import ManualClock
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.stored_message import decode_message
from rocketpy.store.queue.extension import CqExtUnit
from tests.interop.java_store import JavaStores, StoreView
from tests.interop.our_store import open_ours, set_file_times, view_of
from tests.interop.store_contents import (
    Item,
    Put,
    Stored,
    broad_script,
    check_messages,
    check_record,
    expected_of_key,
    key_questions,
    play_to_ours,
    scripts,
    time_questions,
)
from tests.interop.store_lives import Lives, WallClock, directory, examples
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.java


def in_turn(
    java: JavaStores, lives: Lives, path: Path, script: Sequence[Put], *, killed_at: Sequence[int] = (0, 3)
) -> None:
    """Let both append to one store in turn, four times; both find everything after each turn."""
    stored: list[Stored] = []
    root = path / "turn-0"
    for turn in range(4):
        following = path / f"turn-{turn + 1}"
        is_killed = turn in killed_at
        killed = following if is_killed else None
        if turn % 2:
            stored += lives.ours(root, script, killed=killed, clock=WallClock())[0]
        else:
            stored += lives.java(java, root, script, killed=killed, stop=not is_killed)
        if not is_killed:
            root.rename(following)
        root = following
        for name in ("java", "ours"):
            shutil.copytree(root, path / f"{name}-{turn}")
        theirs, ours = lives.view_of_java(java, path / f"java-{turn}"), lives.view_of_ours(path / f"ours-{turn}")
        assert theirs == ours
        check_messages(ours, stored)


# ---- ConsumeQueueExt ------------------------------------------------------------------------------------------------


def bit_map(topic: str, properties: Mapping[str, str]) -> bytes | None:
    """A bit map as a broker's filters would make it: of the message, and for some messages none."""
    name = properties.get("UNIQ_KEY")
    return None if name is None else name[-4:].encode() * (len(properties) % 3 + 1)


WITH_EXT = Lives(
    settings={"enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": 400}, bit_map_of=bit_map
)


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_java_reads_the_extensions_that_we_write(java_stores: JavaStores, tmp_path: Path, end: str) -> None:
    stored, _ = WITH_EXT.ours(tmp_path / "stopped", broad_script(120), killed=tmp_path / "killed")
    root = tmp_path / end
    assert len(list((root / "consumequeue_ext" / "TopicTest" / "0").iterdir())) > 3
    assert java_stores.open(root, WITH_EXT.sizes, **WITH_EXT.java_settings(root))
    view = java_stores.view(root)
    check_messages(view, stored)
    for topic, queue_id in view.queues:
        expected = []
        for record in view.queues[topic, queue_id].records:
            message = decode_message(record)
            bits = bit_map(topic, message.properties) or b""
            expected.append(CqExtUnit(tags_code(message.tags), message.store_timestamp, bits))
        assert java_stores.ext_units(root, topic, queue_id) == expected
    java_stores.drop(root)


def test_both_append_with_extensions_in_turn(java_stores: JavaStores, tmp_path: Path) -> None:
    """Java's own store makes no bit maps, so here neither has any; every unit leads to its message's tags code."""
    lives = attrs.evolve(WITH_EXT, bit_map_of=None)
    in_turn(java_stores, lives, tmp_path, broad_script(40))
    root = tmp_path / "turn-4"

    async def ours() -> dict[tuple[str, int], list[CqExtUnit | None]]:
        async with open_ours(root, lives.sizes, **lives.our_settings(root)) as store:
            found = {}
            for topic, queue_id in store.queues():
                exts: list[CqExtUnit | None] = []
                while len(exts) < store.max_offset_in_queue(topic, queue_id):
                    listing = await store.list_units(topic, queue_id, len(exts), 1000)
                    assert listing is not None
                    exts += [unit.ext for unit in listing.units]
                found[topic, queue_id] = exts
            return found

    found = trio.run(ours)
    assert java_stores.open(root, lives.sizes, **lives.java_settings(root))
    view = java_stores.view(root)
    for name, queue in view.queues.items():
        messages = [decode_message(record) for record in queue.records]
        expected = [CqExtUnit(tags_code(message.tags), message.store_timestamp) for message in messages]
        assert found[name] == expected
        assert java_stores.ext_units(root, *name) == expected
    java_stores.drop(root)


# ---- dispatch to several queues -------------------------------------------------------------------------------------

MULTI_DISPATCH = Lives(settings={"enable_multi_dispatch": True, "enable_lmq": True})


def dispatched_script(count: int) -> list[Put]:
    """Messages for further queues: light ones (LMQ), and ones of other topics."""
    script = []
    for number in range(count):
        further = [f"%LMQ%{number % 3}", *(["Other"] if number % 2 else [])]
        properties = {"KEYS": f"key{number}", "INNER_MULTI_DISPATCH": ",".join(further), "WAIT": "true"}
        script.append(Put("TopicTest", number % 2, (Item(b"message %03d" % number, properties),)))
        script.append(Put("TopicTest", 0, (Item(b"plain", {"KEYS": "plain"}),)))
    return script


def test_both_dispatch_to_several_queues_in_turn(java_stores: JavaStores, tmp_path: Path) -> None:
    script = dispatched_script(15)
    root = tmp_path / "turn-0"
    bodies: list[bytes] = []
    for turn in range(4):
        following = tmp_path / f"turn-{turn + 1}"
        is_killed = turn in (0, 3)
        killed = following if is_killed else None
        if turn % 2:
            MULTI_DISPATCH.ours(root, script, killed=killed, clock=WallClock())
        else:
            MULTI_DISPATCH.java(java_stores, root, script, killed=killed, stop=not is_killed)
        if not is_killed:
            root.rename(following)
        root = following
        bodies += [put.items[0].body for put in script]
        for name in ("java", "ours"):
            shutil.copytree(root, tmp_path / f"{name}-{turn}")
        ours = MULTI_DISPATCH.view_of_ours(tmp_path / f"ours-{turn}")
        assert MULTI_DISPATCH.view_of_java(java_stores, tmp_path / f"java-{turn}") == ours
        check_dispatched(ours, turn + 1, 15)


def check_dispatched(view: StoreView, times: int, count: int) -> None:
    """Each further queue has its messages in order, and each message its offset there in a property."""
    light = {f"%LMQ%{number}": [each for each in range(count) if each % 3 == number] for number in range(3)}
    assert view.queues.keys() >= {(name, 0) for name in light} | {("TopicTest", 0), ("TopicTest", 1), ("Other", 1)}
    for (topic, queue_id), queue in view.queues.items():
        messages = [decode_message(record) for record in queue.records]
        if topic in light:
            assert [message.body for message in messages] == [b"message %03d" % each for each in light[topic]] * times
        if topic != "TopicTest":
            for position, message in enumerate(messages):
                further = message.properties["INNER_MULTI_DISPATCH"].split(",")
                offsets = message.properties["INNER_MULTI_QUEUE_OFFSET"].split(",")
                assert dict(zip(further, offsets, strict=True))[topic] == str(position), (topic, queue_id)
                assert "WAIT" not in message.properties


# ---- a pool before the log, and all at once -------------------------------------------------------------------------

WITH_POOL = Lives(settings={"transient_store_pool_enable": True, "transient_store_pool_size": 3})
IN_DIRECTORIES = Lives(log_directories=("log-c", "log-a", "log-b"))


def test_stores_with_a_pool_hold_the_same(java_stores: JavaStores, tmp_path: Path) -> None:
    """Stopped in order only: a kill takes what is in the pool, of either of them."""
    in_turn(java_stores, WITH_POOL, tmp_path, broad_script(40), killed_at=())


@examples(10)
@given(script=scripts)
def test_java_finds_what_we_stored_with_everything_on(java_stores: JavaStores, script: list[Put]) -> None:
    lives = attrs.evolve(IN_DIRECTORIES, settings={**WITH_EXT.settings, **MULTI_DISPATCH.settings}, bit_map_of=bit_map)
    with directory() as path:
        stored, ours = lives.ours(path / "stopped", script, killed=path / "killed")
        keys = key_questions(stored)
        for end in ("stopped", "killed"):
            theirs = lives.view_of_java(java_stores, path / end, keys)
            check_messages(theirs, stored)
            assert theirs.keys == tuple(expected_of_key(stored, key) for key in keys)
            assert theirs.queues == ours.queues


# ---- stores that lost their first files -----------------------------------------------------------------------------


def expired_by_us(
    root: Path, lives: Lives, script: Sequence[Put], later: Sequence[Put]
) -> tuple[list[Stored], StoreView]:
    """Fill our store, let four days pass and everything expire that may, store a little more; closed in order."""

    async def live() -> tuple[list[Stored], StoreView]:
        clock = ManualClock()
        settings = {
            **lives.our_settings(root),
            "delete_commit_log_files_interval": 0,
            "flush_interval_commit_log": 1,
            "flush_commit_log_least_pages": 0,
        }
        async with open_ours(root, lives.sizes, clock=clock, **settings) as store:
            stored = play_to_ours(store, clock, script)
            clock.advance_ms(4 * 24 * 3_600_000)
            with trio.fail_after(PATIENCE_SECONDS):
                while store.statistics().commit_log_flushed_offset < store.max_physical_offset:
                    await trio.sleep(0.001)
            store.execute_delete_files_manually()
            services = store._services
            while await services.clean_commit_log.clean():
                await services.clean_queues.clean()
            assert store.min_physical_offset > 0
            stored += play_to_ours(store, clock, later)
            return stored, await view_of(store)

    return trio.run(live)


def check_kept(view: StoreView, stored: Sequence[Stored]) -> None:
    """Of every queue there is what the log still has, and nothing else."""
    kept = [each for each in stored if each.physical_offset >= view.min_physical_offset]
    assert 0 < len(kept) < len(stored)
    found = sorted(
        (decode_message(record).physical_offset, record) for queue in view.queues.values() for record in queue.records
    )
    assert [place for place, _ in found] == [each.physical_offset for each in kept]
    for (_, record), each in zip(found, kept, strict=True):
        check_record(record, each)


PLAIN = Lives()


def with_messages(view: StoreView) -> StoreView:
    """A view without the queues that have lost all their messages: there Java leaves the least offset as it was."""
    return attrs.evolve(view, queues={name: queue for name, queue in view.queues.items() if queue.records})


def test_java_opens_a_store_whose_first_files_we_deleted(java_stores: JavaStores, tmp_path: Path) -> None:
    root = tmp_path / "store"
    stored, ours = expired_by_us(root, PLAIN, broad_script(400), broad_script(10))
    set_file_times(root)
    check_kept(ours, stored)
    keys, times = key_questions(stored), time_questions(with_messages(ours))
    for end in ("again", "appended"):
        shutil.copytree(root, tmp_path / end)
    theirs = PLAIN.view_of_java(java_stores, root, keys, times)
    check_kept(theirs, stored)
    assert with_messages(theirs) == with_messages(PLAIN.view_of_ours(tmp_path / "again", keys, times))
    assert theirs.min_physical_offset == ours.min_physical_offset
    stored += PLAIN.java(java_stores, tmp_path / "appended", broad_script(20))
    check_kept(PLAIN.view_of_ours(tmp_path / "appended"), stored)


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_we_open_a_store_whose_first_files_java_deleted(java_stores: JavaStores, tmp_path: Path, end: str) -> None:
    root, copy = tmp_path / "store", tmp_path / "copy"
    stored = PLAIN.java(java_stores, root, broad_script(400))
    assert java_stores.open(root, PLAIN.sizes)
    java_stores.expire(root)
    if end == "killed":
        java_stores.copy_as_killed(root, copy)
        java_stores.drop(root)
    else:
        assert java_stores.close(root)
        root.rename(copy)
    set_file_times(copy)
    shutil.copytree(copy, tmp_path / "theirs")
    keys = key_questions(stored)
    theirs = PLAIN.view_of_java(java_stores, tmp_path / "theirs", keys)
    check_kept(theirs, stored)
    ours = PLAIN.view_of_ours(copy, keys)
    check_kept(ours, stored)
    assert ours.min_physical_offset > 0
    # Where nothing is left, Java goes on to offer what it has deleted.
    emptied = [name for name, queue in ours.queues.items() if not queue.records]
    assert emptied
    for name in emptied:
        assert ours.queues[name].min_offset == ours.queues[name].max_offset
        assert theirs.queues[name].min_offset < theirs.queues[name].max_offset
    if end == "stopped":
        assert with_messages(ours) == with_messages(theirs)
    stored += PLAIN.ours(copy, broad_script(20), clock=WallClock())[0]
    check_kept(PLAIN.view_of_java(java_stores, copy), stored)
