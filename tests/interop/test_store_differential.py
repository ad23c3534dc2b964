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
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rocketpy.clock import ManualClock
from rocketpy.protocol.stored_message import RecordStatus, check_message, decode_message
from tests.interop.java_store import JavaStores, KeyQuestion, StoreSizes, StoreView, TimeQuestion
from tests.interop.our_store import STORE_HOST, open_ours, set_file_times, view_of, view_of_directory
from tests.interop.store_contents import (
    STORE_V6,
    Item,
    Put,
    Stored,
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
    root: Path, script: Sequence[Put], *, killed: Path | None = None, store_host: bytes = STORE_HOST, **more: object
) -> tuple[list[Stored], StoreView]:
    """Play a script to our store and end in order; ``killed`` becomes what a kill before that leaves."""

    async def fill() -> tuple[list[Stored], StoreView]:
        clock = ManualClock()
        async with open_ours(root, SIZES, clock=clock, store_host=store_host, **more) as store:
            stored = play_to_ours(store, clock, script)
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
    store_host: bytes = STORE_HOST,
    stop: bool = True,
    **more: object,
) -> list[Stored]:
    """Play a script to Java's store; it ends in order, or with ``stop`` false is let go of."""
    assert java.open(root, SIZES, **more)
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
    **more: object,
) -> StoreView:
    """Let Java open a directory and say what it holds; the directory is of no more use then."""
    assert java.open(root, SIZES, **more)
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


def assert_same(theirs: StoreView, ours: StoreView) -> None:
    """Both show the same, record for record; of two messages near a time ours is never the farther one."""
    assert attrs.evolve(theirs, times=()) == attrs.evolve(ours, times=())
    assert theirs.times == ours.times
