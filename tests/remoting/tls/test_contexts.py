"""Contexts from settings: what is wrong is named, and what changes on disk counts for the next connection."""

from __future__ import annotations

import os
import shutil
import ssl
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from rocketpy.errors import SettingsError
from rocketpy.remoting.config import TlsClientConfig, TlsServerConfig
from rocketpy.remoting.tls.contexts import WATCH_SECONDS, ServerTls, client_context, server_context, with_config_file
from tests.remoting.certificate_files import PASSWORD, client_config, crt, key, server_config

RELOADED_SECONDS = 15.0
"""A certificate that is replaced is shown after so long at the latest."""


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Shake hands in memory; returns the client's side. Raises what either side raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = server.wrap_bio(to_server, to_client, server_side=True)
    client_side = client.wrap_bio(to_client, to_server)
    done = 0
    while done < 2:
        done = 0
        for side in (client_side, server_side):
            try:
                side.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                pass
    return client_side


def common_name(side: ssl.SSLObject) -> str:
    certificate = side.getpeercert()
    assert certificate is not None
    names = certificate["subject"]
    assert isinstance(names, tuple)
    return dict(pair for (pair,) in names)["commonName"]  # type: ignore[misc]


def test_a_client_that_authenticates_believes_its_trust_file_only() -> None:
    assert common_name(shake_hands(server_context(server_config()), client_context(client_config()))) == "tests server"
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server_context(server_config("stranger")), client_context(client_config()))


@pytest.mark.parametrize(
    "config", [TlsClientConfig(), client_config(auth_server=False), client_config(test_mode_enable=True)]
)
def test_a_client_that_does_not_authenticate_accepts_every_certificate(config: TlsClientConfig) -> None:
    for server in (server_config("stranger"), TlsServerConfig()):
        assert shake_hands(server_context(server), client_context(config)).version() == "TLSv1.3"


def test_a_required_client_certificate_must_be_present_and_trusted() -> None:
    server = server_context(
        server_config(need_client_auth="REQUIRE", auth_client=True, trust_cert_path=crt("authority"))
    )
    known = client_config(cert_path=crt("client"), key_path=key("client"))
    shake_hands(server, client_context(known))
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake_hands(server, client_context(client_config()))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client_context(client_config(cert_path=crt("stranger"), key_path=key("stranger"))))


def test_an_optional_client_certificate_may_be_missing_but_not_untrusted() -> None:
    server = server_context(
        server_config(need_client_auth="optional", auth_client=True, trust_cert_path=crt("authority"))
    )
    shake_hands(server, client_context(client_config()))
    shake_hands(server, client_context(client_config(cert_path=crt("client"), key_path=key("client"))))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client_context(client_config(cert_path=crt("stranger"), key_path=key("stranger"))))


def test_an_encrypted_key_is_opened_by_its_password() -> None:
    server = server_context(server_config("encrypted", key_password=PASSWORD))
    assert common_name(shake_hands(server, client_context(client_config()))) == "tests encrypted"
    mutual = server_context(
        server_config(need_client_auth="require", auth_client=True, trust_cert_path=crt("authority"))
    )
    client = client_config(cert_path=crt("encrypted"), key_path=key("encrypted"), key_password=PASSWORD)
    shake_hands(mutual, client_context(client))
    with pytest.raises(SettingsError, match=r"expected a key and that tls\.client\.keyPassword opens it$"):
        client_context(attrs.evolve(client, key_password="wrong"))


