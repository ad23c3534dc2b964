"""Settings of the remoting layer, with RocketMQ's keys where it has one.

Compatibility: ``NettyServerConfig`` and ``NettyClientConfig`` of 4.9.8. Thread counts and pooled buffers have no effect
in one Trio thread: their keys are accepted with a warning. Limits that Netty does not have are keys of our own.
"""

from __future__ import annotations

import enum

import attrs

from rocketpy.settings import Between, OneOf, setting

_ONE_THREAD = "one Trio thread serves every connection"

IDLE_SWEEP_SECONDS = 10.0


class TlsMode(enum.Enum):
    """Whether a server accepts plain connections, TLS or both. Compatibility: ``TlsMode`` (4.9.8)."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ClientAuth(enum.Enum):
    """Whether a server asks clients for a certificate. Compatibility: Netty's ``ClientAuth``."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


@attrs.frozen(kw_only=True)
class ConnectionLimits:
    """Limits on the memory and requests of one connection. Sizes in bytes."""

    outgoing_bytes_pause: int = 1 << 20
    """High watermark: above this many unread reply bytes the peer's requests are no longer read."""
    outgoing_bytes_max: int = 64 << 20
    """Above this many the connection is closed; only deferred replies can get past the high watermark."""
    deferred_replies_max: int = 65_536
    requests_in_flight_max: int = 65_535


@attrs.frozen(kw_only=True)
class NettyServerConfig:
    """Settings of the server side of a broker or nameserver."""

    listen_port: int = setting(8888, unit="port", validator=Between(0, 65_535), important=True, fixed=True)
    bind_address: str = setting(
        "", expected="an address to listen on; empty: every address", important=True, fixed=True
    )
    server_channel_max_idle_time_seconds: int = setting(120, unit="s", validator=Between(1))
    server_socket_backlog: int = setting(1024, unit="connections", validator=Between(1, (1 << 31) - 1))
    server_socket_snd_buf_size: int = setting(0, unit="bytes", validator=Between(0, (1 << 31) - 1))
    server_socket_rcv_buf_size: int = setting(0, unit="bytes", validator=Between(0, (1 << 31) - 1))
    server_oneway_semaphore_value: int = setting(256, ignored="the outgoing buffer of a connection is bounded instead")
    server_async_semaphore_value: int = setting(64, ignored="requests in flight are bounded per connection instead")
    write_buffer_high_water_mark: int = setting(0, unit="bytes", validator=Between(0))
    write_buffer_low_water_mark: int = setting(0, ignored="reading resumes below the high mark")
    server_worker_threads: int = setting(8, ignored=_ONE_THREAD)
    server_callback_executor_threads: int = setting(0, ignored=_ONE_THREAD)
    server_selector_threads: int = setting(3, ignored=_ONE_THREAD)
    server_pooled_byte_buf_allocator_enable: bool = setting(True, ignored="Python allocates")
    use_epoll_native_selector: bool = setting(False, ignored="epoll is used where the platform has it")
    connections_max: int = setting(10_000, unit="connections", validator=Between(1))
    """Over all listeners of a program; less where the limit of open files allows less."""
    connections_per_address_max: int = setting(9_000, unit="connections", validator=Between(1))
    """Share of one address; never more than nine tenths of ``connections_max``."""
    connection_first_frame_seconds: int = setting(60, unit="s", validator=Between(1))
    """Deadline for the first whole frame, after which the connection is closed: clients connect to send a request."""
    connection_frame_seconds: int = setting(300, unit="s", validator=Between(1))
    """Deadline for a frame that has begun, after which the connection is closed: 16 MiB at half a megabit a second."""
    connection_deferred_replies_max: int = setting(65_536, unit="replies", validator=Between(1))
    connection_outgoing_bytes_max: int = setting(64 << 20, unit="bytes", validator=Between(16_384))
    incoming_bytes_max: int = setting(256 << 20, unit="bytes", validator=Between(65_536))
    """Limit on unfinished frames over all connections; above it the connection that holds most is closed."""
    outgoing_bytes_max: int = setting(256 << 20, unit="bytes", validator=Between(65_536))
    """Limit on unread replies over all connections; above it the connection that holds most is closed."""

    def limits(self) -> ConnectionLimits:
        """Return the limits per connection that follow from these settings."""
        return ConnectionLimits(
            outgoing_bytes_pause=self.write_buffer_high_water_mark or (1 << 20),
            outgoing_bytes_max=self.connection_outgoing_bytes_max,
            deferred_replies_max=self.connection_deferred_replies_max,
        )


