"""Settings of a producer, with RocketMQ's defaults.

Compatibility: ``DefaultMQProducer`` (4.9.8). ``send_attempt_timeout`` and ``retry_pause_max`` are ours; the limits of
``send_nowait`` have the names of RocketMQ 5, whose clients limit the bytes to 100 MiB.
"""

from __future__ import annotations

import attrs

from rocketpy.client.producer.broker_health import LATENCY_MAX_MS, NOT_AVAILABLE_DURATION_MS
from rocketpy.client.validators import UNSPECIFIED
from rocketpy.errors import ClientError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.compression import DEFAULT_LEVEL, CompressionType
from rocketpy.protocol.topic_name import AUTO_CREATE_TOPIC_KEY_TOPIC

RETRY_RESPONSE_CODES = frozenset(
    (
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    )
)
"""Refusals that mean "another broker may do it". SYSTEM_BUSY is none of them."""


@attrs.frozen(kw_only=True)
class ProducerConfig:
    """Times in milliseconds, sizes in bytes.

    ``send_msg_timeout`` is the time of a whole send. ``send_attempt_timeout`` limits each attempt but the last; without
    it the time left is shared equally among the attempts left, if the topic has another broker.

    Between attempts there are pauses of up to ``retry_pause_max``, once all brokers of the topic were tried; 0 is none,
    as in Java. The rules are in :mod:`rocketpy.client.producer.retry_rules`.

    With ``retry_another_broker_when_not_store_ok`` a message that is stored, but with another status than SEND_OK, is
    sent to another broker too, and may be consumed twice. ``retry_response_codes`` are the refusals after which another
    broker is tried; they and this setting count for ``send``, not for ``send_nowait``.

    With ``send_latency_fault_enable`` brokers that are slow or fail are avoided for a while: one whose answer takes
    ``latency_max[i]`` or longer for ``not_available_duration[i]``.

    With ``enable_msg_trace`` a record of each message that is stored goes to RMQ_SYS_TRACE_TOPIC, or to
    ``customized_trace_topic``; :meth:`MessageAdmin.trace` reads them.

    ``back_pressure_for_async_send_num`` and ``back_pressure_for_async_send_size`` limit the messages, and the bytes of
    their bodies, that ``send_nowait`` has in flight.
    """

    send_msg_timeout: int = 3_000
    send_attempt_timeout: int | None = None
    retry_times_when_send_failed: int = 2
    retry_times_when_send_async_failed: int = 2
    retry_pause_max: int = attrs.field(default=1_000, validator=attrs.validators.ge(0))
    retry_another_broker_when_not_store_ok: bool = False
    retry_response_codes: frozenset[int] = attrs.field(default=RETRY_RESPONSE_CODES, converter=frozenset)
    send_latency_fault_enable: bool = False
    latency_max: tuple[int, ...] = attrs.field(default=LATENCY_MAX_MS, converter=tuple)
    not_available_duration: tuple[int, ...] = attrs.field(default=NOT_AVAILABLE_DURATION_MS, converter=tuple)
    back_pressure_for_async_send_num: int = attrs.field(default=10_000, validator=attrs.validators.ge(1))
    back_pressure_for_async_send_size: int = attrs.field(default=16 << 20, validator=attrs.validators.ge(1))
    compress_msg_body_over_howmuch: int = 4_096
    compress_level: int = DEFAULT_LEVEL
    compress_type: CompressionType = CompressionType.ZLIB
    max_message_size: int = 4 * 1024 * 1024
    enable_msg_trace: bool = False
    customized_trace_topic: str = ""
    default_topic_queue_nums: int = 4
    create_topic_key: str = AUTO_CREATE_TOPIC_KEY_TOPIC

    @not_available_duration.validator
    def _check_durations(self, _: object, value: tuple[int, ...]) -> None:
        if len(value) != len(self.latency_max) or list(self.latency_max) != sorted(self.latency_max):
            raise ClientError(
                UNSPECIFIED,
                f"expected ascending latencyMax with a notAvailableDuration for each, found {self.latency_max} "
                f"and {value}",
            )
