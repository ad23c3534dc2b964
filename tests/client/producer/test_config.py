"""The defaults of a producer are RocketMQ's."""

from __future__ import annotations

import pytest

from rocketpy.client.producer.config import ProducerConfig
from rocketpy.errors import ClientError


def test_the_defaults_are_rocketmqs() -> None:
    config = ProducerConfig()
    assert (config.send_msg_timeout, config.retry_times_when_send_failed) == (3_000, 2)
    assert (config.compress_msg_body_over_howmuch, config.max_message_size) == (4_096, 4_194_304)
    assert (config.create_topic_key, config.default_topic_queue_nums) == ("TBW102", 4)
    assert config.retry_another_broker_when_not_store_ok is False


@pytest.mark.parametrize(("latencies", "durations"), [((50, 100), (0,)), ((100, 50), (0, 1))])
def test_latencies_ascend_and_each_has_a_duration(latencies: tuple[int, ...], durations: tuple[int, ...]) -> None:
    with pytest.raises(ClientError, match="expected ascending latencyMax"):
        ProducerConfig(latency_max=latencies, not_available_duration=durations)
