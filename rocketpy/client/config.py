"""Settings common to all clients, with RocketMQ's defaults.

Compatibility: ``ClientConfig`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rocketpy.errors import NoNameServerError
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.remoting.config import TlsClientConfig

DEFAULT_NAME_SERVER = "127.0.0.1:9876"
DEFAULT_INSTANCE_NAME = "DEFAULT"
DEFAULT_ADMIN_TIMEOUT_MS = 5_000


def _addresses(value: str | Sequence[str]) -> tuple[str, ...]:
    """Split ``host:port;host:port``; of ``http://instance.region/host:port`` only the part after the last slash."""
    parts = value.split(";") if isinstance(value, str) else list(value)
    addresses = tuple(dict.fromkeys(part.strip().rpartition("/")[2] for part in parts if part.strip()))
    if not addresses:
        raise NoNameServerError("No name server address, please set it.")
    return addresses


@attrs.frozen(kw_only=True)
class ClientConfig:
    """Nameservers, timeouts, TLS and credentials of a client. Times in milliseconds.

    ``name_servers`` is a list or RocketMQ's own ``host:port;host:port``. Client ids are ``client_ip@instance_name``. By
    default ``client_ip`` is the address from which the machine reaches others; the default instance name is replaced by
    a unique one, any other must be unique.

    With ``use_tls`` every connection uses TLS with the settings ``tls``; by default any certificate is accepted, as in
    RocketMQ. Opening a client raises :class:`~rocketpy.errors.SettingsError` for an unusable certificate file.

    With ``vip_channel_enabled`` sends and queries use the brokers' second port, which serves no pulls. ``unit_name`` is
    appended to the client id, ``unit_mode`` marks what is sent.

    ``namespace`` is put before topics and groups, and removed from what comes back; without one it is that of an
    instance's nameserver (``MQ_INST_x_y.region...``).

    With ``credentials`` every request is signed, as a broker with ACL requires.
    """

    name_servers: tuple[str, ...] = attrs.field(converter=_addresses, default=DEFAULT_NAME_SERVER)
    client_ip: str = ""
    instance_name: str = DEFAULT_INSTANCE_NAME
    unit_name: str = ""
    unit_mode: bool = False
    namespace: str = ""
    vip_channel_enabled: bool = False
    poll_name_server_interval: int = 30_000
    heartbeat_broker_interval: int = 30_000
    mq_client_api_timeout: int = 3_000
    pull_time_delay_when_exception: int = 1_000
    use_tls: bool = False
    tls: TlsClientConfig = attrs.field(factory=TlsClientConfig)
    credentials: SessionCredentials | None = None


def client_config(name_servers: str | Sequence[str], config: ClientConfig | None) -> ClientConfig:
    """Return ``config``, or the defaults, for a client of these nameservers."""
    return attrs.evolve(config or ClientConfig(), name_servers=name_servers)
