"""Input of a rebalance: the topics of a group, their queues, and its members."""

from __future__ import annotations

import attrs

from rocketpy.client.consumer.group.requests import GroupRequests
from rocketpy.client.consumer.group.subscriptions import Subscriptions
from rocketpy.client.instance import ClientInstance
from rocketpy.client.states import StateSubject
from rocketpy.protocol.message import MessageQueue


@attrs.frozen
class GroupKnowledge:
    """Topics from the subscriptions, queues from the routes, members from a broker."""

    subscriptions: Subscriptions
    instance: ClientInstance
    requests: GroupRequests

    def topics(self) -> list[str]:
        """Return the topics of the group."""
        return self.subscriptions.topics

    async def queues(self, topic: str) -> list[MessageQueue] | None:
        """Return the sorted queues of a topic, None when no nameserver knows it."""
        queues = await self.instance.routes.look_up_subscribed(topic)
        if queues is None and self.subscriptions.get(topic) is None:  # unsubscribed meanwhile
            self.instance.states.forget(StateSubject.ROUTE, topic)
        return queues

    async def member_ids(self, topic: str) -> list[str] | None:
        """Return the sorted client ids, None when no broker of the topic says who they are."""
        return await self.requests.member_ids(topic)
