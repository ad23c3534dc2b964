"""Effective settings at start, merged from file, command line and machine, and validated.

Without ``-c`` the broker serves one machine: loopback, small files, an embedded nameserver. With ``-c`` it follows
RocketMQ: every address, RocketMQ's file sizes, the nameservers that the file names.

Compatibility: ``BrokerStartup.createBrokerController`` (4.9.8): the HA port is the listening port plus one; what holds
for the role is in :mod:`.role_settings`. DLedger, which is not supported, is refused, not ignored.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import TypeVar

import attrs

from rocketpy.broker.config import BROKER_PORT, BrokerConfig
from rocketpy.broker.live_settings import LiveSettings
from rocketpy.broker.role_settings import check_role, own_broker_id, role_warnings
from rocketpy.clock import Clock
from rocketpy.errors import RemotingConnectError, SettingsError
from rocketpy.protocol.selector.bloom import BloomFilter
from rocketpy.remoting.config import NettyClientConfig, NettyServerConfig, TlsClientConfig, TlsMode, TlsServerConfig
from rocketpy.remoting.local_address import interface_address, local_host_name
from rocketpy.remoting.network import split_address
from rocketpy.remoting.tls.contexts import client_context, config_file_places, with_config_file
from rocketpy.runner import RunBlocking
from rocketpy.settings import load_settings, located
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk.interface import Disk

LOOPBACK = "127.0.0.1"
NAMESRV_PORT = 9876
PORT_MAX = 65_534
"""The highest listening port: the port for slaves is one above it."""

VIP_PORT_STEP = 2
"""Distance of the VIP port below the listening port. It serves all requests except pulls."""

HA_PORT_STEP = 1
"""Distance of the port for slaves above the listening port."""

TLS_SETTINGS = (TlsServerConfig, TlsClientConfig)
"""TLS settings in the same file. They contain paths and passwords: never printed or returned by a request."""

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class StartOptions:
    """Options of the command line, and NAMESRV_ADDR of the environment."""

    config_file: str | None = None
    namesrv_addr: str | None = None
    environment_namesrv_addr: str | None = None
    store_path: str | None = None
    port: int | None = None
    namesrv_port: int | None = None  # of the embedded nameserver
    log_directory: str | None = None


@attrs.frozen(kw_only=True)
class BrokerSettings:
    """All settings of a broker."""

    broker: BrokerConfig
    server: NettyServerConfig
    client: NettyClientConfig
    store: MessageStoreConfig
    tls_server: TlsServerConfig = attrs.field(factory=TlsServerConfig)  # these two are neither printed nor changed
    tls_client: TlsClientConfig = attrs.field(factory=TlsClientConfig)
    host: str | None  # the address to listen on, None for every address
    embeds_nameserver: bool
    config_file: str = ""  # where changes by request are written; empty: broker.properties in the store's config
    unknown: dict[str, str] = attrs.field(factory=dict)  # unused keys of the file
    warnings: tuple[str, ...] = ()
    places: dict[str, str] = attrs.field(factory=dict)  # by key: the file and line that set it

    @property
    def values(self) -> tuple[object, ...]:
        """The settings classes, in the order in which ``-p`` prints them."""
        return (self.broker, self.server, self.client, self.store)

    @property
    def config_path(self) -> str:
        """The file to which changes by request are written."""
        return self.config_file or os.path.join(self.store.root, "config", "broker.properties")

    def live(self, *, disk: Disk, run_blocking: RunBlocking, clock: Clock) -> LiveSettings:
        """Return the live settings, which requests may change while the broker runs."""
        return LiveSettings(
            self.values,
            path=self.config_path,
            unknown=self.unknown,
            check=self.check_values,
            disk=disk,
            run_blocking=run_blocking,
            clock=clock,
        )

    def check_values(self, values: Sequence[object]) -> None:
        """Raise SettingsError if a broker could not start with these instead of :attr:`values`."""
        broker, server, client, store = values
        assert isinstance(broker, BrokerConfig)
        assert isinstance(server, NettyServerConfig)
        assert isinstance(client, NettyClientConfig)
        assert isinstance(store, MessageStoreConfig)
        _check(attrs.evolve(self, broker=broker, server=server, client=client, store=store))


def default_settings() -> tuple[BrokerConfig, NettyServerConfig, NettyClientConfig, MessageStoreConfig]:
    """Return the defaults with ``-c``: RocketMQ's, with the broker's port."""
    return BrokerConfig(), NettyServerConfig(listen_port=BROKER_PORT), NettyClientConfig(), MessageStoreConfig()


def laptop_store() -> MessageStoreConfig:
    """Return the store settings without ``-c``: 64 MiB CommitLog files and index files of 33 MB, sparse.

    A laptop's disk may be nearly full of other files: messages are accepted all the same, and none is deleted before
    its retention time.
    """
    return MessageStoreConfig(
        store_path_root_dir="./store",
        mapped_file_size_commit_log=64 << 20,
        max_hash_slot_num=250_000,
        max_index_num=1_600_000,
        disk_space_warning_level_ratio=98,
        clean_file_forcibly_enable=False,
    )


def load_broker_settings(
    options: StartOptions, *, own_defaults: tuple[BrokerConfig, MessageStoreConfig] | None = None
) -> BrokerSettings:
    """Load, merge and validate all settings; SettingsError names the fault and its source.

    ``own_defaults`` are those of a program that starts several brokers without files.
    """
    broker, server, client, store = default_settings()
    if options.config_file is None:
        store = laptop_store()
    if own_defaults is not None:
        broker, store = own_defaults
    loaded = load_settings(
        options.config_file or _changed_by_request(options), broker, server, client, store, *TLS_SETTINGS
    )
    settings = BrokerSettings(
        broker=_with(loaded.of(BrokerConfig), log_directory=options.log_directory),
        server=_with(loaded.of(NettyServerConfig), listen_port=options.port),
        client=loaded.of(NettyClientConfig),
        store=_with(loaded.of(MessageStoreConfig), store_path_root_dir=options.store_path),
        tls_server=loaded.of(TlsServerConfig),
        tls_client=loaded.of(TlsClientConfig),
        host=loaded.of(NettyServerConfig).bind_address or (None if options.config_file else LOOPBACK),
        embeds_nameserver=False,
        config_file=os.path.realpath(options.config_file) if options.config_file else "",
        unknown=loaded.unknown,
        warnings=loaded.warnings,
        places={key: place for key, place in loaded.places.items() if key not in _overridden(options)},
    )
    settings = attrs.evolve(settings, places=settings.places | config_file_places(settings.tls_server))
    try:
        _check(settings)
        return _completed(_with_tls(settings), options)
    except SettingsError as failure:
        raise SettingsError(located(str(failure), settings.places)) from failure


def _overridden(options: StartOptions) -> set[str]:
    """Return the keys of a file that the command line sets."""
    given = {
        "namesrvAddr": options.namesrv_addr,
        "listenPort": options.port,
        "storePathRootDir": options.store_path,
        "logDirectory": options.log_directory,
    }
    return {key for key, value in given.items() if value is not None}


def embedded_nameserver(options: StartOptions) -> str:
    """Return the address of the nameserver that runs in this process, where none is named."""
    return f"{LOOPBACK}:{NAMESRV_PORT if options.namesrv_port is None else options.namesrv_port}"


def check_namesrv_port(options: StartOptions, *, embeds_nameserver: bool) -> None:
    """Raise SettingsError for a port of a nameserver that does not run here."""
    if options.namesrv_port is not None and not embeds_nameserver:
        raise SettingsError(
            f"--namesrv-port {options.namesrv_port}: no nameserver runs in this process, because one is named or -c is "
            "given"
        )


def _changed_by_request(options: StartOptions) -> str | None:
    """Return the file with changes by request, for a broker started without ``-c``; None before the first change."""
    root = os.path.expanduser(options.store_path or laptop_store().store_path_root_dir)
    path = os.path.join(root, "config", "broker.properties")
    return path if os.path.exists(path) else None


def resolved_host(address: str) -> str:
    """Resolve a host name or address to a numeric address; SettingsError when that fails."""
    try:
        found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
    except OSError as failure:
        raise SettingsError(f"brokerIP1 = {address!r}: expected an address or a known host name") from failure
    return str(found[0][4][0])


def _completed(settings: BrokerSettings, options: StartOptions) -> BrokerSettings:
    """Fill in missing settings: as RocketMQ does with ``-c``, for a single machine without."""
    broker = settings.broker
    warnings = list(settings.warnings)
    namesrv = options.namesrv_addr or broker.namesrv_addr or options.environment_namesrv_addr or ""
    embeds_nameserver = not namesrv and options.config_file is None
    check_namesrv_port(options, embeds_nameserver=embeds_nameserver)
    if embeds_nameserver:
        namesrv = embedded_nameserver(options)
    if not namesrv:
        warnings.append("namesrvAddr is not set: this broker registers with no nameserver, clients need its address")
    warnings += role_warnings(attrs.evolve(broker, namesrv_addr=namesrv), settings.store)
    if options.config_file is not None and settings.host in (None, "0.0.0.0", "::") and not broker.acl_enable:
        warnings.append(
            f"listening on every address, port {settings.server.listen_port}, without access control: "
            "any host that reaches it may read and write everything (restrict it with bindAddress)"
        )
    own_address = LOOPBACK if options.config_file is None else ""
    broker_ip1 = broker.broker_ip1 or own_address or interface_address()
    completed = attrs.evolve(
        broker,
        namesrv_addr=namesrv,
        broker_id=own_broker_id(broker, settings.store),
        broker_name=broker.broker_name or local_host_name(),
        broker_ip1=broker_ip1,
        broker_ip2=broker.broker_ip2 or own_address or interface_address(),
    )
    _check_namesrv(completed)
    resolved_host(broker_ip1)
    return attrs.evolve(
        settings,
        broker=completed,
        client=_client_as_shown(settings),
        store=attrs.evolve(
            settings.store,
            ha_listen_port=settings.server.listen_port + HA_PORT_STEP,
            bit_map_length_consume_queue_ext=_bit_map_length(broker),
        ),
        embeds_nameserver=embeds_nameserver,
        warnings=tuple(warnings),
    )


def _client_as_shown(settings: BrokerSettings) -> NettyClientConfig:
    """Fill in the client threads from the machine as Java does: ``mqadmin exportMetrics`` reports them as CPUs."""
    client = settings.client
    return attrs.evolve(
        client,
        use_tls=bool(settings.tls_client.enable) if client.use_tls is None else client.use_tls,
        client_callback_executor_threads=client.client_callback_executor_threads or _processor_count(),
    )


def _processor_count() -> int:
    """Return the number of processors available to this process, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):  # Linux only
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _bit_map_length(broker: BrokerConfig) -> int:
    """Return the number of bits of a filter's bit map, which RocketMQ writes into the store's settings at start."""
    return BloomFilter(broker.max_error_rate_of_bloom_filter, broker.expect_consumer_num_use_filter).bit_count


