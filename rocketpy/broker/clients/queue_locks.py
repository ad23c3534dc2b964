"""Locks on queues for orderly consumption: at most one client of a group holds a queue. Locks expire.

Rule: a queue has one holder per group, until it unlocks the queue or leaves the group. A holder that does not renew
within ``rocketmq.broker.rebalance.lockMaxLiveTime`` may be replaced, but never before: one whose connection has ended
may still be working. The table is in memory only, so after a restart of the broker the first client to ask holds the
queue.

Compatibility: ``RebalanceLockManager`` (4.9.8). Neither client nor topic need exist. Java measures in wall time; here
the time is passed in and does not step. Its locks live 60 seconds, and outlive the membership. Its members trust a
lock for 30 seconds, and renew it every 20 (``ConsumeMessageOrderlyService``, ``ProcessQueue``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import attrs

from rocketpy.broker.config import BrokerConfig
from rocketpy.log_files import event_fields
from rocketpy.protocol.message import MessageQueue

LOCKS_MAX = 200_000
"""Locked queues of all groups together; beyond that a queue is not locked until others are released."""

LINES_MAX = 32
"""Queues of one request that have a log line of their own."""

_log = logging.getLogger("rocketpy.broker.lock")


@attrs.define(eq=False, slots=True)
class _Lock:
    """The holder of a queue, and the time of its last renewal."""

    client_id: str
    renewed: float


class RebalanceLockManager:
    """Table of the locks of all groups. ``current_time`` is a clock in seconds that never steps."""

    def __init__(self, *, config: BrokerConfig, current_time: Callable[[], float]) -> None:
        self._config = config
        self._current_time = current_time
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def try_lock_batch(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """Lock or renew queues that are free, expired or the client's own; return those that it now holds."""
        now = self._current_time()
        live_seconds = self._config.lock_max_live_time / 1000
        locks = self._locks.setdefault(group, {})
        held, lines = [], _Lines(group)
        for queue in queues:
            lock = locks.get(queue)
            if lock is None and self._count >= LOCKS_MAX:
                continue
            if lock is None or lock.client_id == client_id or now - lock.renewed > live_seconds:
                if lock is None:
                    self._count += 1
                    lines.add("queue locked", queue, client=client_id)
                elif lock.client_id != client_id:
                    lines.add("queue locked: its lock had expired", queue, client=client_id, was=lock.client_id)
                locks[queue] = _Lock(client_id, now)
                held.append(queue)
            else:
                lines.add("queue not locked: another holds it", queue, client=client_id, holder=lock.client_id)
        lines.end(client_id)
        if not locks:
            del self._locks[group]
        return held

    def unlock_batch(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Unlock those of ``queues`` that the client holds; the others are unchanged."""
        locks = self._locks.get(group)
        if locks is None:
            return
        lines = _Lines(group)
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                lines.add("queue unlocked", queue, client=client_id)
                del locks[queue]
                self._count -= 1
        lines.end(client_id)
        if not locks:
            del self._locks[group]

    def unlock_all(self, group: str, client_id: str) -> None:
        """Unlock every queue that the client holds for a group: it has left."""
        self.unlock_batch(group, list(self._locks.get(group, {})), client_id)

    def drop_expired(self) -> int:
        """Remove locks not renewed for ten lifetimes, which bounds the table; return how many."""
        oldest = self._current_time() - 10 * self._config.lock_max_live_time / 1000
        dropped = 0
        for group, locks in list(self._locks.items()):
            for queue in [queue for queue, lock in locks.items() if lock.renewed < oldest]:
                del locks[queue]
                self._count -= 1
                dropped += 1
            if not locks:
                del self._locks[group]
        return dropped

    def holder(self, group: str, queue: MessageQueue) -> str | None:
        """Return the client that holds a queue, expired or not."""
        lock = self._locks.get(group, {}).get(queue)
        return None if lock is None else lock.client_id


class _Lines:
    """Log lines of one request: one for each queue, up to LINES_MAX."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._is_wanted = _log.isEnabledFor(logging.INFO)
        self._count = 0

    def add(self, text: str, queue: MessageQueue, **fields: str) -> None:
        self._count += 1
        if self._is_wanted and self._count <= LINES_MAX:
            where = {"topic": queue.topic, "broker": queue.broker_name, "queueId": queue.queue_id}
            _log.info(text, extra=event_fields(group=self._group, **where, **fields))

    def end(self, client_id: str) -> None:
        if self._is_wanted and self._count > LINES_MAX:
            more = self._count - LINES_MAX
            _log.info(
                "more queues of the same request", extra=event_fields(group=self._group, client=client_id, count=more)
            )
