"""Our store and Java's on the same directories: what one has written the other must find, whatever it is and however
the first one ended.

Every message is compared byte by byte and as Java's decoder reads it, by queue, by key and by time, with the bounds of
queues and log. Where the two differ on purpose the test says so; where Java's recovery is the worse one is
``test_java_recovery.py``.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.store.index.hashed_keys import HashedKeys, PackedKeys
from tests.interop.java_store import JavaStores, StoreSizes, StoreView
from tests.interop.our_store import index_shapes, log_without_times, queue_files, set_file_times
from tests.interop.store_contents import (
    STORE_V6,
    Put,
    Stored,
    broad_script,
    check_messages,
    expected_of_key,
    key_questions,
    record_size,
    scripts,
    time_questions,
)
from tests.interop.store_lives import SIZES, Lives, WallClock, directory, examples

pytestmark = pytest.mark.java

LIVES = Lives()
WITH_STORE_ON_V6 = Lives(store_host=STORE_V6)
SMALL_INDEX = Lives(sizes=StoreSizes(index_entries=100))


# ---- what one has stored the other finds ----------------------------------------------------------------------------


@examples(12)
@given(script=scripts, lives=st.sampled_from([LIVES, WITH_STORE_ON_V6]))
def test_java_finds_what_we_stored(java_stores: JavaStores, script: list[Put], lives: Lives) -> None:
    with directory() as path:
        stored, ours = lives.ours(path / "stopped", script, killed=path / "killed")
        check_messages(ours, stored)
        keys, times = key_questions(stored), time_questions(ours)
        for end in ("stopped", "killed"):
            set_file_times(path / end)
            shutil.copytree(path / end, path / f"{end}-ours")
            theirs = lives.view_of_java(java_stores, path / end, keys, times)
            ours = lives.view_of_ours(path / f"{end}-ours", keys, times)
            assert_same(theirs, ours)
            assert theirs.keys == tuple(expected_of_key(stored, key) for key in keys)
            check_messages(theirs, stored)


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_we_find_what_java_stored(java_stores: JavaStores, end: str) -> None:
    @examples(3 if end == "stopped" else 12, shrink=end == "killed")
    @given(script=scripts, lives=st.sampled_from([LIVES, WITH_STORE_ON_V6]))
    def check(script: list[Put], lives: Lives) -> None:
        with directory() as path:
            is_stopped = end == "stopped"
            stored = lives.java(
                java_stores,
                path / "stopped",
                script,
                killed=None if is_stopped else path / "killed",
                stop=is_stopped,
            )
            set_file_times(path / end)
            shutil.copytree(path / end, path / "theirs")
            shutil.copytree(path / end, path / "again")
            keys = key_questions(stored)
            ours = lives.view_of_ours(path / end, keys)
            check_messages(ours, stored)
            assert ours.keys == tuple(expected_of_key(stored, key) for key in keys)
            times = time_questions(ours)
            theirs = lives.view_of_java(java_stores, path / "theirs", keys, times)
            assert_same(theirs, lives.view_of_ours(path / "again", keys, times))

    check()


@examples(10)
@given(script=scripts)
def test_both_write_the_same_bytes(java_stores: JavaStores, script: list[Put]) -> None:
    """Log, queues and index differ in nothing but the times at which the messages came."""
    with directory() as path:
        check_same_bytes(java_stores, path, script, LIVES)


def test_both_write_the_same_bytes_over_many_files(java_stores: JavaStores, tmp_path: Path) -> None:
    check_same_bytes(java_stores, tmp_path, broad_script(300), SMALL_INDEX)
    for below in ("commitlog", "consumequeue/TopicTest/0", "index"):
        assert len(list((tmp_path / "ours" / below).iterdir())) > 5


def check_same_bytes(java: JavaStores, path: Path, script: Sequence[Put], lives: Lives) -> None:
    """Java's index has an entry for each key of a message, also for one that is repeated: so has ours here."""
    with pytest.MonkeyPatch.context() as patch:
        for keys in (HashedKeys, PackedKeys):
            patch.setattr(keys, "distinct", lambda self: self)
        lives.ours(path / "ours", script)
    lives.java(java, path / "java", script, killed=path / "theirs", stop=False)
    assert log_without_times(path / "theirs") == log_without_times(path / "ours")
    assert queue_files(path / "theirs") == queue_files(path / "ours")
    assert index_shapes(path / "theirs", lives.sizes) == index_shapes(path / "ours", lives.sizes)


def assert_same(theirs: StoreView, ours: StoreView) -> None:
    """Both show the same, record for record, and answer the same."""
    assert theirs == ours