@attrs.frozen(kw_only=True)
class NettyClientConfig:
    """Settings of the client side: broker registration, replication, producers and consumers."""

    connect_timeout_millis: int = setting(3000, unit="ms", validator=Between(1))
    client_channel_max_idle_time_seconds: int = setting(120, unit="s", validator=Between(1))
    client_close_socket_if_timeout: bool = setting(True)
    use_tls: bool | None = setting(None, key="useTLS", expected="true or false; empty: as tls.enable says", fixed=True)
    client_oneway_semaphore_value: int = setting(
        65_535, ignored="oneway requests have no limit of their own; the buffer of a connection is bounded instead"
    )
    client_async_semaphore_value: int = setting(65_535, unit="requests", validator=Between(1))
    client_socket_snd_buf_size: int = setting(0, unit="bytes", validator=Between(0, (1 << 31) - 1))
    client_socket_rcv_buf_size: int = setting(0, unit="bytes", validator=Between(0, (1 << 31) - 1))
    client_worker_threads: int = setting(4, ignored=_ONE_THREAD)
    client_callback_executor_threads: int = setting(0, ignored=_ONE_THREAD)
    client_pooled_byte_buf_allocator_enable: bool = setting(False, ignored="Python allocates")
    channel_not_active_interval: int = setting(60_000, ignored="RocketMQ does not use it either")

    def limits(self) -> ConnectionLimits:
        """Return the limits per connection that follow from these settings."""
        return ConnectionLimits(requests_in_flight_max=self.client_async_semaphore_value)


@attrs.frozen(kw_only=True)
class TlsServerConfig:
    """TLS settings of the server side. Files are PEM. None of them can be changed by request.

    Compatibility: ``TlsSystemConfig`` (4.9.8), which reads Java system properties and ``tls.config.file``; here the
    keys are in the file given with -c and in ``tls.config.file``. An unknown mode is an error, not permissive.
    """

    server_mode: str = setting(
        "permissive", key="tls.server.mode", validator=OneOf(*(each.value for each in TlsMode)), fixed=True
    )
    test_mode_enable: bool = setting(True, key="tls.test.mode.enable", fixed=True)
    config_file: str = setting("", key="tls.config.file", expected="a file name", fixed=True)
    key_path: str = setting("", key="tls.server.keyPath", expected="a file name", fixed=True)
    key_password: str = setting("", key="tls.server.keyPassword", fixed=True)
    cert_path: str = setting("", key="tls.server.certPath", expected="a file name", fixed=True)
    need_client_auth: str = setting(
        "none",
        key="tls.server.need.client.auth",
        validator=OneOf(*(each.value for each in ClientAuth), ignore_case=True),
        fixed=True,
    )
    auth_client: bool = setting(False, key="tls.server.authClient", fixed=True)
    trust_cert_path: str = setting("", key="tls.server.trustCertPath", expected="a file name", fixed=True)

    @property
    def mode(self) -> TlsMode:
        """``tls.server.mode`` as a value."""
        return TlsMode(self.server_mode)

    @property
    def client_auth(self) -> ClientAuth:
        """``tls.server.need.client.auth`` as a value."""
        return ClientAuth(self.need_client_auth.lower())


@attrs.frozen(kw_only=True)
class TlsClientConfig:
    """TLS settings of the client side. Host names are never checked, as in RocketMQ."""

    enable: bool | None = setting(
        None, key="tls.enable", expected="true or false; empty: true if tls.server.mode is enforcing", fixed=True
    )
    test_mode_enable: bool = setting(True, key="tls.test.mode.enable", fixed=True)
    config_file: str = setting("", key="tls.config.file", expected="a file name", fixed=True)
    key_path: str = setting("", key="tls.client.keyPath", expected="a file name", fixed=True)
    key_password: str = setting("", key="tls.client.keyPassword", fixed=True)
    cert_path: str = setting("", key="tls.client.certPath", expected="a file name", fixed=True)
    auth_server: bool = setting(False, key="tls.client.authServer", fixed=True)
    trust_cert_path: str = setting("", key="tls.client.trustCertPath", expected="a file name", fixed=True)
