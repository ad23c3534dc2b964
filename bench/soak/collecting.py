"""Runs a server of ours that forgets soon: ``python -m bench.soak.collecting python -m MODULE ...``.

Our servers collect the first generation after 50,000 new containers. Until then the cycles that clients leave are kept,
and memory rises, for as long as a run may be. With a collection after 2,000 what rises is closer to what is kept.

A broker keeps what was revoked of a topic and a group that have gone for up to an hour and a half: as long as a run, so
that nothing could be told from it. Here it looks for them every five seconds, and keeps it for a quarter of a minute.

Caches and tables that are bounded by a number of names or addresses have room for thousands: they fill for as long as a
run, too. Here they have room for as many as come in its first quarter.
"""

from __future__ import annotations

import functools
import gc
import importlib
import runpy
import sys
from collections.abc import Callable, Sequence
from typing import Any

THRESHOLDS = (2_000, 5, 5)
GONE_GROUPS_SECONDS = 5.0
ENTRIES_MAX = 256
BOUNDS = (
    ("rocketpy.broker.transaction.transactional_message", "KEPT_ENDS_MAX"),
    ("rocketpy.store.ha.verified_stream", "_QUEUES_MAX"),
    ("rocketpy.store.index.hash", "_PREFIXES_MAX"),
    ("rocketpy.store.log.plain_records", "_TAILS_MAX"),
)
"""By module: bounds of what a broker keeps of names that came by. Caches of functions have one that is no constant."""


def main(arguments: Sequence[str]) -> None:
    """Run a module as ``__main__``; what it sets as thresholds is not heeded."""
    _python, option, module, *rest = arguments
    assert option == "-m", arguments
    gc.set_threshold(*THRESHOLDS)
    gc.set_threshold = _heed_nothing
    if module == "rocketpy.broker":
        functools.lru_cache = _small_cache  # type: ignore[assignment]
        _set("rocketpy.broker.metadata.gone_groups", "PERIOD_SECONDS", GONE_GROUPS_SECONDS)
        for where, name in BOUNDS:
            _set(where, name, ENTRIES_MAX)
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _set(where: str, name: str, value: float) -> None:
    found = importlib.import_module(where)
    assert hasattr(found, name), (where, name)
    setattr(found, name, value)


def _small_cache(maxsize: int | Callable[..., Any] | None = 128, typed: bool = False) -> Callable[..., Any]:
    """Take the place of ``functools.lru_cache``; what has no bound keeps none."""
    if isinstance(maxsize, int):
        maxsize = min(maxsize, ENTRIES_MAX)
    cache: Callable[..., Any] = _lru_cache(maxsize, typed)
    return cache


_lru_cache: Callable[..., Any] = functools.lru_cache


def _heed_nothing(threshold0: int, threshold1: int = 0, threshold2: int = 0, /) -> None:
    """Take the place of ``gc.set_threshold``."""


if __name__ == "__main__":
    main(sys.argv[1:])
