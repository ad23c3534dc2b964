"""Self-signed certificate for TLS test mode: a fresh P-256 key and an X.509 certificate signed with it.

The standard library has TLS but cannot create a certificate. RocketMQ's test mode creates one at every start, and so do
we, in about 20 ms; a private key that ships with the program would be public. The certificate encrypts but does not
authenticate: for that the broker needs a real one (``tls.server.certPath``).

The arithmetic is not constant-time and must never sign anything else: it signs once, with a key that is new.

::

    Certificate     SEQUENCE { tbsCertificate, ecdsa-with-SHA256, BIT STRING { SEQUENCE { r, s } } }
    tbsCertificate  SEQUENCE { [0] version 3, serial, ecdsa-with-SHA256, issuer, validity, subject, public key }
    private key     SEC 1 ECPrivateKey: SEQUENCE { 1, OCTET STRING key, [0] prime256v1, [1] BIT STRING public key }
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
_Point = tuple[int, int]

_SEQUENCE, _SET, _INTEGER, _BIT_STRING, _OCTET_STRING, _OID = 0x30, 0x31, 0x02, 0x03, 0x04, 0x06
_UTF8_STRING, _UTC_TIME, _GENERALIZED_TIME = 0x0C, 0x17, 0x18
_EXPLICIT_0, _EXPLICIT_1 = 0xA0, 0xA1

_EC_PUBLIC_KEY = bytes.fromhex("2a8648ce3d0201")  # 1.2.840.10045.2.1
_PRIME256V1 = bytes.fromhex("2a8648ce3d030107")  # 1.2.840.10045.3.1.7
_ECDSA_WITH_SHA256 = bytes.fromhex("2a8648ce3d040302")  # 1.2.840.10045.4.3.2
_COMMON_NAME = bytes.fromhex("550403")  # 2.5.4.3

_NOT_BEFORE = b"200101000000Z"
_NOT_AFTER = b"99991231235959Z"  # "no expiry" by RFC 5280, 4.1.2.5


def self_signed_certificate(common_name: str, randbelow: Callable[[int], int]) -> str:
    """Return a new private key and its certificate as PEM text.

    :param randbelow: ``secrets.randbelow``, or a seeded one in tests.
    """
    private_key = randbelow(_N - 1) + 1
    public_point = _multiplied(private_key, _G)
    public_key = _der(_BIT_STRING, b"\0\4" + _bytes32(public_point[0]) + _bytes32(public_point[1]))
    algorithm = _der(_SEQUENCE, _der(_OID, _ECDSA_WITH_SHA256))
    attribute = _der(_SEQUENCE, _der(_OID, _COMMON_NAME) + _der(_UTF8_STRING, common_name.encode()))
    name = _der(_SEQUENCE, _der(_SET, attribute))
    to_be_signed = _der(
        _SEQUENCE,
        _der(_EXPLICIT_0, _integer(2))
        + _integer(randbelow(1 << 63) + 1)
        + algorithm
        + name
        + _der(_SEQUENCE, _der(_UTC_TIME, _NOT_BEFORE) + _der(_GENERALIZED_TIME, _NOT_AFTER))
        + name
        + _der(_SEQUENCE, _der(_SEQUENCE, _der(_OID, _EC_PUBLIC_KEY) + _der(_OID, _PRIME256V1)) + public_key),
    )
    r, s = _signature(to_be_signed, private_key, randbelow)
    signature = _der(_BIT_STRING, b"\0" + _der(_SEQUENCE, _integer(r) + _integer(s)))
    certificate = _der(_SEQUENCE, to_be_signed + algorithm + signature)
    key = _der(
        _SEQUENCE,
        _integer(1)
        + _der(_OCTET_STRING, _bytes32(private_key))
        + _der(_EXPLICIT_0, _der(_OID, _PRIME256V1))
        + _der(_EXPLICIT_1, public_key),
    )
    return _pem("EC PRIVATE KEY", key) + _pem("CERTIFICATE", certificate)


# ---- P-256 -----------------------------------------------------------------------------------------------------------


def _signature(message: bytes, private_key: int, randbelow: Callable[[int], int]) -> tuple[int, int]:
    """ECDSA (FIPS 186-4, 6.4) over SHA-256."""
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    while True:
        nonce = randbelow(_N - 1) + 1
        r = _multiplied(nonce, _G)[0] % _N
        s = pow(nonce, -1, _N) * (digest + r * private_key) % _N
        if r and s:
            return r, s


def _multiplied(scalar: int, point: _Point) -> _Point:
    """Double and add, over affine points; ``scalar`` is below the order, so the sum never meets infinity."""
    total = point
    for bit in bin(scalar)[3:]:
        total = _added(total, total)
        if bit == "1":
            total = _added(total, point)
    return total


def _added(left: _Point, right: _Point) -> _Point:
    if left == right:
        slope = (3 * left[0] * left[0] - 3) * pow(2 * left[1], -1, _P) % _P
    else:
        slope = (right[1] - left[1]) * pow(right[0] - left[0], -1, _P) % _P
    x = (slope * slope - left[0] - right[0]) % _P
    return x, (slope * (left[0] - x) - left[1]) % _P


# ---- DER and PEM -----------------------------------------------------------------------------------------------------


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _integer(value: int) -> bytes:
    """A positive INTEGER, with a leading zero byte where the first bit would make it negative."""
    return _der(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _bytes32(value: int) -> bytes:
    return value.to_bytes(32, "big")


def _pem(label: str, content: bytes) -> str:
    text = base64.b64encode(content).decode()
    lines = "".join(text[at : at + 64] + "\n" for at in range(0, len(text), 64))
    return f"-----BEGIN {label}-----\n{lines}-----END {label}-----\n"
