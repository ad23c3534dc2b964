"""Certificates made without a library are read by one: OpenSSL, through ``ssl``."""

from __future__ import annotations

import random
import ssl
from pathlib import Path

import pytest

from rocketpy.remoting.tls.self_signed import self_signed_certificate
from tests.remoting.tls.test_contexts import shake_hands


@pytest.mark.parametrize("seed", range(8))
def test_a_client_that_trusts_the_certificate_shakes_hands_with_its_key(tmp_path: Path, seed: int) -> None:
    """OpenSSL checks on the way that the key belongs to the certificate, and the signature of the certificate."""
    path = tmp_path / "made.pem"
    path.write_text(self_signed_certificate("test mode", random.Random(seed).randrange))
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(path)
    client.check_hostname = False
    client.load_verify_locations(path)
    found = shake_hands(server, client).getpeercert()
    assert found is not None
    assert found["subject"] == found["issuer"] == ((("commonName", "test mode"),),)
    assert (found["notBefore"], found["notAfter"]) == ("Jan  1 00:00:00 2020 GMT", "Dec 31 23:59:59 9999 GMT")
    assert found["version"] == 3


def test_no_two_certificates_are_the_same() -> None:
    made = {self_signed_certificate("test mode", random.Random(seed).randrange) for seed in range(4)}
    assert len(made) == 4
