"""TLS contexts from settings: what a server shows its clients, what a client asks of its servers, and how both change.

A context is made whole or not at all. What is wrong at start is a :class:`~rocketpy.errors.SettingsError` that names
the key, the file and what was expected; what is wrong later, in a file that somebody is replacing, leaves the context
that there is, and is logged. This module is the one place where ``remoting`` reads files: a key never leaves OpenSSL.

Compatibility: ``TlsHelper`` and ``FileWatchService`` (4.9.8). Java reloads when certificate *and* key have changed,
here whenever one of them has and they fit together. Java can ask for a client's certificate and believe any; here
asking needs ``tls.server.authClient=true``. Java's test mode makes its certificate at start, ours when the first client
with TLS comes.
"""

from __future__ import annotations

import logging
import os
import secrets
import ssl
import tempfile
from collections.abc import Callable, Sequence

import attrs
import trio

from rocketpy.errors import SettingsError
from rocketpy.remoting.config import ClientAuth, TlsClientConfig, TlsMode, TlsServerConfig
from rocketpy.settings import load_settings, settings_values

WATCH_SECONDS = 2.0
"""How often the files of a certificate are looked at (Java: every 0.5 s)."""

CERTIFICATE_SIZE_MAX = 1 << 20

_IDLE_IN_TEST_MODE = ("Path", ".authClient", ".authServer")  # how the keys end that test mode passes over

_log = logging.getLogger("rocketpy.remoting")


def with_config_file(
    server: TlsServerConfig, client: TlsClientConfig
) -> tuple[TlsServerConfig, TlsClientConfig, tuple[str, ...]]:
    """Return the settings as ``tls.config.file`` changes them, if there is one, with warnings about what has no effect.

    Compatibility: as in Java the file wins over what was set elsewhere. Java passes over a file that is not there and
    over ``tls.server.mode`` and ``tls.enable`` in it; here the one is a SettingsError and the others count.
    """
    warnings: tuple[str, ...] = ()
    if server.config_file:
        loaded = load_settings(server.config_file, server, client)
        server, client, warnings = loaded.of(TlsServerConfig), loaded.of(TlsClientConfig), loaded.warnings
    return server, client, (*warnings, *_without_effect(server), *_open_door(server), *_without_effect(client))


def _without_effect(config: TlsServerConfig | TlsClientConfig) -> list[str]:
    """Name what test mode passes over: RocketMQ says nothing, and everybody falls into it."""
    if not config.test_mode_enable:
        return []
    default = settings_values(type(config)())
    return [
        f"{key} has no effect: tls.test.mode.enable is true, which is its default"
        for key, value in settings_values(config).items()
        if key.endswith(_IDLE_IN_TEST_MODE) and value != default.get(key)
    ]


def _open_door(config: TlsServerConfig) -> list[str]:
    """Warn where every client needs a certificate, except those that do without TLS."""
    if config.client_auth is not ClientAuth.REQUIRE or config.mode is not TlsMode.PERMISSIVE:
        return []
    return [
        "tls.server.need.client.auth = 'require' asks nothing of connections without TLS, and tls.server.mode is "
        "permissive, which is its default: expected enforcing"
    ]


def client_context(config: TlsClientConfig) -> ssl.SSLContext:
    """Return a context for connections to servers; SettingsError names the file that is wrong.

    Who the server is counts only with ``tls.client.authServer``, and then its host name still does not.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    if config.auth_server and not config.test_mode_enable:
        _load_trust(context, "tls.client.trustCertPath", config.trust_cert_path, ssl.Purpose.SERVER_AUTH)
    else:
        context.verify_mode = ssl.CERT_NONE
    if config.cert_path and not config.test_mode_enable:
        _load_certificate(context, "tls.client", config.cert_path, config.key_path, config.key_password)
    elif config.key_path and not config.test_mode_enable:
        raise SettingsError("tls.client.certPath is not set, and tls.client.keyPath needs its certificate")
    return context


def server_context(config: TlsServerConfig, randbelow: Callable[[int], int] = secrets.randbelow) -> ssl.SSLContext:
    """Return a context for connections of clients; SettingsError names the file or key that is wrong."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    if config.test_mode_enable:
        _load_self_signed(context, randbelow)
        return context
    if not config.cert_path:
        raise SettingsError("tls.server.certPath is not set: expected a file, because tls.test.mode.enable is false")
    _load_certificate(context, "tls.server", config.cert_path, config.key_path, config.key_password)
    if config.client_auth is not ClientAuth.NONE and config.auth_client:
        _load_trust(context, "tls.server.trustCertPath", config.trust_cert_path, ssl.Purpose.CLIENT_AUTH)
        required = config.client_auth is ClientAuth.REQUIRE
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    elif config.client_auth is ClientAuth.REQUIRE:
        raise SettingsError(
            "tls.server.need.client.auth = 'require': expected tls.server.authClient=true beside it, "
            "a certificate that nobody vouches for proves nothing"
        )
    return context


@attrs.frozen
class _FileState:
    """What tells one content of a file from the next, or why it cannot be looked at."""

    modified_ns: int = 0
    size: int = 0
    inode: int = 0
    failure: str = ""


