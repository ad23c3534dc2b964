"""A group as brokers see one of its members: the heartbeats that name it, from joining to leaving.

Compatibility: ``DefaultMQPushConsumerImpl`` and ``DefaultLitePullConsumerImpl`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from rocketpy.client.consumer.group.subscriptions import Subscriptions
from rocketpy.client.instance import ClientInstance
from rocketpy.client.states import StateSubject
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import (
    EXPRESSION_TYPE_TAG,
    CheckClientRequestBody,
    ConsumerData,
    SubscriptionData,
)
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request

ANNOUNCE_SECONDS = 1.0
"""How long a first heartbeat may take before the queues are pulled all the same."""
LEAVE_SECONDS = 3.0
"""How long storing offsets and giving locks back may take when a member leaves."""


class Membership:
    """Announcement of one member to brokers. ``data`` returns its part of a heartbeat."""

    def __init__(
        self,
        *,
        instance: ClientInstance,
        group: str,
        subscriptions: Subscriptions,
        data: Callable[[], ConsumerData],
    ) -> None:
        self._instance = instance
        self._group = group
        self._subscriptions = subscriptions
        self._data = data

    def register(self) -> None:
        """Have heartbeats name the group; ClientError if the client has a consumer of it. Then :meth:`join`."""
        self._instance.heartbeats.add_consumer(self._group, self._data)

    async def join(self) -> None:
        """Join the group; BrokerError for a filter that a broker does not understand, and the group is left again.

        A topic without a route is no failure: its queues are taken when it has one.
        """
        has_joined = False
        try:
            for topic in self._subscriptions.topics:
                await self._instance.routes.look_up_subscribed(topic, anew=True)
            for subscription in self._subscriptions.values:
                await self.check_filter(subscription)
            await self.announce()
            has_joined = True
        finally:
            if not has_joined:
                await self.leave()

    async def leave(self, *, keeps_locks: bool = False) -> None:
        """Unregister from the brokers; bounded in time, also when cancelled.

        ``keeps_locks``: a handler has not ended, so the locks have to expire.
        """
        for topic in self._subscriptions.topics:
            self.forget_topic(topic)
        for subject in (StateSubject.MEMBERS, StateSubject.LOCKS):
            self._instance.states.forget_all(subject, f"{self._group} at ")
        await self._instance.heartbeats.remove_consumer(self._group, keeps_locks=keeps_locks)

    def forget_topic(self, topic: str) -> None:
        """Forget the states of a topic that the group consumes no longer; another member's are noted again."""
        states = self._instance.states
        states.forget(StateSubject.ROUTE, topic)
        states.forget(StateSubject.MEMBERS, f"{self._group} at {topic}")
        states.forget_all(StateSubject.START_OFFSET, f"{topic} ")

    async def announce(self) -> None:
        """Send a heartbeat, and wait a little for its answers."""
        with trio.move_on_after(ANNOUNCE_SECONDS) as waiting:
            await self._instance.heartbeats.send()
        if waiting.cancelled_caught:
            self._instance.heartbeats.wake()

    async def announce_change(self) -> None:
        """Send a heartbeat after a change of the subscriptions, and look for the brokers of new topics before."""
        for topic in self._subscriptions.topics:
            await self._instance.routes.look_up_subscribed(topic)
        await self.announce()

    async def check_filter(self, subscription: SubscriptionData) -> None:
        """Ask a broker of the topic whether it understands an expression; BrokerError if not."""
        addresses = self._instance.routes.table.addresses_of_topic(subscription.topic)
        if subscription.expression_type == EXPRESSION_TYPE_TAG or not addresses:
            return
        body = CheckClientRequestBody(self._instance.client_id, self._group, subscription)
        request = make_request(RequestCode.CHECK_CLIENT_CONFIG, body=encode_body(body))
        await self._instance.request(self._instance.randomness.choice(addresses), request)
