"""Runs a program of ours with a collector that comes soon: ``python -m bench.soak.collecting python -m MODULE ...``.

Our servers collect the first generation after 50,000 new containers. Until then the cycles that clients leave are kept,
and memory rises, for as long as a run may be. With a collection after 2,000 what rises is closer to what is kept.
"""

from __future__ import annotations

import gc
import runpy
import sys
from collections.abc import Sequence

THRESHOLDS = (2_000, 5, 5)


def main(arguments: Sequence[str]) -> None:
    """Run a module as ``__main__``; what it sets as thresholds is not heeded."""
    _python, option, module, *rest = arguments
    assert option == "-m", arguments
    gc.set_threshold(*THRESHOLDS)
    gc.set_threshold = _heed_nothing
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _heed_nothing(threshold0: int, threshold1: int = 0, threshold2: int = 0, /) -> None:
    """Take the place of ``gc.set_threshold``."""


if __name__ == "__main__":
    main(sys.argv[1:])
