"""TLS contexts built from settings, for servers and clients, and their reload when files change.

A context is built completely or not at all. A mistake found at start is a :class:`~rocketpy.errors.SettingsError` that
names the key, the file and what was expected. A mistake found later, in a file that is just being replaced, is logged
and the previous context stays in use. Only this module of ``remoting`` reads files: private keys never leave OpenSSL.

Compatibility: ``TlsHelper`` and ``FileWatchService`` (4.9.8). Java reloads when certificate *and* key have changed,
here when either has and they match. Java can request a client's certificate and accept any; here a request needs
``tls.server.authClient=true``. Java's test mode creates its certificate at start, ours for the first TLS client.
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

from rocketpy.containment import Contained
from rocketpy.errors import SettingsError
from rocketpy.remoting.config import ClientAuth, TlsClientConfig, TlsMode, TlsServerConfig
from rocketpy.settings import load_settings, settings_values

WATCH_SECONDS = 2.0
"""Interval between checks of the certificate files (Java: 0.5 s)."""

CERTIFICATE_SIZE_MAX = 1 << 20

_IDLE_IN_TEST_MODE = ("Path", ".authClient", ".authServer")  # suffixes of the keys that test mode ignores

_log = logging.getLogger("rocketpy.remoting")


def with_config_file(
    server: TlsServerConfig, client: TlsClientConfig
) -> tuple[TlsServerConfig, TlsClientConfig, tuple[str, ...]]:
    """Return the settings overridden by ``tls.config.file``, if set, with warnings about settings without effect.

    Compatibility: as in Java the file takes precedence. Java ignores a missing file, and ``tls.server.mode`` and
    ``tls.enable`` in it; here a missing file is a SettingsError and the two keys take effect.
    """
    warnings: tuple[str, ...] = ()
    if server.config_file:
        loaded = load_settings(server.config_file, server, client)
        server, client, warnings = loaded.of(TlsServerConfig), loaded.of(TlsClientConfig), loaded.warnings
    return server, client, (*warnings, *_without_effect(server), *_open_door(server), *_without_effect(client))


def config_file_places(server: TlsServerConfig) -> dict[str, str]:
    """Return, by key, file and line of each setting in ``tls.config.file``; errors as of :func:`with_config_file`."""
    if not server.config_file:
        return {}
    return load_settings(server.config_file, TlsServerConfig, TlsClientConfig).places


def _without_effect(config: TlsServerConfig | TlsClientConfig) -> list[str]:
    """Warn about the settings that test mode ignores; RocketMQ ignores them silently."""
    if not config.test_mode_enable:
        return []
    default = settings_values(type(config)())
    return [
        f"{key} has no effect: tls.test.mode.enable is true, which is its default"
        for key, value in settings_values(config).items()
        if key.endswith(_IDLE_IN_TEST_MODE) and value != default.get(key)
    ]


def _open_door(config: TlsServerConfig) -> list[str]:
    """Warn when client certificates are required, but connections without TLS are accepted."""
    if config.client_auth is not ClientAuth.REQUIRE or config.mode is not TlsMode.PERMISSIVE:
        return []
    return [
        "tls.server.need.client.auth = 'require' asks nothing of connections without TLS, and tls.server.mode is "
        "permissive, which is its default: expected enforcing"
    ]


def client_context(config: TlsClientConfig) -> ssl.SSLContext:
    """Return a context for connections to servers; SettingsError names the file that is wrong.

    The server's certificate is verified only with ``tls.client.authServer``, and its host name never.
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
            "a certificate without a trusted issuer proves nothing"
        )
    return context


@attrs.frozen
class _FileState:
    """Metadata that changes with a file's content, or the reason why it cannot be read."""

    modified_ns: int = 0
    size: int = 0
    inode: int = 0
    failure: str = ""


class ServerTls:
    """The TLS of one program's listeners: its mode, and the context for the next connection.

    Created once and shared by all ports. In test mode the context is created when it is first needed.
    """

    def __init__(
        self,
        config: TlsServerConfig,
        *,
        report: Callable[[str], None] | None = None,
        randbelow: Callable[[int], int] = secrets.randbelow,
    ) -> None:
        """Load the files that the settings name; SettingsError unless they exist, are readable and match.

        :param report: called with a sentence for the log whenever another certificate takes effect.
        """
        self._config = config
        self._report = report or _ignore
        self._randbelow = randbelow
        self._context: ssl.SSLContext | None = None
        self._states: Sequence[_FileState] = ()
        if config.mode is not TlsMode.DISABLED and not config.test_mode_enable:
            self._states = self._look()
            self._context = server_context(config, randbelow)

    @property
    def mode(self) -> TlsMode:
        """Whether plain and TLS connections are accepted."""
        return self._config.mode

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a new connection. Not to be used in mode ``disabled``."""
        assert self.mode is not TlsMode.DISABLED
        if self._context is None:
            self._context = server_context(self._config, self._randbelow)
            self._report("made a certificate for TLS test mode: it encrypts, and does not authenticate this server")
        return self._context

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Check the files every WATCH_SECONDS and reload them when changed; only new connections are affected."""
        task_status.started()
        if not self._states:
            return
        while True:
            await trio.sleep(WATCH_SECONDS)
            with Contained(_log, "a look at the files for TLS; the certificate that was loaded before stays, it"):
                self.reload_if_changed()

    def reload_if_changed(self) -> None:
        """Reload the files if one of them has changed; the context stays if they cannot be loaded."""
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


def _ignore(_: str) -> None:
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
        # Without the callback OpenSSL would prompt at the terminal and block.
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
    """Trust the CA certificates of a file, or, without one, those of the system."""
    if not path:
        context.load_default_certs(purpose)
        return
    _readable(key, path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as failure:
        raise SettingsError(f"{key} = {path!r}: expected a PEM file with certificates") from failure


def _load_self_signed(context: ssl.SSLContext, randbelow: Callable[[int], int]) -> None:
    """Create and load a certificate. ``ssl`` loads from files only, so it passes through a private temporary one."""
    from rocketpy.remoting.tls.self_signed import self_signed_certificate  # only test mode needs it

    pem = self_signed_certificate("rocketpy test mode", randbelow)
    with tempfile.TemporaryDirectory(prefix="rocketpy-") as directory:
        path = os.path.join(directory, "test-mode.pem")
        with open(path, "w", encoding="ascii") as file:
            file.write(pem)
        context.load_cert_chain(path)


def _readable(key: str, path: str) -> bytes:
    """Return the content of a file; SettingsError names the key when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(CERTIFICATE_SIZE_MAX)
    except OSError as failure:
        raise SettingsError(f"{key} = {path!r}: expected a file, found: {failure.strerror}") from failure
