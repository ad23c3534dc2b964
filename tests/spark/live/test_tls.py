"""TLS of the blocking client: who is trusted, and which file is wrong."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from rocketpy.errors import SettingsError
from rocketpy.spark.live.tls import TlsFiles, client_context
from tests.remoting.certificate_files import crt, key


def test_own_issuers_are_trusted_for_any_host_and_nothing_else_is() -> None:
    context = client_context(TlsFiles(ca_file=crt("authority")))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)
    assert [each["subject"] for each in context.get_ca_certs()] == [each["issuer"] for each in context.get_ca_certs()]


def test_the_system_s_issuers_vouch_for_a_host() -> None:
    context = client_context(TlsFiles())
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_anything_goes_only_on_request() -> None:
    context = client_context(TlsFiles(is_insecure=True))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


def test_wrong_files_are_named_with_their_option(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no certificate")
    for files, words in (
        (TlsFiles(ca_file="/no/such/file"), "tlsCaFile: .*found /no/such/file: .*No such file"),
        (TlsFiles(ca_file=str(garbage)), "tlsCaFile: expected a PEM file of certificates, found"),
        (TlsFiles(cert_file=str(garbage)), "tlsCertFile and tlsKeyFile: .* and no other"),
        (TlsFiles(cert_file=crt("client"), key_file=key("server")), "tlsCertFile and tlsKeyFile: .*"),
    ):
        with pytest.raises(SettingsError, match=words):
            client_context(files)


def test_a_certificate_may_have_its_key_in_a_file_of_its_own() -> None:
    client_context(TlsFiles(cert_file=crt("client"), key_file=key("client")))


def test_a_password_is_not_shown() -> None:
    assert "hidden" not in repr(TlsFiles(key_password="hidden"))
