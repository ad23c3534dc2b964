"""Settings that every client has, with RocketMQ's defaults.

Compatibility: ``ClientConfig`` and ``DefaultMQProducer`` (4.9.8); client.md 1 and 3.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import attrs

from rocketpy.errors import ClientError

NO_NAME_SERVER = 10004
DEFAULT_NAME_SERVER = "127.0.0.1:9876"


def _addresses(value: str | Sequence[str]) -> tuple[str, ...]:
    parts = value.split(";") if isinstance(value, str) else list(value)
    addresses = tuple(part.strip().rpartition("/")[2] for part in parts if part.strip())
    if not addresses:
        raise ClientError(NO_NAME_SERVER, "No name server address, please set it.")
    return addresses


@attrs.frozen(kw_only=True)
class ClientConfig:
    """How a client finds its cluster and how patient it is. Times in milliseconds.

    ``name_servers`` is a list or RocketMQ's own ``host:port;host:port``.
    """

    name_servers: tuple[str, ...] = attrs.field(converter=_addresses)
    instance_name: str = "DEFAULT"
    poll_name_server_interval: int = 30_000
    heartbeat_broker_interval: int = 30_000
    mq_client_api_timeout: int = 3_000
    send_msg_timeout: int = 3_000
    retry_times_when_send_failed: int = 2
    compress_msg_body_over_howmuch: int = 4_096
    max_message_size: int = 4 * 1024 * 1024
    default_topic_queue_nums: int = 4
    create_topic_key: str = "TBW102"
    pull_suspend_timeout: int = 20_000
    pull_timeout: int = 30_000


def name_servers_from(environment: Mapping[str, str] | None = None) -> str:
    """Return the nameservers of the environment (``NAMESRV_ADDR``), else the one a laptop runs."""
    found = (os.environ if environment is None else environment).get("NAMESRV_ADDR", "")
    return found or DEFAULT_NAME_SERVER
