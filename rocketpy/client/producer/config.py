"""Settings of a producer, with RocketMQ's defaults.

Compatibility: ``DefaultMQProducer`` (4.9.8).
"""

from __future__ import annotations

import attrs

from rocketpy.protocol.topic_name import AUTO_CREATE_TOPIC_KEY_TOPIC


@attrs.frozen(kw_only=True)
class ProducerConfig:
    """Times in milliseconds, sizes in bytes.

    With ``retry_another_broker_when_not_store_ok`` a message that is stored, but with another status than SEND_OK, is
    sent to another broker too, and may be consumed twice.
    """

    send_msg_timeout: int = 3_000
    retry_times_when_send_failed: int = 2
    retry_another_broker_when_not_store_ok: bool = False
    compress_msg_body_over_howmuch: int = 4_096
    max_message_size: int = 4 * 1024 * 1024
    default_topic_queue_nums: int = 4
    create_topic_key: str = AUTO_CREATE_TOPIC_KEY_TOPIC
