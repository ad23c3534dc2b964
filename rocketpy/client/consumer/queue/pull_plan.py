"""The pulls of one consumer: what they have in common, and one of them as a value.

Compatibility: ``DefaultMQPushConsumerImpl.pullMessage`` and ``DefaultLitePullConsumerImpl.pullSyncImpl`` (4.9.8). A
lite pull names version 0 for a tag expression, so that the broker does not compare it with that of a heartbeat.
"""

from __future__ import annotations

import attrs

from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.protocol.bodies.heartbeat import EXPRESSION_TYPE_TAG, SubscriptionData
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.sysflag import PULL_LITE_PULL_FLAG, pull_sys_flag

BROKER_SUSPEND_MS = 15_000
"""How long a broker may hold a pull of a member that has handlers."""
PULL_SECONDS = 30.0


@attrs.frozen(kw_only=True)
class PullRequest:
    """One pull. ``commit_offset`` is recorded where ``sys_flag`` says so, but only by a master."""

    queue: MessageQueue
    queue_offset: int
    subscription: SubscriptionData
    sys_flag: int
    max_msg_nums: int
    suspend_ms: int
    """How long the broker may hold the pull; it does where ``sys_flag`` says so."""
    timeout_s: float
    commit_offset: int = 0
    sub_version: int = 0


@attrs.frozen(kw_only=True)
class PullPlan:
    """Parameters that the pulls of one consumer share."""

    max_msg_nums: int
    suspend_ms: int
    timeout_s: float
    commits: bool
    """A pull carries the offset of its queue that may be committed."""
    sends_subscription: bool
    is_lite: bool = False
    interval_s: float = 0.0
    """Pause after a pull that found messages."""

    def request(
        self, queue: MessageQueue, queue_offset: int, subscription: SubscriptionData, commit_offset: int | None
    ) -> PullRequest:
        """Return the pull of a queue from an offset."""
        commit_offset = commit_offset or 0 if self.commits else 0
        sys_flag = pull_sys_flag(
            commit_offset=commit_offset > 0,
            suspend=True,
            subscription=self.sends_subscription,
            class_filter=False,
        )
        is_unversioned = self.is_lite and subscription.expression_type == EXPRESSION_TYPE_TAG
        return PullRequest(
            queue=queue,
            queue_offset=queue_offset,
            subscription=subscription,
            sys_flag=sys_flag | (PULL_LITE_PULL_FLAG if self.is_lite else 0),
            max_msg_nums=self.max_msg_nums,
            suspend_ms=self.suspend_ms,
            timeout_s=self.timeout_s,
            commit_offset=commit_offset,
            sub_version=0 if is_unversioned else subscription.sub_version,
        )


def pull_plan(config: ConsumerConfig) -> PullPlan:
    """Return the plan of a member that has handlers."""
    return PullPlan(
        max_msg_nums=config.pull_batch_size,
        suspend_ms=BROKER_SUSPEND_MS,
        timeout_s=PULL_SECONDS,
        commits=not config.is_broadcasting,
        sends_subscription=config.post_subscription_when_pull,
        interval_s=config.pull_interval / 1000,
    )