def test_chain_and_key_may_be_in_one_file(tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text(Path(crt("server")).read_text() + Path(key("server")).read_text())
    server = server_context(server_config(cert_path=str(both), key_path=""))
    assert common_name(shake_hands(server, client_context(client_config()))) == "tests server"


def _junk(tmp_path: Path) -> str:
    path = tmp_path / "junk.pem"
    path.write_bytes(os.urandom(100))
    return str(path)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cert_path": ""}, r"^tls\.server\.certPath is not set: expected a file, because tls\.test\.mode\.enable is"),
        ({"cert_path": "/no/such"}, r"^tls\.server\.certPath = '/no/such': expected a file, found: No such file"),
        ({"key_path": "/no/such"}, r"^tls\.server\.keyPath = '/no/such': expected a file, found: No such file"),
        ({"cert_path": "JUNK"}, r"^tls\.server\.certPath = '.*junk\.pem': expected a PEM file with certificates$"),
        ({"key_path": "JUNK"}, r"^tls\.server\.keyPath = '.*junk\.pem': expected a PEM file with a private key$"),
        ({"key_path": key("client")}, r"^tls\.server\.keyPath = '.*client\.key': expected the key that belongs to"),
        ({"cert_path": crt("encrypted"), "key_path": key("encrypted")}, r"tls\.server\.keyPassword, because it is enc"),
        (
            {"cert_path": crt("encrypted"), "key_path": key("encrypted"), "key_password": "wrong"},
            r"expected a key and that tls\.server\.keyPassword opens it$",
        ),
        ({"need_client_auth": "require"}, r"^tls\.server\.need\.client\.auth = 'require': expected tls\.server\.auth"),
        (
            {"need_client_auth": "require", "auth_client": True, "trust_cert_path": "JUNK"},
            r"^tls\.server\.trustCertPath = '.*junk\.pem': expected a PEM file with certificates$",
        ),
    ],
)
def test_what_is_wrong_with_a_servers_files_is_one_sentence(
    tmp_path: Path, changes: dict[str, object], expected: str
) -> None:
    changes = {name: _junk(tmp_path) if value == "JUNK" else value for name, value in changes.items()}
    with pytest.raises(SettingsError, match=expected):
        ServerTls(server_config(**changes))
    ServerTls(server_config(**changes, server_mode="disabled"))  # unused files are not loaded


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"trust_cert_path": "/no/such"}, r"^tls\.client\.trustCertPath = '/no/such': expected a file, found: No such"),
        ({"key_path": key("client")}, r"^tls\.client\.certPath is not set, and tls\.client\.keyPath needs"),
        ({"cert_path": crt("client"), "key_path": key("server")}, r"^tls\.client\.keyPath = .*: expected the key that"),
    ],
)
def test_what_is_wrong_with_a_clients_files_is_one_sentence(changes: dict[str, object], expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        client_context(client_config(**changes))


def test_without_a_trust_file_a_machine_believes_what_it_believes_anyway() -> None:
    context = client_context(client_config(trust_cert_path=""))
    assert context.verify_mode is ssl.CERT_REQUIRED
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server_context(server_config()), context)


def test_a_file_of_tls_settings_wins_over_what_was_set_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "tls.properties"
    file.write_text(
        "tls.test.mode.enable=false\ntls.server.certPath=/a\ntls.client.authServer=true\ntls.servr.mode=x\n"
    )
    server, client, warnings = with_config_file(
        TlsServerConfig(config_file=str(file), cert_path="/b", key_path="/c"), TlsClientConfig(config_file=str(file))
    )
    assert (server.test_mode_enable, server.cert_path, server.key_path) == (False, "/a", "/c")
    assert (client.test_mode_enable, client.auth_server) == (False, True)
    assert warnings == (f"{file} line 4: unknown key tls.servr.mode has no effect; did you mean tls.server.mode?",)
    file.write_text("tls.server.certPath=/a\ntls.client.authServer=true\n")
    assert with_config_file(TlsServerConfig(config_file=str(file)), TlsClientConfig())[2] == (
        "tls.server.certPath has no effect: tls.test.mode.enable is true, which is its default",
        "tls.client.authServer has no effect: tls.test.mode.enable is true, which is its default",
    )
    assert with_config_file(TlsServerConfig(), TlsClientConfig()) == (TlsServerConfig(), TlsClientConfig(), ())
    with pytest.raises(SettingsError, match="cannot be read"):
        with_config_file(attrs.evolve(server, config_file=str(tmp_path / "missing")), client)


@pytest.mark.parametrize(
    ("mode", "auth", "warns"),
    [("permissive", "require", True), ("enforcing", "require", False), ("permissive", "optional", False)],
)
def test_asking_every_client_for_a_certificate_is_worth_little_without_enforcing(
    mode: str, auth: str, warns: bool
) -> None:
    """A connection without TLS needs none: that must be said at the start, for who sets one key relies on it."""
    config = server_config(server_mode=mode, need_client_auth=auth, auth_client=True)
    *_, warnings = with_config_file(config, TlsClientConfig())
    expected = (
        "tls.server.need.client.auth = 'require' asks nothing of connections without TLS, and tls.server.mode is "
        "permissive, which is its default: expected enforcing"
    )
    assert warnings == ((expected,) if warns else ())


