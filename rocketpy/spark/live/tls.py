"""TLS of the blocking client: a context made, in each process, from the files that the options name.

Compatibility: ``TlsHelper`` (4.9.8). Java's client accepts any certificate unless ``tls.client.authServer`` is set;
here that takes ``tlsInsecure=true``. As in Java, a certificate of the issuers in ``tlsCaFile`` may have any host name:
brokers advertise addresses. Without that file, the system's issuers and the host name count.
"""

from __future__ import annotations

import ssl

import attrs

from rocketpy.errors import SettingsError


@attrs.frozen
class TlsFiles:
    """What the options say of TLS; paths in the process that connects."""

    ca_file: str | None = None
    is_insecure: bool = False
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = attrs.field(default=None, repr=False)


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context for connections; :class:`SettingsError` names the option and the file that is wrong."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif files.ca_file is None:
        context.load_default_certs()
    else:
        context.check_hostname = False
        try:
            context.load_verify_locations(files.ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise SettingsError(
                f"option tlsCaFile: expected a PEM file of certificates, found {files.ca_file}: {error}"
            ) from error
    if files.cert_file is not None:
        _load_certificate(context, files, files.cert_file)
    return context


def _load_certificate(context: ssl.SSLContext, files: TlsFiles, cert_file: str) -> None:
    def password() -> str:
        if files.key_password is None:
            raise SettingsError("the key of option tlsCertFile is encrypted, expected the option tlsKeyPassword")
        return files.key_password

    try:
        context.load_cert_chain(cert_file, files.key_file, password)
    except OSError as error:
        raise SettingsError(
            f"options tlsCertFile and tlsKeyFile: expected PEM files of a certificate and its key, found {cert_file} "
            f"and {files.key_file or 'no other'}: {error}"
        ) from error
