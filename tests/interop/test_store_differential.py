"""Our store and Java's on the same directories: what one has written the other must find, whatever it is and however
the first one ended.

Every message is compared byte by byte and as Java's decoder reads it, by queue, by key and by time, with the bounds of
queues and log. Where the two differ on purpose the test says so; where Java's recovery is the worse one is
``test_java_recovery.py``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rocketpy.clock import ManualClock, SystemClock
from tests.interop.java_store import JavaStores, KeyQuestion, StoreSizes, StoreView, TimeQuestion
from tests.interop.our_store import (
    STORE_HOST,
    index_shapes,
    log_without_times,
    open_ours,
    queue_files,
    set_file_times,
    view_of,
    view_of_directory,
)
from tests.interop.store_contents import (
    STORE_V6,
    PlayClock,
    Put,
    Stored,
    broad_script,
    check_messages,
    expected_of_key,
    key_questions,
    play_to_java,
    play_to_ours,
    record_size,
    scripts,
    time_questions,
)

pytestmark = pytest.mark.java

SCALE = {"deep": 20, "ci": 2}.get(os.environ.get("ROCKETPY_TIER", "dev"), 1)
SIZES = StoreSizes()
SMALL_INDEX = StoreSizes(index_entries=100)


def examples(count: int, *, shrink: bool = True) -> settings:
    """So many examples, the same ones in every run; ``shrink`` false where each takes seconds."""
    return settings(
        max_examples=count * SCALE,
        deadline=None,
        derandomize=True,
        database=None,
        print_blob=True,
        phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if shrink else [])],
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def directory() -> Iterator[Path]:
    """A directory for one example."""
    with tempfile.TemporaryDirectory(prefix="store-", ignore_cleanup_errors=True) as path:
        yield Path(path)


def fill_ours(
    root: Path,
    script: Sequence[Put],
    *,
    killed: Path | None = None,
    sizes: StoreSizes = SIZES,
    store_host: bytes = STORE_HOST,
    clock: PlayClock | None = None,
    **more: object,
) -> tuple[list[Stored], StoreView]:
    """Play a script to our store and end in order; ``killed`` becomes what a kill before that leaves."""

    async def fill() -> tuple[list[Stored], StoreView]:
        played = clock or ManualClock()
        async with open_ours(root, sizes, clock=played, store_host=store_host, **more) as store:
            stored = play_to_ours(store, played, script)
            view = await view_of(store)
            if killed is not None:
                shutil.copytree(root, killed)
                assert (killed / "abort").exists()
        assert not (root / "abort").exists()
        return stored, view

    return trio.run(fill)


def fill_java(
    java: JavaStores,
    root: Path,
    script: Sequence[Put],
    *,
    killed: Path | None = None,
    sizes: StoreSizes = SIZES,
    store_host: bytes = STORE_HOST,
    stop: bool = True,
    **more: object,
) -> list[Stored]:
    """Play a script to Java's store; it ends in order, or with ``stop`` false is let go of."""
    assert java.open(root, sizes, **more)
    stored = play_to_java(java, root, script, store_host)
    java.view(root)  # the queues have everything
    if killed is not None:
        shutil.copytree(root, killed)
        assert (killed / "abort").exists()
    if stop:
        assert java.close(root)
    else:
        java.drop(root)
    return stored


def view_of_java(
    java: JavaStores,
    root: Path,
    keys: Sequence[KeyQuestion] = (),
    times: Sequence[TimeQuestion] = (),
    sizes: StoreSizes = SIZES,
    **more: object,
) -> StoreView:
    """Let Java open a directory and say what it holds; the directory is of no more use then."""
    assert java.open(root, sizes, **more)
    try:
        return java.view(root, keys, times)
    finally:
        java.drop(root)


# ---- what one has stored the other finds ----------------------------------------------------------------------------


@examples(30)
@given(script=scripts, store_host=st.sampled_from([STORE_HOST, STORE_V6]))
def test_java_finds_what_we_stored(java_stores: JavaStores, script: list[Put], store_host: bytes) -> None:
    with directory() as path:
        stored, ours = fill_ours(path / "stopped", script, killed=path / "killed", store_host=store_host)
        check_messages(ours, stored)
        keys, times = key_questions(stored), time_questions(ours)
        for end in ("stopped", "killed"):
            set_file_times(path / end)
            shutil.copytree(path / end, path / f"{end}-ours")
            theirs = view_of_java(java_stores, path / end, keys, times)
            ours = view_of_directory(path / f"{end}-ours", SIZES, keys, times)
            assert_same(theirs, ours)
            assert theirs.keys == tuple(expected_of_key(stored, key) for key in keys)
            check_messages(theirs, stored)


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_we_find_what_java_stored(java_stores: JavaStores, end: str) -> None:
    @examples(8 if end == "stopped" else 30, shrink=end == "killed")
    @given(script=scripts, store_host=st.sampled_from([STORE_HOST, STORE_V6]))
    def check(script: list[Put], store_host: bytes) -> None:
        with directory() as path:
            is_stopped = end == "stopped"
            stored = fill_java(
                java_stores,
                path / "stopped",
                script,
                killed=None if is_stopped else path / "killed",
                store_host=store_host,
                stop=is_stopped,
            )
            set_file_times(path / end)
            shutil.copytree(path / end, path / "theirs")
            shutil.copytree(path / end, path / "again")
            keys = key_questions(stored)
            ours = view_of_directory(path / end, SIZES, keys)
            check_messages(ours, stored)
            assert ours.keys == tuple(expected_of_key(stored, key) for key in keys)
            times = time_questions(ours)
            theirs = view_of_java(java_stores, path / "theirs", keys, times)
            assert_same(theirs, view_of_directory(path / "again", SIZES, keys, times))

    check()


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_java_finds_a_thousand_of_ours_in_hundreds_of_queues(java_stores: JavaStores, tmp_path: Path, end: str) -> None:
    """More of everything than an example of Hypothesis has: log, queue and index files follow each other."""
    sizes = SMALL_INDEX if end == "stopped" else SIZES
    stored, ours = fill_ours(tmp_path / "stopped", broad_script(1_000), killed=tmp_path / "killed", sizes=sizes)
    assert len(list((tmp_path / "stopped" / "commitlog").iterdir())) > 20
    assert len(list((tmp_path / "stopped" / "consumequeue" / "TopicTest" / "0").iterdir())) > 20
    assert len(list((tmp_path / "stopped" / "index").iterdir())) > (20 if end == "stopped" else 2)
    assert len(ours.queues) > 200
    keys, times = key_questions(stored), time_questions(ours)
    set_file_times(tmp_path / end)
    theirs = view_of_java(java_stores, tmp_path / end, keys, times, sizes)
    check_messages(theirs, stored)
    assert theirs.keys == tuple(expected_of_key(stored, key) for key in keys)
    assert theirs.max_physical_offset == ours.max_physical_offset


