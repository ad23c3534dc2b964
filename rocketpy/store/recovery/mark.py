"""The mark that a recovery is under way, or has died.

Recovery clears what lies past the ends of log and queues, and removes files; then it syncs both. If it dies in between,
the next one finds zeros, or no file: in the page cache, while the disk may still have the old units, and shows them
again after a loss of power. So a recovery that finds the mark of an earlier one trusts nothing that is clear: it clears
and syncs again, and syncs every directory. Without a mark that is not needed, which a store of tens of thousands of
queues would notice: a sync of each costs a start many seconds.

The mark needs no sync of its own: it is lost with the power only, and then the page cache is as well.
"""

from __future__ import annotations

import attrs

from rocketpy.store.disk.interface import Disk


@attrs.frozen
class RecoveryMark:
    """The marker of one store."""

    _disk: Disk
    _path: str

    def exists(self) -> bool:
        """Whether an earlier recovery did not come to its end."""
        return self._disk.exists(self._path)

    def create(self) -> None:
        """Make it, before something is cleared or removed that is synced only then."""
        self._disk.open(self._path, create=True).close()

    def remove(self) -> None:
        """Remove it, when everything that recovery has changed is durable. It may come back, which does no harm."""
        if self._disk.exists(self._path):
            self._disk.unlink(self._path)
