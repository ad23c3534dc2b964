"""Tells the members of a consumer group that it has changed, so that they share out the queues again."""

from __future__ import annotations

from rocketpy.broker.consumer_manager import GroupChange
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.client import NotifyConsumerIdsChangedRequestHeader


def notify_consumer_ids_changed(change: GroupChange) -> None:
    """Send NOTIFY_CONSUMER_IDS_CHANGED to every member, oneway; it may overtake the answer to a heartbeat."""
    for connection in change.channels:
        header = NotifyConsumerIdsChangedRequestHeader(change.group_name)
        connection.oneway(make_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, oneway=True))
