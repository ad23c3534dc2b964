"""What the pulls of the two kinds of consumers say."""

from __future__ import annotations

from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.queue.pull_plan import PullRequest, pull_plan
from rocketpy.protocol.bodies.heartbeat import MessageModel, SubscriptionData
from rocketpy.protocol.message import MessageQueue

QUEUE = MessageQueue("T", "b", 0)
TAGS = SubscriptionData("T", "TagA", sub_version=7)


def test_a_pull_of_a_member_commits_its_offset_and_names_the_version_of_its_subscription() -> None:
    plan = pull_plan(ConsumerConfig(pull_batch_size=9))
    assert plan.request(QUEUE, 3, TAGS, 2) == PullRequest(
        queue=QUEUE,
        queue_offset=3,
        subscription=TAGS,
        sys_flag=3,
        max_msg_nums=9,
        suspend_ms=15_000,
        timeout_s=30,
        commit_offset=2,
        sub_version=7,
    )


def test_an_offset_that_is_zero_or_not_known_is_not_committed() -> None:
    plan = pull_plan(ConsumerConfig())
    assert {plan.request(QUEUE, 3, TAGS, each).sys_flag for each in (0, None)} == {2}


def test_a_broadcasting_member_commits_nothing_with_its_pulls() -> None:
    pull = pull_plan(ConsumerConfig(message_model=MessageModel.BROADCASTING)).request(QUEUE, 3, TAGS, 2)
    assert (pull.sys_flag, pull.commit_offset) == (2, 0)


def test_a_subscription_travels_with_the_pull_if_that_is_wanted() -> None:
    plan = pull_plan(ConsumerConfig(post_subscription_when_pull=True))
    assert plan.request(QUEUE, 3, TAGS, None).sys_flag == 6
