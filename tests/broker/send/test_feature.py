"""The send side as a whole: its codes, and what its settings change, also while it runs."""

from __future__ import annotations

import pytest

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.send.feature import LIVE_KEYS
from rocketpy.protocol.codes import ResponseCode
from rocketpy.settings import setting_rows
from tests.broker.message_broker import MessageBroker, open_message_broker, send


def change(broker: MessageBroker, **settings: object) -> None:
    """Change settings as a request does, and tell the send feature."""
    for name, value in settings.items():
        object.__setattr__(broker.tables.config, name, value)
    broker.send_feature.settings_changed()


@pytest.mark.parametrize("has_kernels", [False, True])
async def test_producers_get_the_present_value_of_trace_on(has_kernels: bool) -> None:
    async with open_message_broker(has_kernels=has_kernels) as broker:
        for trace_on in (True, False, True):
            change(broker, trace_on=trace_on)
            for request in (send(), send(topic="")):
                answer = await broker.ask(request)
                assert (answer.ext_fields or {})["TRACE_ON"] == ("true" if trace_on else "false")
        assert broker.send_path.taken == [True, False] * 3


async def test_a_permission_counts_at_once(broker: MessageBroker) -> None:
    broker.add_topic(order=True)
    assert (await broker.ask(send())).code == ResponseCode.SUCCESS
    change(broker, broker_permission=4)
    assert (await broker.ask(send())).code == ResponseCode.NO_PERMISSION
    change(broker, broker_permission=6)
    assert (await broker.ask(send())).code == ResponseCode.SUCCESS
    change(broker, start_accept_send_request_time_stamp=broker.tables.clock.timestamp_ms() + 1)
    assert (await broker.ask(send())).code == ResponseCode.SYSTEM_ERROR


def test_a_setting_that_it_caches_has_a_listener() -> None:
    rows = {row.key: row for row in setting_rows(BrokerConfig)}
    assert all(rows[key].live for key in LIVE_KEYS)


@pytest.mark.parametrize("is_enabled", [True, False])
async def test_fast_failure_can_be_switched_off(is_enabled: bool) -> None:
    async with open_message_broker(broker_fast_failure_enable=is_enabled) as broker:
        feature = broker.send_feature
        assert feature.services == ((feature.fast_failure,) if is_enabled else ())
