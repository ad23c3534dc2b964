"""Fingerprint of a simulated run: everything that was noted, in order, as one hash.

Two runs with equal hashes have sent the same bytes at the same moments; a seed that does not give the same hash in each
process has found something that is not simulated.
"""

from __future__ import annotations

from hashlib import blake2b

import trio


class Trace:
    """Notes of one run."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._count = 0

    @property
    def count(self) -> int:
        """Number of notes."""
        return self._count

    def note(self, kind: str, source: str, target: str = "", content: bytes = b"") -> None:
        """Add an event of this moment."""
        self._count += 1
        self._hash.update(f"{trio.current_time()!r} {kind} {source} {target} {len(content)} ".encode())
        self._hash.update(content)

    def hexdigest(self) -> str:
        """Return the hash of all events so far."""
        return self._hash.hexdigest()
