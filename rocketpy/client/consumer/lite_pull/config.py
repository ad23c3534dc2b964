"""Settings of a lite pull consumer, with RocketMQ's defaults.

Compatibility: ``DefaultLitePullConsumer`` (4.9.8). A value out of range is refused; Java takes thresholds as they are,
and ignores an interval of automatic commits below a second.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from rocketpy.client.consumer.config import in_range
from rocketpy.client.consumer.queue.flow_limits import FlowLimits
from rocketpy.client.consumer.queue.pull_plan import PullPlan
from rocketpy.client.validators import UNSPECIFIED
from rocketpy.errors import ClientError
from rocketpy.protocol.allocation.averagely import AllocateAveragely
from rocketpy.protocol.allocation.strategy import AllocateMessageQueueStrategy
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere, MessageModel

_MS_MAX = 2**31 - 1
_POLICIES = (
    ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
    ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    ConsumeFromWhere.CONSUME_FROM_TIMESTAMP,
)


def _check_policy(instance: object, attribute: object, value: ConsumeFromWhere) -> None:
    if value not in _POLICIES:
        raise ClientError(UNSPECIFIED, f"Invalid ConsumeFromWhere Value: {value}")


@attrs.frozen(kw_only=True)
class LitePullConfig:
    """Settings of a lite pull consumer. Times in milliseconds.

    ``consume_from_where`` decides where a group without progress begins; ``consume_timestamp`` is a wall time in ms,
    half an hour before the start if it is None. With ``auto_commit`` a poll commits what the polls before it have
    returned, at most once in ``auto_commit_interval``.

    Thresholds stop pulling while that much is not polled: messages of all queues together, messages of one queue, MiB
    of their bodies, and the distance between their highest and lowest offset. A broker may hold a pull for
    ``broker_suspend_max_time``, and its answer may take ``consumer_timeout_when_suspend``.

    ``topic_metadata_check_interval`` is for ``queue_changes``. ``local_offset_store_dir`` is where a broadcasting
    consumer keeps its offsets.

    With ``enable_msg_trace`` records of what polls return go to RMQ_SYS_TRACE_TOPIC, or to ``customized_trace_topic``.
    """

    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = attrs.field(
        default=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, validator=_check_policy
    )
    consume_timestamp: int | None = None
    allocate_message_queue_strategy: AllocateMessageQueueStrategy = attrs.field(factory=AllocateAveragely)
    auto_commit: bool = True
    auto_commit_interval: int = in_range("autoCommitIntervalMillis", 5_000, 1_000, _MS_MAX)
    poll_timeout: int = in_range("pollTimeoutMillis", 5_000, 0, _MS_MAX)
    pull_batch_size: int = in_range("pullBatchSize", 10, 1, 1024)
    pull_threshold_for_all: int = in_range("pullThresholdForAll", 10_000, 1, 6_553_500)
    pull_threshold_for_queue: int = in_range("pullThresholdForQueue", 1000, 1, 65535)
    pull_threshold_size_for_queue: int = in_range("pullThresholdSizeForQueue", 100, 1, 1024)
    consume_max_span: int = in_range("consumeMaxSpan", 2000, 1, 65535)
    broker_suspend_max_time: int = in_range("brokerSuspendMaxTimeMillis", 20_000, 0, _MS_MAX)
    consumer_timeout_when_suspend: int = in_range("consumerTimeoutMillisWhenSuspend", 30_000, 1, _MS_MAX)
    topic_metadata_check_interval: int = in_range("topicMetadataCheckIntervalMillis", 30_000, 1, _MS_MAX)
    persist_consumer_offset_interval: int = in_range("persistConsumerOffsetInterval", 5_000, 1, _MS_MAX)
    enable_msg_trace: bool = False
    customized_trace_topic: str = ""
    local_offset_store_dir: Path = attrs.field(factory=lambda: Path.home() / ".rocketmq_offsets", converter=Path)

    def __attrs_post_init__(self) -> None:
        if self.consumer_timeout_when_suspend < self.broker_suspend_max_time:
            raise ClientError(
                UNSPECIFIED,
                "Long polling mode, the consumer consumerTimeoutMillisWhenSuspend must greater than"
                f" brokerSuspendMaxTimeMillis: found {self.consumer_timeout_when_suspend} and"
                f" {self.broker_suspend_max_time}",
            )

    @property
    def is_broadcasting(self) -> bool:
        """Whether every member consumes every message."""
        return self.message_model is MessageModel.BROADCASTING


def lite_pull_plan(config: LitePullConfig) -> PullPlan:
    """Return what the pulls of the consumer have in common."""
    return PullPlan(
        max_msg_nums=config.pull_batch_size,
        suspend_ms=config.broker_suspend_max_time,
        timeout_s=config.consumer_timeout_when_suspend / 1000,
        commits=False,
        sends_subscription=True,
        is_lite=True,
    )


def lite_flow_limits(config: LitePullConfig) -> FlowLimits:
    """Return the thresholds of one queue."""
    return FlowLimits(config.pull_threshold_for_queue, config.pull_threshold_size_for_queue, config.consume_max_span)
