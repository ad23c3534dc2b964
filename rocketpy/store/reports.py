"""What a store tells whoever opened it, while it opens and while it runs."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from rocketpy.store.recovery.recovery import RecoveryReport


def _nothing(*_: object) -> None:
    pass


@attrs.frozen(kw_only=True)
class StoreReports:
    """Who is told; what is left out is told to nobody. Called on the event loop: must not block."""

    recovered: Callable[[RecoveryReport], None] = _nothing
    """What recovery found, before the store is handed out."""
    recovering: Callable[[int, int], None] = _nothing
    """Every two seconds of recovery: how far in the log it has come, and where the log's last file ends."""
    full: Callable[[str | None], None] = _nothing
    """Why no message is taken while a disk is too full, and None when that is over."""


NO_REPORTS = StoreReports()
