"""What settings of consumers are refused, and how often a message is retried."""

from __future__ import annotations

import pytest

from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.errors import ClientError


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("pull_batch_size", 1025, r"pullBatchSize Out of range \[1, 1024\], found 1025"),
        ("consume_message_batch_max_size", 0, "consumeMessageBatchMaxSize Out of range"),
        ("pull_threshold_for_topic", 0, "pullThresholdForTopic Out of range"),
    ],
)
def test_a_setting_out_of_range_is_refused_in_the_words_of_java(name: str, value: int, text: str) -> None:
    with pytest.raises(ClientError, match=text):
        ConsumerConfig(**{name: value})  # type: ignore[arg-type]


def test_retries_are_sixteen_but_for_orderly_consumers_without_end() -> None:
    assert ConsumerConfig().reconsume_times_max(is_orderly=False) == 16
    assert ConsumerConfig().reconsume_times_max(is_orderly=True) == 2**31 - 1
    assert ConsumerConfig(max_reconsume_times=3).reconsume_times_max(is_orderly=True) == 3
