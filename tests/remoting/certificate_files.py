"""The certificates of the tests of TLS, and settings with them."""

from __future__ import annotations

from pathlib import Path

import attrs

from rocketpy.remoting.config import TlsClientConfig, TlsServerConfig

CERTIFICATES = Path(__file__).parent / "certificates"
PASSWORD = "secret"


def crt(name: str) -> str:
    return str(CERTIFICATES / f"{name}.crt")


def key(name: str) -> str:
    return str(CERTIFICATES / f"{name}.key")


def server_config(name: str = "server", **changes: object) -> TlsServerConfig:
    """A server with a certificate of the tests' authority."""
    config = TlsServerConfig(test_mode_enable=False, cert_path=crt(name), key_path=key(name))
    return attrs.evolve(config, **changes)  # type: ignore[arg-type]


def client_config(**changes: object) -> TlsClientConfig:
    """A client that trusts the tests' authority only."""
    config = TlsClientConfig(test_mode_enable=False, auth_server=True, trust_cert_path=crt("authority"))
    return attrs.evolve(config, **changes)  # type: ignore[arg-type]
