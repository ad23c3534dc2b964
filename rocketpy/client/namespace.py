"""The namespace of a client: put before the topics and groups that a program names, removed from what it is shown.

Compatibility: ``ClientConfig.withNamespace``, ``withoutNamespace`` and ``queueWithNamespace`` (4.9.8). There
``unsubscribe`` forgets the namespace, and contexts of listeners and hooks show it in their queues.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.namespace import without_namespace, wrap_namespace
from rocketpy.protocol.properties import PROPERTY_RETRY_TOPIC


@attrs.frozen
class Namespace:
    """One namespace; with an empty name every call returns what it is given."""

    name: str = ""

    def wrap(self, resource: str) -> str:
        """Return a topic or group as brokers know it."""
        return wrap_namespace(self.name, resource) if self.name else resource

    def unwrap(self, resource: str) -> str:
        """Return a topic or group as the program knows it."""
        return without_namespace(resource, self.name) if self.name else resource

    def wrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue as brokers know it."""
        return MessageQueue(self.wrap(queue.topic), queue.broker_name, queue.queue_id) if self.name else queue

    def unwrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue as the program knows it."""
        return MessageQueue(self.unwrap(queue.topic), queue.broker_name, queue.queue_id) if self.name else queue

    def wrap_queues(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return queues as brokers know them."""
        return [self.wrap_queue(each) for each in queues]

    def unwrap_queues(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return queues as the program knows them."""
        return [self.unwrap_queue(each) for each in queues]

    def restore_topic(self, message: MessageExt) -> None:
        """Give a message of a retry topic the topic to which it was sent, as the program knows it.

        Compatibility: ``DefaultMQPushConsumerImpl.resetRetryAndNamespace``.
        """
        message.topic = self.unwrap(message.properties.get(PROPERTY_RETRY_TOPIC, message.topic))


NO_NAMESPACE = Namespace()