@examples(20)
@given(script=scripts)
def test_both_write_the_same_bytes(java_stores: JavaStores, script: list[Put]) -> None:
    """Log, queues and index differ in nothing but the times at which the messages came."""
    with directory() as path:
        check_same_bytes(java_stores, path, script, SIZES)


def test_both_write_the_same_bytes_over_many_files(java_stores: JavaStores, tmp_path: Path) -> None:
    check_same_bytes(java_stores, tmp_path, broad_script(300), SMALL_INDEX)
    for below in ("commitlog", "consumequeue/TopicTest/0", "index"):
        assert len(list((tmp_path / "ours" / below).iterdir())) > 5


def check_same_bytes(java: JavaStores, path: Path, script: Sequence[Put], sizes: StoreSizes) -> None:
    fill_ours(path / "ours", script, sizes=sizes)
    fill_java(java, path / "java", script, killed=path / "theirs", stop=False, sizes=sizes)
    assert log_without_times(path / "theirs") == log_without_times(path / "ours")
    assert queue_files(path / "theirs") == queue_files(path / "ours")
    assert index_shapes(path / "theirs", sizes) == index_shapes(path / "ours", sizes)


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
        stored, _ = fill_ours(tmp_path / "store", script, killed=tmp_path / "killed")
    else:
        stored = fill_java(java_stores, tmp_path / "store", script, killed=tmp_path / "killed", stop=False)
    last = stored[-1]
    size = record_size(last.put, last.item)
    body_end = size - len(last.item.text.encode()) - 3 - len(last.put.topic.encode())
    keys = key_questions(stored)
    for kept in (0, 3, 4, 7, 8, 20, 44, 60, 87, body_end - len(last.item.body), body_end - 1, body_end, body_end + 1):
        torn, copy = tmp_path / f"torn-{kept}", tmp_path / f"copy-{kept}"
        shutil.copytree(tmp_path / "killed", torn)
        tear_record(torn, last.physical_offset + kept, size - kept)
        shutil.copytree(torn, copy)
        ours = view_of_directory(copy, SIZES, keys)
        theirs = view_of_java(java_stores, torn, keys)
        check_messages(theirs, stored[:-1])
        assert_same(theirs, ours)
        assert theirs.max_physical_offset == last.physical_offset
        assert theirs.keys == tuple(expected_of_key(stored[:-1], key) for key in keys)


def tear_record(root: Path, physical_offset: int, size: int) -> None:
    """Make a place in the log zeros, as it is when the disk has not got it."""
    path = root / "commitlog" / f"{physical_offset // SIZES.log_file * SIZES.log_file:020d}"
    with path.open("r+b") as file:
        file.seek(physical_offset % SIZES.log_file)
        file.write(bytes(size))


# ---- in turn --------------------------------------------------------------------------------------------------------


class WallClock(SystemClock):
    """The time of day, which does not follow a script."""

    def advance_ms(self, milliseconds: int) -> None:
        """Nothing: Java's clock cannot be set either."""


@pytest.mark.parametrize("first", ["ours", "java"])
@pytest.mark.parametrize("ends", ["stopped", "killed", "mixed"])
def test_both_append_in_turn_five_times(java_stores: JavaStores, tmp_path: Path, ends: str, first: str) -> None:
    stored: list[Stored] = []
    root = tmp_path / "turn-0"
    java_was_killed = False
    for turn in range(10):
        is_java = (turn % 2 == 0) == (first == "java")
        is_killed = ends == "killed" or (ends == "mixed" and turn % 3 == 1)
        # What is behind a kill is a copy made before; what was open is of no more use.
        following = tmp_path / f"turn-{turn + 1}"
        script = broad_script(40)[turn:]
        if is_java:
            stored += fill_java(java_stores, root, script, killed=following if is_killed else None, stop=not is_killed)
            java_was_killed |= is_killed
        else:
            stored += fill_ours(root, script, killed=following if is_killed else None, clock=WallClock())[0]
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
    ours = view_of_directory(for_us, SIZES, keys)
    check_messages(ours, stored)
    set_file_times(for_us)
    times = time_questions(ours)
    shutil.copytree(for_us, for_times)
    theirs = view_of_java(java, for_us, keys, times)
    assert theirs == view_of_directory(for_times, SIZES, keys, times)
    shutil.copytree(root, for_java)
    theirs = view_of_java(java, for_java, keys)
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
