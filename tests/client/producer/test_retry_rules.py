"""Each attempt leaves time for the next one, and the whole has RocketMQ's deadline."""

from __future__ import annotations

import pytest

from rocketpy.client.producer.config import RETRY_RESPONSE_CODES, ProducerConfig
from rocketpy.client.producer.retry_rules import async_rules, one_attempt, sync_rules


def test_by_default_attempts_share_the_time_that_is_left() -> None:
    rules = sync_rules(ProducerConfig())
    assert (rules.attempts, rules.timeout_s) == (3, 3.0)
    assert [rules.attempt_s(made, left) for made, left in ((0, 3.0), (1, 2.0), (2, 1.0))] == [1.0, 1.0, 1.0]
    assert rules.attempt_s(1, 2.9) == pytest.approx(1.45), "a quick failure leaves its time to the others"


def test_an_attempt_may_have_a_limit_of_its_own_and_the_last_one_has_none() -> None:
    rules = sync_rules(ProducerConfig(send_attempt_timeout=500))
    assert [rules.attempt_s(made, left) for made, left in ((0, 3.0), (1, 0.2), (2, 2.0))] == [0.5, 0.2, 2.0]


def test_as_long_as_the_whole_it_is_javas_rule() -> None:
    rules = sync_rules(ProducerConfig(send_attempt_timeout=3000))
    assert rules.attempt_s(0, 3.0) == 3.0


def test_the_only_attempt_has_all_the_time() -> None:
    assert one_attempt(sync_rules(ProducerConfig(send_attempt_timeout=1))).attempt_s(0, 3.0) == 3.0


def test_sync_retries_codes_and_async_does_not() -> None:
    config = ProducerConfig(
        retry_times_when_send_failed=5,
        retry_times_when_send_async_failed=1,
        retry_another_broker_when_not_store_ok=True,
        retry_response_codes=RETRY_RESPONSE_CODES | {2},
    )
    sync, asynchronous = sync_rules(config, timeout_s=7), async_rules(config)
    assert (sync.attempts, sync.timeout_s, sync.retry_not_store_ok) == (6, 7, True)
    assert sync.retry_codes == {1, 2, 14, 16, 17, 204, 205}
    assert (asynchronous.attempts, asynchronous.timeout_s, asynchronous.retry_not_store_ok) == (2, 3.0, False)
    assert asynchronous.retry_codes == frozenset()
