"""Runs a server of ours that forgets soon: ``python -m bench.soak.collecting python -m MODULE ...``.

Our servers collect the first generation after 50,000 new containers. Until then the cycles that clients leave are kept,
and memory rises, for as long as a run may be. With a collection after 2,000 what rises is closer to what is kept.

A broker keeps what was revoked of a topic and a group that have gone for up to an hour and a half: as long as a run, so
that nothing could be told from it. Here it looks for them every five seconds, and keeps it for a quarter of a minute.
"""

from __future__ import annotations

import gc
import runpy
import sys
from collections.abc import Sequence

THRESHOLDS = (2_000, 5, 5)
GONE_GROUPS_SECONDS = 5.0


def main(arguments: Sequence[str]) -> None:
    """Run a module as ``__main__``; what it sets as thresholds is not heeded."""
    _python, option, module, *rest = arguments
    assert option == "-m", arguments
    gc.set_threshold(*THRESHOLDS)
    gc.set_threshold = _heed_nothing
    if module == "rocketpy.broker":
        from rocketpy.broker.metadata import gone_groups  # a nameserver has no such module

        gone_groups.PERIOD_SECONDS = GONE_GROUPS_SECONDS
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _heed_nothing(threshold0: int, threshold1: int = 0, threshold2: int = 0, /) -> None:
    """Take the place of ``gc.set_threshold``."""


if __name__ == "__main__":
    main(sys.argv[1:])
