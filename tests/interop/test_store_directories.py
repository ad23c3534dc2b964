"""Logs in several directories: each of the two stores goes on with the other's."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import trio

from rocketpy.clock import ManualClock
from rocketpy.protocol.stored_message import decode_message
from tests.interop.java_store import JavaStores, StoreSizes, StoreView
from tests.interop.our_store import open_ours, view_of_directory
from tests.interop.store_contents import Item, Put, play_to_java, play_to_ours

pytestmark = pytest.mark.java

SIZES = StoreSizes()
TOPIC = "TopicTest"


def messages(begin: int, end: int) -> list[Put]:
    """Messages of one queue, fourteen to a file of the log."""
    return [
        Put(TOPIC, 0, (Item(b"%04d" % number + bytes(1000), {"KEYS": f"key{number}"}),)) for number in range(begin, end)
    ]


def numbers(view: StoreView) -> list[int]:
    return [int(decode_message(record).body[:4]) for record in view.queues[TOPIC, 0].records]


class Directories:
    """The settings of a log in several directories below a store's, as both sides call them."""

    def __init__(self, names: str, read_only: str = "") -> None:
        self._names = names
        self._read_only = read_only

    def ours(self, root: Path) -> dict[str, Any]:
        return {
            "store_path_commit_log": self._list(root, self._names),
            "read_only_commit_log_store_paths": self._list(root, self._read_only) or None,
        }

    def java(self, root: Path) -> dict[str, Any]:
        return {
            "storePathCommitLog": self._list(root, self._names),
            "readOnlyCommitLogStorePaths": self._list(root, self._read_only),
        }

    def _list(self, root: Path, names: str) -> str:
        return ",".join(str(root / f"log-{name}") for name in names)


def put_ours(root: Path, script: list[Put], directories: Directories) -> None:
    async def put() -> None:
        clock = ManualClock()
        async with open_ours(root, SIZES, clock=clock, **directories.ours(root)) as store:
            play_to_ours(store, clock, script)

    trio.run(put)


def put_java(java: JavaStores, root: Path, script: list[Put], directories: Directories) -> StoreView:
    assert java.open(root, SIZES, **directories.java(root))
    play_to_java(java, root, script)
    view = java.view(root)
    assert java.close(root)
    return view


def files(root: Path) -> dict[str, list[int]]:
    """The numbers of the files in each directory, but for empty ones that Java has made in advance."""
    return {
        path.name[-1]: sorted(int(each.name) // SIZES.log_file for each in path.iterdir())
        for path in sorted(root.glob("log-?"))
    }


def test_a_log_in_several_directories_is_taken_over_in_turn(java_stores: JavaStores, tmp_path: Path) -> None:
    root = tmp_path / "store"
    three, without_b = Directories("abc"), Directories("ac", "b")
    put_ours(root, messages(0, 70), three)
    assert files(root) == {"a": [0, 3], "b": [1, 4], "c": [2]}
    view = put_java(java_stores, root, messages(70, 120), three)
    assert numbers(view) == list(range(120))
    assert numbers(view_of_directory(root, SIZES, **three.ours(root))) == list(range(120))
    put_ours(root, messages(120, 160), without_b)
    view = put_java(java_stores, root, messages(160, 200), without_b)
    assert numbers(view) == list(range(200))
    assert numbers(view_of_directory(root, SIZES, **without_b.ours(root))) == list(range(200))
    assert set(files(root)["b"]) <= set(range(10)), "nothing new in the one that is read-only"


@pytest.mark.parametrize("writer", ["ours", "java"])
def test_a_log_in_several_directories_after_a_kill(java_stores: JavaStores, tmp_path: Path, writer: str) -> None:
    """The files that are left may be those that were made in advance, empty."""
    three = Directories("abc")
    root, killed = tmp_path / "store", tmp_path / "killed"
    if writer == "java":
        assert java_stores.open(root, SIZES, **three.java(root))
        play_to_java(java_stores, root, messages(0, 100))
        java_stores.view(root)
        java_stores.copy_as_killed(root, killed)
        java_stores.drop(root)
    else:

        async def put_and_die() -> None:
            clock = ManualClock()
            async with open_ours(root, SIZES, clock=clock, **three.ours(root)) as store:
                play_to_ours(store, clock, messages(0, 100))
                shutil.copytree(root, killed)

        trio.run(put_and_die)
    again = tmp_path / "again"
    shutil.copytree(killed, again)
    assert numbers(put_java(java_stores, killed, [], three)) == list(range(100))
    assert numbers(view_of_directory(again, SIZES, **three.ours(again))) == list(range(100))
