"""What a store takes from its process: the disk, the wall clock, and a way to wait for the disk off the event loop."""

from __future__ import annotations

import attrs

from rocketpy.clock import Clock
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk


@attrs.frozen(kw_only=True)
class StoreEnvironment:
    """One for all parts of an open store; nothing in a store reads time or disk by another way."""

    disk: Disk
    clock: Clock
    run_blocking: RunBlocking