def _with_tls(settings: BrokerSettings) -> BrokerSettings:
    """Complete the TLS settings; SettingsError names an invalid file of the client side.

    Compatibility: ``BrokerStartup`` (4.9.8): a broker that accepts only TLS also connects with TLS by default.
    """
    server, client, warnings = with_config_file(settings.tls_server, settings.tls_client)
    if client.enable is None:
        client = attrs.evolve(client, enable=server.mode is TlsMode.ENFORCING)
    if client.enable if settings.client.use_tls is None else settings.client.use_tls:
        client_context(client)
    return attrs.evolve(settings, tls_server=server, tls_client=client, warnings=settings.warnings + warnings)


def _check(settings: BrokerSettings) -> None:
    """Refuse settings of unsupported features: accepting them would be misleading."""
    store = settings.store
    check_role(settings.broker, store)
    if store.enable_d_leger_commit_log:
        raise SettingsError("enableDLegerCommitLog = 'true': expected false, DLedger is not supported")
    port = settings.server.listen_port
    if not 0 <= port <= PORT_MAX:
        raise SettingsError(
            f"listenPort = {port}: expected a port from 0 (any) to {PORT_MAX}, the HA port is one above"
        )


def _check_namesrv(broker: BrokerConfig) -> None:
    for address in broker.namesrv_addresses:
        try:
            split_address(address)
        except RemotingConnectError as failure:
            raise SettingsError(
                f"namesrvAddr = {broker.namesrv_addr!r}: expected HOST:PORT, several separated by ;, found {address!r}"
            ) from failure


def _with(settings: T, **changes: object) -> T:
    """Return the settings with all changes that are not None."""
    return attrs.evolve(settings, **{key: each for key, each in changes.items() if each is not None})  # type: ignore[misc]