class ServerTls:
    """The TLS of one program's listeners: its mode, and the context for the next connection.

    Made once and shared by all ports. Without certificates of its own (test mode) the context is made when it is first
    asked for.
    """

    def __init__(
        self,
        config: TlsServerConfig,
        *,
        report: Callable[[str], None] | None = None,
        randbelow: Callable[[int], int] = secrets.randbelow,
    ) -> None:
        """Load what the settings name; SettingsError unless the files are there, readable and fit together.

        :param report: is told in words which certificate clients are shown from now on.
        """
        self._config = config
        self._report = report or _tell_nobody
        self._randbelow = randbelow
        self._context: ssl.SSLContext | None = None
        self._states: Sequence[_FileState] = ()
        if config.mode is not TlsMode.DISABLED and not config.test_mode_enable:
            self._states = self._look()
            self._context = server_context(config, randbelow)

    @property
    def mode(self) -> TlsMode:
        """What happens to plain and TLS connections."""
        return self._config.mode

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a connection that begins now. Not with mode ``disabled``."""
        assert self.mode is not TlsMode.DISABLED
        if self._context is None:
            self._context = server_context(self._config, self._randbelow)
            self._report("made a certificate for TLS test mode: it encrypts, and proves nothing about who we are")
        return self._context

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look at the files every WATCH_SECONDS and load what has changed, for the connections that come then."""
        task_status.started()
        if not self._states:
            return
        while True:
            await trio.sleep(WATCH_SECONDS)
            self.reload_if_changed()

    def reload_if_changed(self) -> None:
        """Load the files again if one of them is not what it was; what cannot be loaded changes nothing."""
        states = self._look()
        if states == self._states:
            return
        self._states = states
        try:
            self._context = server_context(self._config, self._randbelow)
        except SettingsError as failure:
            _log.warning("the certificate that was loaded before stays: %s", failure)
        else:
            self._report(f"loaded the certificate for TLS again: {self._config.cert_path}")

    def _look(self) -> Sequence[_FileState]:
        config = self._config
        return [_state_of(path) for path in (config.cert_path, config.key_path, config.trust_cert_path) if path]


def _tell_nobody(_: str) -> None:
    pass


def _state_of(path: str) -> _FileState:
    try:
        found = os.stat(path)
    except OSError as failure:
        return _FileState(failure=str(failure.strerror))
    return _FileState(found.st_mtime_ns, found.st_size, found.st_ino)


def _load_certificate(context: ssl.SSLContext, side: str, cert_path: str, key_path: str, password: str) -> None:
    """Load a chain and its key; without a key path the key is in the file of the chain."""
    cert_key, key_key = f"{side}.certPath", f"{side}.keyPath"
    _readable(cert_key, cert_path)
    key_text = _readable(key_key, key_path) if key_path else _readable(cert_key, cert_path)
    where = f"{key_key} = {key_path!r}" if key_path else f"{cert_key} = {cert_path!r}"
    try:
        # Without the callback OpenSSL would ask at the terminal, and wait.
        context.load_cert_chain(cert_path, key_path or None, password=lambda: password)
    except ssl.SSLError as failure:
        reason = failure.reason or ""
        if reason == "KEY_VALUES_MISMATCH":
            raise SettingsError(f"{where}: expected the key that belongs to {cert_key} = {cert_path!r}") from failure
        if b"ENCRYPTED" in key_text:
            problem = f"{side}.keyPassword opens it" if password else f"{side}.keyPassword, because it is encrypted"
            raise SettingsError(f"{where}: expected a key and that {problem}") from failure
        if b"-----BEGIN CERTIFICATE" not in _readable(cert_key, cert_path):
            raise SettingsError(f"{cert_key} = {cert_path!r}: expected a PEM file with certificates") from failure
        if b"PRIVATE KEY-----" not in key_text:
            raise SettingsError(f"{where}: expected a PEM file with a private key") from failure
        raise SettingsError(
            f"{cert_key} = {cert_path!r}, {where}: expected a certificate and its private key in PEM, found {failure}"
        ) from failure


def _load_trust(context: ssl.SSLContext, key: str, path: str, purpose: ssl.Purpose) -> None:
    """Believe the certificates of a file, or, without one, those that this machine believes."""
    if not path:
        context.load_default_certs(purpose)
        return
    _readable(key, path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as failure:
        raise SettingsError(f"{key} = {path!r}: expected a PEM file with certificates") from failure


def _load_self_signed(context: ssl.SSLContext, randbelow: Callable[[int], int]) -> None:
    """Make and load a certificate. ``ssl`` loads from files only: a private one that lives for that moment."""
    from rocketpy.remoting.self_signed import self_signed_certificate  # only test mode needs it

    pem = self_signed_certificate("rocketpy test mode", randbelow)
    with tempfile.TemporaryDirectory(prefix="rocketpy-") as directory:
        path = os.path.join(directory, "test-mode.pem")
        with open(path, "w", encoding="ascii") as file:
            file.write(pem)
        context.load_cert_chain(path)


def _readable(key: str, path: str) -> bytes:
    """Return the content of a file, or say which key names one that cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(CERTIFICATE_SIZE_MAX)
    except OSError as failure:
        raise SettingsError(f"{key} = {path!r}: expected a file, found: {failure.strerror}") from failure
