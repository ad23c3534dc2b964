"""TLS of running processes: certificates that are replaced, and starts that are refused because of one."""

from __future__ import annotations

import shutil
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.blackbox import processes
from tests.blackbox.ports import free_ports
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.remoting.certificate_files import crt, key

pytestmark = pytest.mark.blackbox


def shown_by(address: str) -> str:
    """The name in the certificate that a server shows."""
    context = ssl.create_default_context(cafile=crt("authority"))
    context.check_hostname = False
    host, port = address.split(":")
    with (
        socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as plain,
        context.wrap_socket(plain) as stream,
    ):
        certificate = stream.getpeercert()
    assert certificate is not None
    return str(dict(pair for (pair,) in certificate["subject"])["commonName"])  # type: ignore[misc]


def put(directory: Path, name: str) -> None:
    shutil.copy(crt(name), directory / "now.crt")
    shutil.copy(key(name), directory / "now.key")


def replace(directory: Path, name: str, addresses: Iterable[str]) -> None:
    """Put another certificate there and wait until every server shows it: how soon, is tried with a mock clock."""
    put(directory, name)
    wait_until(
        lambda: {shown_by(address) for address in addresses} == {f"tests {name}"},
        lambda: f"not every server shows the certificate {name}",
    )


def tls_settings(directory: Path) -> dict[str, object]:
    return {
        "tls.test.mode.enable": "false",
        "tls.server.certPath": directory / "now.crt",
        "tls.server.keyPath": directory / "now.key",
    }


def test_a_new_certificate_is_shown_on_every_port(tmp_path: Path) -> None:
    first = free_ports(8)
    namesrv, broker, vip = (f"127.0.0.1:{port}" for port in (first, first + 5, first + 3))
    put(tmp_path, "server")
    running = [processes.start_nameserver(tmp_path, first, tls_settings(tmp_path))]
    try:
        settings = {**processes.broker_settings(tmp_path, first + 5, namesrv), **tls_settings(tmp_path)}
        running.append(processes.start_broker(tmp_path, settings))
        processes.await_brokers(namesrv, {"broker-0"}, running)
        assert {shown_by(address) for address in (namesrv, broker, vip)} == {"tests server"}
        replace(tmp_path, "server-2", (namesrv, broker, vip))
        assert "loaded the certificate for TLS again" in running[1].log()
    finally:
        assert [process.terminate() for process in reversed(running)] == [0] * len(running)
