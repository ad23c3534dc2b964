"""Settings of consumers, with RocketMQ's defaults.

Compatibility: ``DefaultMQPullConsumer`` and ``DefaultMQPushConsumer`` (4.9.8).
"""

from __future__ import annotations

from pathlib import Path

import attrs

from rocketpy.client.validators import UNSPECIFIED
from rocketpy.errors import ClientError
from rocketpy.protocol.allocation.averagely import AllocateAveragely
from rocketpy.protocol.allocation.strategy import AllocateMessageQueueStrategy
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere, MessageModel

MAX_RECONSUME_TIMES = 16
MAX_RECONSUME_TIMES_ORDERLY = 2**31 - 1


@attrs.frozen(kw_only=True)
class PullConfig:
    """Settings of a pull consumer. Times in milliseconds.

    ``message_model`` and ``allocate_message_queue_strategy`` decide which queues it has of the topics that it is opened
    with. ``max_reconsume_times`` is for messages that it gives back. ``local_offset_store_dir`` is where a broadcasting
    consumer keeps its offsets.
    """

    message_model: MessageModel = MessageModel.CLUSTERING
    allocate_message_queue_strategy: AllocateMessageQueueStrategy = attrs.field(factory=AllocateAveragely)
    consumer_pull_timeout: int = 10_000
    """How long an answer may take, on top of the time for which the broker may hold the pull."""
    max_reconsume_times: int = MAX_RECONSUME_TIMES
    persist_consumer_offset_interval: int = 5_000
    """How often offsets that were committed without being stored are stored."""
    local_offset_store_dir: Path = attrs.field(factory=lambda: Path.home() / ".rocketmq_offsets", converter=Path)

    @property
    def is_broadcasting(self) -> bool:
        """Whether every member has every queue."""
        return self.message_model is MessageModel.BROADCASTING


class _Range:
    """Validator of a number, with RocketMQ's name and text."""

    def __init__(self, name: str, lowest: int, highest: int, *, or_unset: bool = False) -> None:
        self._name = name
        self._lowest = lowest
        self._highest = highest
        self._or_unset = or_unset

    def __call__(self, instance: object, attribute: object, value: int) -> None:
        if not self._lowest <= value <= self._highest and not (self._or_unset and value == -1):
            raise ClientError(
                UNSPECIFIED, f"{self._name} Out of range [{self._lowest}, {self._highest}], found {value}"
            )


def in_range(name: str, default: int, lowest: int, highest: int, *, or_unset: bool = False) -> int:
    """Return a field for a number within a range; ClientError, with RocketMQ's name, for any other."""
    return attrs.field(default=default, validator=_Range(name, lowest, highest, or_unset=or_unset))


@attrs.frozen(kw_only=True)
class ConsumerConfig:
    """Settings of a consumer that is a member of its group. Times in milliseconds, but ``consume_timeout``: minutes.

    ``consume_from_where`` decides where a group without progress begins; ``consume_timestamp`` is a wall time in ms,
    half an hour before the start if it is None. Thresholds stop pulling while that much is not acknowledged: messages,
    MiB of bodies, and the distance between the highest and the lowest offset. Those ``for_topic`` are divided by the
    number of assigned queues, and replace those for a queue; -1 is none.

    ``max_reconsume_times`` -1 is 16, and for an orderly consumer no limit. ``auto_commit`` is for orderly consumers.
    ``local_offset_store_dir`` is where a broadcasting consumer keeps its offsets.

    With ``enable_msg_trace`` records of the beginning and the end of each handler go to RMQ_SYS_TRACE_TOPIC, or to
    ``customized_trace_topic``; :meth:`MessageAdmin.trace` reads them.
    """

    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    consume_timestamp: int | None = None
    allocate_message_queue_strategy: AllocateMessageQueueStrategy = attrs.field(factory=AllocateAveragely)
    consume_concurrently_max_span: int = in_range("consumeConcurrentlyMaxSpan", 2000, 1, 65535)
    pull_threshold_for_queue: int = in_range("pullThresholdForQueue", 1000, 1, 65535)
    pull_threshold_size_for_queue: int = in_range("pullThresholdSizeForQueue", 100, 1, 1024)
    pull_threshold_for_topic: int = in_range("pullThresholdForTopic", -1, 1, 6_553_500, or_unset=True)
    pull_threshold_size_for_topic: int = in_range("pullThresholdSizeForTopic", -1, 1, 102_400, or_unset=True)
    pull_interval: int = in_range("pullInterval", 0, 0, 65535)
    consume_message_batch_max_size: int = in_range("consumeMessageBatchMaxSize", 1, 1, 1024)
    pull_batch_size: int = in_range("pullBatchSize", 32, 1, 1024)
    post_subscription_when_pull: bool = False
    max_reconsume_times: int = -1
    suspend_current_queue_time_millis: int = 1000
    consume_timeout: float = 15
    auto_commit: bool = True
    persist_consumer_offset_interval: int = 5_000
    enable_msg_trace: bool = False
    customized_trace_topic: str = ""
    local_offset_store_dir: Path = attrs.field(factory=lambda: Path.home() / ".rocketmq_offsets", converter=Path)

    @property
    def is_broadcasting(self) -> bool:
        """Whether every member consumes every message."""
        return self.message_model is MessageModel.BROADCASTING

    def reconsume_times_max(self, *, is_orderly: bool) -> int:
        """Return how often a message is consumed again before it is a dead letter."""
        if self.max_reconsume_times != -1:
            return self.max_reconsume_times
        return MAX_RECONSUME_TIMES_ORDERLY if is_orderly else MAX_RECONSUME_TIMES
