"""Notifies the members of changed consumer groups, so that they rebalance the queues.

A change only marks its group. This loop sends NOTIFY_CONSUMER_IDS_CHANGED later, a bounded number of frames per turn.
Notifications coalesce: when hundreds of members of hundreds of groups join or leave together, the cost is one
notification per member and group, and other connections are served in between.

Rules: after each change of a group, every connection that is a member at that time is notified; changes in quick
succession may share a notification. Nothing is sent from within a change. So a send that fails, and ends another
member, can only mark the group again.

Compatibility: ``DefaultConsumerIdsChangeListener`` (4.9.8), which queues one notification per change and member.
"""

from __future__ import annotations

import logging
from collections import deque

import attrs
import trio

from rocketpy.broker.clients.consumers import ConsumerManager
from rocketpy.containment import Contained
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.client import NotifyConsumerIdsChangedRequestHeader
from rocketpy.remoting.connection import Connection

FRAMES_PER_TURN = 32
"""Notifications per turn of the loop: about a millisecond."""

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen
class ConsumerIdsChangedStatistics:
    """Notifications since the start, and the groups that wait."""

    sent_count: int
    waiting_groups: int


class ConsumerIdsChangedService:
    """Service with the sending loop, and the callback that marks a group."""

    def __init__(self, *, consumer_manager: ConsumerManager) -> None:
        self._consumer_manager = consumer_manager
        self._changed: dict[str, None] = {}  # an ordered set of groups
        self._group = ""  # being notified, while members are left
        self._members: deque[Connection] = deque()
        self._idle = trio.lowlevel.ParkingLot()
        self._sent_count = 0

    def changed(self, group: str) -> None:
        """Mark a group: its members are notified soon. Sends nothing now."""
        self._changed[group] = None
        if self._idle:
            self._idle.unpark_all()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Notify until cancelled."""
        task_status.started()
        while True:
            if self.notify_some():
                await trio.lowlevel.checkpoint()
            else:
                await self._idle.park()

    def notify_some(self) -> bool:
        """Send at most :data:`FRAMES_PER_TURN` notifications; return False when there was none to send."""
        for sent in range(FRAMES_PER_TURN):
            member = self._next_member()
            if member is None:
                return sent > 0
            with Contained(_log, "notifying %s that group %s has changed", member.peer, self._group):
                header = NotifyConsumerIdsChangedRequestHeader(self._group)
                member.oneway(make_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, oneway=True))
            self._sent_count += 1
        return True

    def statistics(self) -> ConsumerIdsChangedStatistics:
        """Return the counters."""
        return ConsumerIdsChangedStatistics(self._sent_count, len(self._changed) + bool(self._members))

    def _next_member(self) -> Connection | None:
        """Return the next member to notify. A group that changes meanwhile is marked again, so none is missed."""
        while True:
            info = self._consumer_manager.get_consumer_group_info(self._group)
            while self._members:
                member = self._members.popleft()
                if info is not None and member in info.channel_info_table and not member.is_closed:
                    return member
            if not self._changed:
                return None
            self._group = next(iter(self._changed))
            del self._changed[self._group]
            info = self._consumer_manager.get_consumer_group_info(self._group)
            self._members.extend(() if info is None else info.channels)