class Files:
    """A certificate and key that are replaced."""

    def __init__(self, directory: Path) -> None:
        self.cert, self.key = directory / "now.crt", directory / "now.key"
        self.put("server")

    def put(self, name: str) -> None:
        shutil.copy(crt(name), self.cert)
        shutil.copy(key(name), self.key)

    def config(self) -> TlsServerConfig:
        return server_config(cert_path=str(self.cert), key_path=str(self.key))


def shown_by(tls: ServerTls) -> str:
    return common_name(shake_hands(tls.context, client_context(client_config())))


def test_new_files_count_for_new_connections_once_they_fit_together(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Files(tmp_path)
    reports: list[str] = []
    tls = ServerTls(files.config(), report=reports.append)
    before = tls.context
    tls.reload_if_changed()
    assert tls.context is before
    shutil.copy(crt("server-2"), files.cert)
    tls.reload_if_changed()
    tls.reload_if_changed()  # nothing has changed since: said once
    assert tls.context is before
    (record,) = caplog.records
    assert record.getMessage().startswith("the certificate that was loaded before stays: tls.server.keyPath = ")
    assert reports == []
    shutil.copy(key("server-2"), files.key)
    tls.reload_if_changed()
    assert shown_by(tls) == "tests server-2"
    assert reports == [f"loaded the certificate for TLS again: {files.cert}"]


def test_a_new_trust_file_counts_for_new_connections(tmp_path: Path) -> None:
    """An authority that is withdrawn must not be trusted until the next start."""
    trust = tmp_path / "trust.crt"
    shutil.copy(crt("stranger"), trust)
    tls = ServerTls(server_config(need_client_auth="require", auth_client=True, trust_cert_path=str(trust)))
    ours = client_config(cert_path=crt("client"), key_path=key("client"))
    with pytest.raises(ssl.SSLError):
        shake_hands(tls.context, client_context(ours))
    shutil.copy(crt("authority"), trust)
    tls.reload_if_changed()
    shake_hands(tls.context, client_context(ours))
    shutil.copy(crt("stranger"), trust)
    tls.reload_if_changed()
    with pytest.raises(ssl.SSLError):
        shake_hands(tls.context, client_context(ours))


@pytest.mark.parametrize("damage", ["removed", "cut", "garbage"])
def test_a_broken_new_file_keeps_the_old_certificate(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = Files(tmp_path)
    tls = ServerTls(files.config())
    if damage == "removed":
        files.cert.unlink()
    elif damage == "cut":
        files.cert.write_bytes(files.cert.read_bytes()[:200])
    else:
        files.cert.write_bytes(b"garbage")
    tls.reload_if_changed()
    assert shown_by(tls) == "tests server"
    assert "tls.server.certPath" in caplog.text
    files.put("server-2")
    tls.reload_if_changed()
    assert shown_by(tls) == "tests server-2"


async def test_the_files_are_looked_at_while_it_runs(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    files = Files(tmp_path)
    tls = ServerTls(files.config())
    async with trio.open_nursery() as nursery:
        await nursery.start(_run, tls)
        files.put("server-2")
        await trio.sleep(RELOADED_SECONDS)
        assert shown_by(tls) == "tests server-2"
        nursery.cancel_scope.cancel()


def test_test_mode_makes_one_certificate_and_says_what_it_is_worth() -> None:
    reports: list[str] = []
    tls = ServerTls(TlsServerConfig(), report=reports.append)
    assert reports == []
    assert tls.context is tls.context
    assert reports == ["made a certificate for TLS test mode: it encrypts, and does not authenticate this server"]


async def test_without_files_there_is_nothing_to_look_at() -> None:
    await ServerTls(TlsServerConfig()).run()


async def _run(tls: ServerTls, *, task_status: trio.TaskStatus[None]) -> None:
    await tls.run(task_status=task_status)


async def test_a_look_that_fails_unexpectedly_ends_no_server(
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = Files(tmp_path)
    tls = ServerTls(files.config())
    looks: list[int] = []

    def fail() -> None:
        looks.append(1)
        raise ValueError("an error of OpenSSL's that was not foreseen")

    monkeypatch.setattr(tls, "reload_if_changed", fail)
    async with trio.open_nursery() as nursery:
        await nursery.start(_run, tls)
        await trio.sleep(3.5 * WATCH_SECONDS)
        nursery.cancel_scope.cancel()
    assert len(looks) == 3
    assert "a look at the files for TLS" in caplog.text
