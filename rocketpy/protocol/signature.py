"""Request signatures: an HMAC over the ext fields and the body under an account's secret key.

The signed content is the values of all ext fields but ``Signature``, in the order of their keys, concatenated in UTF-8
and followed by the body. The signature is its HMAC-SHA1 in Base64. ``AccessKey`` (and ``SecurityToken`` if present) are
ext fields like any other, so they are signed too.

What rocketpy signs has one more field, ``#signedFor``, with the request code, the address of the server, and a digest
of the names of all fields, the lengths of their values and that of the body:

    rocketpy-1 310 10.0.0.7:10911 5d41402abc4b2a76b9719d911017c592                          with a space at its end

Without it a signature fits any other code and any other server, because it covers neither, and any request whose values
are the same when they are joined. The name of the field sorts before all others, so that what is signed begins with
its value: nobody can leave it out, rename it or move a part of it into another field. A server of rocketpy refuses a
request whose signed content begins so and does not begin with what it finds itself: the code, an address that is its
own, the digest of the fields as they are. RocketMQ's servers know no such field and sign it like any other.

Java's clients sign the marker ``_UNIQUE_KEY_QUERY`` of a query by unique key, and its broker leaves it out, so that
every such query fails there. Compatibility: :func:`proved_content` accepts a signature made either way.

Compatibility: ``AclClientRPCHook``, ``AclUtils`` and ``AclSigner`` (4.9.8). Keys are ordered by
their UTF-16 code units, as Java's strings are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.signing_key import SigningKey

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
SIGNED_FOR: Final = "#signedFor"
_SHAPE_DIGITS: Final = 32  # 128 bits
_SIGNED_FOR_MARK: Final = "rocketpy-1 "
SIGNED_FOR_BEGIN: Final = _SIGNED_FOR_MARK.encode()
"""How the value of ``#signedFor`` begins; no access key of a client that does not know the field begins so."""


@attrs.frozen
class SessionCredentials:
    """Credentials of a client, as in RocketMQ's ``tools.yml``. ``repr`` does not show the secret."""

    access_key: str
    secret_key: str = attrs.field(repr=False)
    security_token: str | None = attrs.field(default=None, repr=False)


def signed_content(ext_fields: Mapping[str, str], body: bytes | None, *, leave_out: str = SIGNATURE) -> bytes:
    """Return the signed content: every value but those of ``Signature`` and ``leave_out``, ordered by key."""
    keys = sorted(ext_fields)
    if not "".join(keys).isascii():
        keys.sort(key=_utf16)
    text = "".join([ext_fields[key] for key in keys if key not in (SIGNATURE, leave_out)])
    return text.encode("utf-8", "replace") + (body or b"")


def proved_content(ext_fields: Mapping[str, str], body: bytes | None, key: SigningKey) -> bytes | None:
    """Return what the signature in the fields signs, with or without ``_UNIQUE_KEY_QUERY``; None if it is wrong.

    Takes the same time right or wrong; a missing signature is a wrong one.
    """
    signature = ext_fields.get(SIGNATURE, "")
    content = signed_content(ext_fields, body)
    proved = content if key.matches(content, signature) else None
    if UNIQUE_KEY_QUERY in ext_fields:
        content = signed_content(ext_fields, body, leave_out=UNIQUE_KEY_QUERY)
        proved = content if key.matches(content, signature) else proved
    return proved


def shape_of(lengths: Iterable[tuple[str, int]], body_size: int) -> str:
    """Return the digest of names and lengths (in characters) of all fields but Signature and #signedFor, in any order.

    It makes the signed content unambiguous: with it there is one way to divide that into fields and a body.

    >>> shape_of([("topic", 3)], 0)
    '25b77cc63f8be3a1d2c4f5ad6ca4b0a3'
    """
    text = ",".join(sorted(f"{len(name)}:{name}={length}" for name, length in lengths))
    return hashlib.sha256(f"{text};{body_size}".encode("utf-8", "surrogatepass")).hexdigest()[:_SHAPE_DIGITS]


def shape_of_request(ext_fields: Mapping[str, str], body: bytes | None) -> str:
    """Return the digest of a request."""
    lengths = [(name, len(value)) for name, value in ext_fields.items() if name not in (SIGNATURE, SIGNED_FOR)]
    return shape_of(lengths, len(body or b""))


def signed_for(code: int, address: str, shape: str) -> str:
    """Return the value of ``#signedFor``; ``address`` is HOST:PORT of the server, numeric, IPv6 without brackets."""
    return f"{_SIGNED_FOR_MARK}{code} {address} {shape} "


class RequestSigner:
    """Signer of one client's requests. A request that is sent again may be signed again."""

    def __init__(self, credentials: SessionCredentials) -> None:
        self._credentials = credentials
        self._key = SigningKey(credentials.secret_key)

    def __call__(self, request: RemotingCommand, address: str = "") -> None:
        """Add account and signature to the request's ext fields; the last step before it is sent to an address.

        Without an address it is a signature as RocketMQ's clients make it, for any code and server.
        """
        fields = {} if request.ext_fields is None else request.ext_fields
        fields.pop(SIGNED_FOR, None)
        fields[ACCESS_KEY] = self._credentials.access_key
        if self._credentials.security_token is not None:
            fields[SECURITY_TOKEN] = self._credentials.security_token
        if address:
            fields[SIGNED_FOR] = signed_for(request.code, address, shape_of_request(fields, request.body))
        fields[SIGNATURE] = self._key.sign(signed_content(fields, request.body)).decode("ascii")
        request.ext_fields = fields


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")
