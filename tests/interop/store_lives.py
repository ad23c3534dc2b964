"""Lives of a store, in one call each: opened by one of the two, filled, ended in order or as a kill leaves it.

Options of a life are given under the names of our configuration; Java gets the same under its own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import trio
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings

from rocketpy.clock import ManualClock, SystemClock
from rocketpy.settings import setting_rows
from rocketpy.store.config import MessageStoreConfig
from tests.interop.java_store import JavaStores, KeyQuestion, StoreSizes, StoreView, TimeQuestion
from tests.interop.our_store import STORE_HOST, open_ours, view_of, view_of_directory
from tests.interop.store_contents import PlayClock, Put, Stored, play_to_java, play_to_ours

SIZES = StoreSizes()
SCALE = 20 if os.environ.get("ROCKETPY_TIER") == "deep" else 1
Settings = Mapping[str, object]
BitMapOf = Callable[[str, Mapping[str, str]], bytes | None]


def examples(count: int, *, shrink: bool = True) -> hypothesis_settings:
    """So many examples, the same ones in every run; ``shrink`` false where each takes seconds."""
    return hypothesis_settings(
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


class WallClock(SystemClock):
    """The time of day, which does not follow a script."""

    def advance_ms(self, milliseconds: int) -> None:
        """Nothing: Java's clock cannot be set either."""


@attrs.frozen
class Lives:
    """How the stores of a test are made: sizes, and options beyond them."""

    sizes: StoreSizes = SIZES
    settings: Settings = attrs.field(factory=dict)
    bit_map_of: BitMapOf | None = None
    store_host: bytes = STORE_HOST
    log_directories: tuple[str, ...] = ()  # below the root, if the log is to lie in several

    def ours(
        self,
        root: Path,
        script: Sequence[Put],
        *,
        killed: Path | None = None,
        clock: PlayClock | None = None,
    ) -> tuple[list[Stored], StoreView]:
        """Play a script to our store and end in order; ``killed`` becomes what a kill before that leaves."""

        async def fill() -> tuple[list[Stored], StoreView]:
            played = clock or ManualClock()
            async with open_ours(root, self.sizes, clock=played, **self.our_settings(root)) as store:
                stored = play_to_ours(store, played, script)
                view = await view_of(store)
                if killed is not None:
                    shutil.copytree(root, killed)
                    assert (killed / "abort").exists()
            assert not (root / "abort").exists()
            return stored, view

        return trio.run(fill)

    def java(
        self, java: JavaStores, root: Path, script: Sequence[Put], *, killed: Path | None = None, stop: bool = True
    ) -> list[Stored]:
        """Play a script to Java's store; it ends in order, or with ``stop`` false is let go of."""
        assert java.open(root, self.sizes, **self.java_settings(root))
        stored = play_to_java(java, root, script, self.store_host)
        java.view(root)  # the queues have everything
        if killed is not None:
            java.copy_as_killed(root, killed)
        if stop:
            assert java.close(root)
        else:
            java.drop(root)
        return stored

    def view_of_java(
        self, java: JavaStores, root: Path, keys: Sequence[KeyQuestion] = (), times: Sequence[TimeQuestion] = ()
    ) -> StoreView:
        """Let Java open a directory and say what it holds; the directory is of no more use then."""
        assert java.open(root, self.sizes, **self.java_settings(root))
        try:
            return java.view(root, keys, times)
        finally:
            java.drop(root)

    def view_of_ours(
        self, root: Path, keys: Sequence[KeyQuestion] = (), times: Sequence[TimeQuestion] = ()
    ) -> StoreView:
        """Open a directory and say what it holds; it is closed in order."""
        return view_of_directory(root, self.sizes, keys, times, **self.our_settings(root))

    def our_settings(self, root: Path) -> dict[str, Any]:
        """Return what to open our store with."""
        given = {**self.settings, "bit_map_of": self.bit_map_of, "store_host": self.store_host}
        if self.log_directories:
            given["store_path_commit_log"] = ",".join(str(root / each) for each in self.log_directories)
        return given

    def java_settings(self, root: Path) -> dict[str, object]:
        """Return the same settings under Java's names, which our configuration knows."""
        keys = {row.name: row.key for row in setting_rows(MessageStoreConfig)}
        given = {keys[name]: value for name, value in self.settings.items()}
        if self.log_directories:
            given["storePathCommitLog"] = ",".join(str(root / each) for each in self.log_directories)
        return {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
