"""The waits between storing a message and answering its producer, composed by the settings.

::

                   ASYNC_MASTER        SYNC_MASTER
    ASYNC_FLUSH    none                replica
    SYNC_FLUSH     flush               both, at the same time

SYNC_FLUSH waits for GroupCommitService, SYNC_MASTER for GroupTransferService. With both, the producer is answered when
both waits are over; a failure of the replica is more important than one of the flush.

PUT_OK means that a live slave has the message at the moment of the answer. If the connection whose acknowledgement was
taken ends before the flush does, the replica is waited for again, until the same deadline.

Compatibility: ``CommitLog.asyncPutMessage`` (4.9.8), which combines ``submitFlushRequest`` and
``submitReplicaRequest`` in this way. There an acknowledgement counts for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs
import trio

from rocketpy.store.results import PutMessageStatus, StoredCallback

_PUT_OK = PutMessageStatus.PUT_OK

WaitStored = Callable[[int, StoredCallback], None]
"""Calls back once what was put up to an offset is stored as promised; see ``MessageStore.wait_stored``."""


class DurableWaits(Protocol):
    """What is used of GroupCommitService."""

    def wait_durable(self, physical_end: int, callback: StoredCallback, /) -> None:
        """Call back when the log is durable up to an offset, or after a timeout; never directly."""
        ...


class ReplicaWaits(Protocol):
    """What is used of GroupTransferService."""

    def wait_replicated(self, end_offset: int, callback: StoredCallback, /) -> None:
        """Call back when a slave has the log up to an offset, or cannot be waited for; never directly."""
        ...

    def wait_again(self, end_offset: int, began: float, callback: StoredCallback, /) -> None:
        """Let a request wait on."""
        ...

    def has(self, end_offset: int, /) -> bool:
        """Whether a live slave has a record that ends at an offset."""
        ...


def stored_waits(flush: DurableWaits | None, replica: ReplicaWaits | None) -> WaitStored:
    """Return what waits for those of the two that there are; without any it must not be called."""
    if flush is None:
        return _nothing_to_wait_for if replica is None else replica.wait_replicated
    if replica is None:
        return flush.wait_durable

    def wait_both(physical_end: int, callback: StoredCallback) -> None:
        wait = _BothWaits(replica, physical_end, callback, trio.current_time())
        flush.wait_durable(physical_end, wait.flushed)
        replica.wait_replicated(physical_end, wait.replicated)

    return wait_both


@attrs.define(eq=False)
class _BothWaits:
    """The two waits for one message; each of them calls back once, in any order."""

    _replica: ReplicaWaits
    _physical_end: int
    _callback: StoredCallback
    _began: float
    _flush_status: PutMessageStatus | None = None
    _replica_status: PutMessageStatus | None = None

    def flushed(self, status: PutMessageStatus) -> None:
        self._flush_status = status
        if self._replica_status is _PUT_OK and not self._replica.has(self._physical_end):
            self._replica_status = None
            self._replica.wait_again(self._physical_end, self._began, self.replicated)
        self._answer_if_over()

    def replicated(self, status: PutMessageStatus) -> None:
        self._replica_status = status
        self._answer_if_over()

    def _answer_if_over(self) -> None:
        if self._flush_status is not None and self._replica_status is not None:
            self._callback(self._flush_status if self._replica_status is _PUT_OK else self._replica_status)


def _nothing_to_wait_for(physical_end: int, callback: StoredCallback) -> None:
    raise AssertionError("ASYNC_FLUSH and ASYNC_MASTER: a message is stored as promised when its burst has ended")
