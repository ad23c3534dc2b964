"""Which client of a group may consume a queue in order: locks that expire.

Rule: a queue has one holder per group. One that does not renew within ``rocketmq.broker.rebalance.lockMaxLiveTime`` may
be replaced; the table is in memory only, so after a restart of the broker whoever asks first holds the queue.

Compatibility: ``RebalanceLockManager`` (4.9.8). Neither client nor topic need exist. Java measures in wall time; here
the time is passed in and does not step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import attrs

from rocketpy.broker.config import BrokerConfig
from rocketpy.log_files import event_fields
from rocketpy.protocol.message import MessageQueue

LOCKS_MAX = 200_000
"""So many queues are locked at once, of all groups; another one is not locked until some are free."""

LINES_MAX = 32
"""Queues of one request that are logged one by one."""

_log = logging.getLogger("rocketpy.broker.lock")


@attrs.define(eq=False, slots=True)
class _Lock:
    """Who holds a queue and when it was last renewed."""

    client_id: str
    renewed: float


class RebalanceLockManager:
    """The locks of every group. ``current_time`` is a clock in seconds that never steps."""

    def __init__(self, *, config: BrokerConfig, current_time: Callable[[], float]) -> None:
        self._config = config
        self._current_time = current_time
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def try_lock_batch(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """Lock or renew what is free, expired or the client's own; return those of ``queues`` that it now holds."""
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
        """Free those of ``queues`` that the client holds; the others stay as they are."""
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

    def forget_expired(self) -> int:
        """Drop locks that nobody has renewed for ten times their life, so the table does not grow for good."""
        oldest = self._current_time() - 10 * self._config.lock_max_live_time / 1000
        forgotten = 0
        for group, locks in list(self._locks.items()):
            for queue in [queue for queue, lock in locks.items() if lock.renewed < oldest]:
                del locks[queue]
                self._count -= 1
                forgotten += 1
            if not locks:
                del self._locks[group]
        return forgotten

    def holder(self, group: str, queue: MessageQueue) -> str | None:
        """Return the client that holds a queue, expired or not."""
        lock = self._locks.get(group, {}).get(queue)
        return None if lock is None else lock.client_id


class _Lines:
    """The lines of one request in the log: one for each queue, but not for thousands."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._is_wanted = _log.isEnabledFor(logging.INFO)
        self._count = 0

    def add(self, text: str, queue: MessageQueue, **fields: str) -> None:
        self._count += 1
        if self._is_wanted and self._count <= LINES_MAX:
            place = {"topic": queue.topic, "broker": queue.broker_name, "queueId": queue.queue_id}
            _log.info(text, extra=event_fields(group=self._group, **place, **fields))

    def end(self, client_id: str) -> None:
        if self._is_wanted and self._count > LINES_MAX:
            more = self._count - LINES_MAX
            _log.info(
                "more queues of the same request", extra=event_fields(group=self._group, client=client_id, count=more)
            )
