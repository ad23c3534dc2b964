"""Each attempt leaves time for the next one, and the whole has RocketMQ's deadline."""

from __future__ import annotations

from random import Random

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


class Extreme(Random):
    """Draws the end of each range that ``share`` says, 0 or 1."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self._share = share

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self._share


def test_pauses_grow_up_to_a_limit_and_differ_from_sender_to_sender() -> None:
    rules = sync_rules(ProducerConfig())
    for share, least in ((0, 0.5), (1, 1.0)):
        pauses = [rules.pause_s(made, Extreme(share)) for made in (0, 1, 2, 3, 4, 5, 10**6)]
        assert pauses == pytest.approx([least * each for each in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0)])


@pytest.mark.parametrize(
    ("config", "counts"),
    [(ProducerConfig(), False), (ProducerConfig(retry_pause_max=0), True)],
)
def test_attempts_that_never_left_count_where_there_are_no_pauses_or_no_retries(
    config: ProducerConfig, counts: bool
) -> None:
    for rules in (sync_rules(config), async_rules(config)):
        assert rules.counts_unsent is counts
        assert one_attempt(rules).counts_unsent
