"""What the pulls of the two kinds of consumers say."""

from __future__ import annotations

from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.queue.pull_plan import PullPlan, PullRequest, pull_plan
from rocketpy.protocol.bodies.heartbeat import EXPRESSION_TYPE_SQL92, MessageModel, SubscriptionData
from rocketpy.protocol.message import MessageQueue

QUEUE = MessageQueue("T", "b", 0)
TAGS = SubscriptionData("T", "TagA", sub_version=7)
SQL = SubscriptionData("T", "a > 1", sub_version=7, expression_type=EXPRESSION_TYPE_SQL92)
LITE = PullPlan(max_msg_nums=10, suspend_ms=20_000, timeout_s=30, commits=False, sends_subscription=True, is_lite=True)


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


def test_a_lite_pull_has_flag_22_and_a_version_only_for_sql() -> None:
    by_tags, by_sql = LITE.request(QUEUE, 3, TAGS, 2), LITE.request(QUEUE, 3, SQL, 2)
    assert (by_tags.sys_flag, by_tags.commit_offset, by_tags.sub_version) == (22, 0, 0)
    assert (by_sql.sys_flag, by_sql.sub_version) == (22, 7)
    assert (by_tags.suspend_ms, by_tags.timeout_s, by_tags.max_msg_nums) == (20_000, 30, 10)
