"""Each number that a setting may be leaves a program that serves: a request may set it, and the next start has it."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.broker.config import BrokerConfig
from rocketpy.nameserver.config import NamesrvConfig
from rocketpy.remoting.config import NettyClientConfig, NettyServerConfig
from rocketpy.store.config import MessageStoreConfig

CLASSES = (BrokerConfig, MessageStoreConfig, NamesrvConfig, NettyServerConfig, NettyClientConfig)
ANY_NUMBER = {
    "broker_id": "a master has 0, and the check of the role refuses that of a slave",
    "register_name_server_period": "brought into its range, as in RocketMQ",
    "sync_flush_timeout": "negative: every answer is a timeout",
    "disk_max_used_space_ratio": "brought into its range, as in RocketMQ",
}
NUMBERS = ("int", "float", "int | None", "float | None")


def test_every_number_that_counts_has_a_range() -> None:
    without = {
        each.name
        for settings_class in CLASSES
        for each in attrs.fields(settings_class)
        if str(each.type) in NUMBERS and each.validator is None and not each.metadata["rocketpy.setting"].ignored
    }
    assert without == ANY_NUMBER.keys()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("connections_max", 0),
        ("connections_max", -7),
        ("connections_per_address_max", 0),
        ("write_buffer_high_water_mark", -1),
        ("connection_outgoing_bytes_max", 1),
        ("incoming_bytes_max", 0),
        ("outgoing_bytes_max", 0),
        ("server_channel_max_idle_time_seconds", 0),
        ("server_socket_rcv_buf_size", 1 << 31),
        ("server_socket_backlog", 1 << 31),
    ],
)
def test_what_would_leave_the_next_start_deaf_is_refused(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"^{field} is {value}, expected an integer"):
        NettyServerConfig(**{field: value})
