"""How to reach a cluster: nameservers, account, TLS. A value that travels to the executors, and what it opens."""

from __future__ import annotations

import attrs

from rocketpy.errors import RemotingConnectError, SettingsError
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.spark.live.remoting import BlockingRemotingClient
from rocketpy.spark.live.tls import TlsFiles
from rocketpy.spark.options.connection import (
    NAME_SERVER,
    REQUEST_TIMEOUT_MS,
    TLS,
    TLS_CA_FILE,
    TLS_CERT_FILE,
    TLS_INSECURE,
    TLS_KEY_FILE,
    TLS_KEY_PASSWORD,
)
from rocketpy.spark.options.option import Option, OptionValues
from rocketpy.spark.options.read import credentials_of

_NEED_TLS: tuple[Option[object], ...] = (TLS_CA_FILE, TLS_INSECURE, TLS_CERT_FILE, TLS_KEY_FILE, TLS_KEY_PASSWORD)


@attrs.frozen(kw_only=True)
class ClusterAccess:
    """Nameservers of a cluster, and what every connection to it needs."""

    name_servers: tuple[str, ...]
    timeout_s: float = 10.0
    credentials: SessionCredentials | None = None  # requests are signed with them
    tls: TlsFiles | None = None

    def connect(self, address: str) -> BlockingRemotingClient:
        """Open a connection; see :class:`BlockingRemotingClient` for errors."""
        return BlockingRemotingClient(address, timeout_s=self.timeout_s, credentials=self.credentials, tls=self.tls)

    def connect_name_server(self, address: str) -> BlockingRemotingClient:
        """The same to a nameserver, which gets no signature before it has asked for one."""
        return BlockingRemotingClient(
            address, timeout_s=self.timeout_s, credentials=self.credentials, tls=self.tls, signs_when_asked=True
        )

    def connect_broker(self, broker_name: str, address: str, advertised_by: str) -> BlockingRemotingClient:
        """Open a connection to a broker; the error also says where the address comes from."""
        try:
            return self.connect(address)
        except RemotingConnectError as error:
            raise RemotingConnectError(
                f"{error} (the address of broker {broker_name} that nameserver {advertised_by} advertises, from "
                "brokerIP1 of the broker; driver and executors must reach it)"
            ) from error


def access_of(values: OptionValues) -> ClusterAccess:
    """Return the access that options describe; :class:`SettingsError` for half a description."""
    if not values[NAME_SERVER]:
        raise SettingsError("format rocketmq needs the option nameServer (host:port of the cluster), found none")
    return ClusterAccess(
        name_servers=values[NAME_SERVER],
        timeout_s=values[REQUEST_TIMEOUT_MS] / 1000,
        credentials=credentials_of(values),
        tls=tls_of(values),
    )


def tls_of(values: OptionValues) -> TlsFiles | None:
    """Return what the options say of TLS, None without it; :class:`SettingsError` for options without effect."""
    if not values[TLS]:
        for option in _NEED_TLS:
            if values.is_given(option):
                raise SettingsError(f"option {option.name} has no effect without tls=true")
        return None
    if values[TLS_INSECURE] and values[TLS_CA_FILE] is not None:
        raise SettingsError("the options tlsInsecure and tlsCaFile contradict each other, expected one of them")
    if values[TLS_KEY_FILE] is not None and values[TLS_CERT_FILE] is None:
        raise SettingsError("option tlsKeyFile also needs the option tlsCertFile")
    return TlsFiles(
        ca_file=values[TLS_CA_FILE],
        is_insecure=values[TLS_INSECURE],
        cert_file=values[TLS_CERT_FILE],
        key_file=values[TLS_KEY_FILE],
        key_password=values[TLS_KEY_PASSWORD],
    )