# ---- a tail that is torn --------------------------------------------------------------------------------------------

TORN_BY = ("ours", "java")


@pytest.mark.parametrize("writer", TORN_BY)
def test_a_torn_last_record_is_cut_by_both(java_stores: JavaStores, tmp_path: Path, writer: str) -> None:
    """Whatever part of the last record is missing, up to its properties, both come to the same end before it.

    (Properties that are torn Java takes as they are: test_java_recovery.py.)
    """
    script = broad_script(25)
    if writer == "ours":
        stored, _ = LIVES.ours(tmp_path / "store", script, killed=tmp_path / "killed")
    else:
        stored = LIVES.java(java_stores, tmp_path / "store", script, killed=tmp_path / "killed", stop=False)
    last = stored[-1]
    size = record_size(last.put, last.item)
    body_end = size - len(last.item.text.encode()) - 3 - len(last.put.topic.encode())
    keys = key_questions(stored)
    for kept in (0, 3, 4, 7, 8, 20, 44, 60, 87, body_end - len(last.item.body), body_end - 1, body_end, body_end + 1):
        torn, copy = tmp_path / f"torn-{kept}", tmp_path / f"copy-{kept}"
        shutil.copytree(tmp_path / "killed", torn)
        tear_record(torn, last.physical_offset + kept, size - kept)
        shutil.copytree(torn, copy)
        ours = LIVES.view_of_ours(copy, keys)
        theirs = LIVES.view_of_java(java_stores, torn, keys)
        check_messages(theirs, stored[:-1])
        assert_same(theirs, ours)
        assert theirs.max_physical_offset == last.physical_offset
        assert theirs.keys == tuple(expected_of_key(stored[:-1], key) for key in keys)


def tear_record(root: Path, physical_offset: int, size: int) -> None:
    """Zero a range of the log, as it is when it has not reached the disk."""
    path = root / "commitlog" / f"{physical_offset // SIZES.log_file * SIZES.log_file:020d}"
    with path.open("r+b") as file:
        file.seek(physical_offset % SIZES.log_file)
        file.write(bytes(size))


# ---- in turn --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "ends"), [("ours", "stopped"), ("java", "killed"), ("ours", "mixed")])
def test_both_append_in_turn_five_times(java_stores: JavaStores, tmp_path: Path, first: str, ends: str) -> None:
    stored: list[Stored] = []
    root = tmp_path / "turn-0"
    java_was_killed = False
    for turn in range(10):
        is_java = (turn % 2 == 0) == (first == "java")
        is_killed = ends == "killed" or (ends == "mixed" and turn % 3 == 1)
        # After a kill the store is a copy made before; what was open is of no more use.
        following = tmp_path / f"turn-{turn + 1}"
        script = broad_script(20)[turn:]
        if is_java:
            stored += LIVES.java(java_stores, root, script, killed=following if is_killed else None, stop=not is_killed)
            java_was_killed |= is_killed
        else:
            stored += LIVES.ours(root, script, killed=following if is_killed else None, clock=WallClock())[0]
        if not is_killed:
            root.rename(following)
        root = following
        assert (root / "abort").exists() is is_killed
        _check_turn(java_stores, root, tmp_path, stored, java_was_killed=java_was_killed)


def _check_turn(java: JavaStores, root: Path, path: Path, stored: Sequence[Stored], *, java_was_killed: bool) -> None:
    """Both find every message, by queue, by key and by time, in copies of the directory."""
    for_java, for_us, for_times = (path / f"{root.name}-{name}" for name in ("java", "ours", "times"))
    shutil.copytree(root, for_us)
    keys = key_questions(stored, 25)
    ours = LIVES.view_of_ours(for_us, keys)
    check_messages(ours, stored)
    set_file_times(for_us)
    times = time_questions(ours)
    shutil.copytree(for_us, for_times)
    theirs = LIVES.view_of_java(java, for_us, keys, times)
    assert theirs == LIVES.view_of_ours(for_times, keys, times)
    shutil.copytree(root, for_java)
    theirs = LIVES.view_of_java(java, for_java, keys)
    check_messages(theirs, stored)
    for key, by_java, by_us in zip(keys, theirs.keys, ours.keys, strict=True):
        expected = expected_of_key(stored, key)
        if java_was_killed:
            # What Java's recovery does not dispatch again it has no more keys for, and does not miss them later.
            assert set(by_java) <= set(by_us) <= set(expected), key
        else:
            assert by_java == by_us == expected, key
    for each in (for_java, for_us, for_times):
        shutil.rmtree(each, ignore_errors=True)
