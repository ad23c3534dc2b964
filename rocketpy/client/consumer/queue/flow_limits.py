"""Flow control: limits on messages of one queue that are pulled and not yet acknowledged.

Compatibility: ``DefaultMQPushConsumerImpl.pullMessage`` and ``RebalancePushImpl.messageQueueChanged`` (4.9.8).
"""

from __future__ import annotations

import attrs

from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.queue.process_queue import ProcessQueue

MIB = 1 << 20


@attrs.frozen
class FlowLimits:
    """Limits of one queue; ``span_max`` None for an orderly consumer, whose queue has no gaps."""

    count_max: int
    size_mib_max: int
    span_max: int | None

    def is_exceeded(self, process_queue: ProcessQueue) -> bool:
        """Return whether nothing more may be pulled now."""
        return (
            process_queue.message_count > self.count_max
            or process_queue.size_bytes // MIB > self.size_mib_max
            or (self.span_max is not None and process_queue.span > self.span_max)
        )


def flow_limits(config: ConsumerConfig, *, queue_count: int, is_orderly: bool) -> FlowLimits:
    """Return the limits of each queue while so many are assigned: a topic's are divided by their number."""

    def share(of_topic: int, of_queue: int) -> int:
        return of_queue if of_topic == -1 else max(1, of_topic // max(1, queue_count))

    return FlowLimits(
        share(config.pull_threshold_for_topic, config.pull_threshold_for_queue),
        share(config.pull_threshold_size_for_topic, config.pull_threshold_size_for_queue),
        None if is_orderly else config.consume_concurrently_max_span,
    )
