"""The topics that a group consumes, as its heartbeats say.

Rule: a subscription that changes gets a higher version, for brokers keep the highest of a group. Rebalancing changes no
version, so a pull never overtakes the heartbeat that announces its version.

Compatibility: ``RebalanceImpl.subscriptionInner`` (4.9.8). There each rebalance that changes the queues of a topic
makes a new version, and pulls are refused with SUBSCRIPTION_NOT_LATEST until the broker has received it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rocketpy.client.consumer.message_selector import MessageSelector, subscription_to
from rocketpy.protocol.bodies.heartbeat import SubscriptionData


class Subscriptions:
    """Subscriptions by topic."""

    def __init__(self, timestamp_ms: Callable[[], int]) -> None:
        self._timestamp_ms = timestamp_ms
        self._by_topic: dict[str, SubscriptionData] = {}
        self._version = 0

    @property
    def topics(self) -> list[str]:
        """The topics, in the order of their subscriptions."""
        return list(self._by_topic)

    @property
    def values(self) -> list[SubscriptionData]:
        """What heartbeats say."""
        return list(self._by_topic.values())

    def get(self, topic: str) -> SubscriptionData | None:
        """Return the subscription to a topic."""
        return self._by_topic.get(topic)

    def add(self, topic: str, selector: str | MessageSelector) -> SubscriptionData:
        """Subscribe, or change a subscription, and return it; ClientError for an expression that cannot be meant."""
        self._version = max(self._version + 1, self._timestamp_ms())
        self._by_topic[topic] = subscription_to(topic, selector, sub_version=self._version)
        return self._by_topic[topic]

    def remove(self, topic: str) -> None:
        """Unsubscribe; a topic that is not subscribed to is ignored."""
        self._by_topic.pop(topic, None)

    @contextmanager
    def kept_on_failure(self, topics: Iterable[str]) -> Iterator[None]:
        """Undo what the block has changed of the subscriptions to these topics, if it fails or is cancelled."""
        before = {topic: self._by_topic.get(topic) for topic in topics}
        is_done = False
        try:
            yield
            is_done = True
        finally:
            if not is_done:
                for topic, subscription in before.items():
                    if subscription is None:
                        self.remove(topic)
                    else:
                        self._by_topic[topic] = subscription
