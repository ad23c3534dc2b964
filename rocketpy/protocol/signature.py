"""Request signatures: an HMAC over the ext fields and the body under an account's secret key.

The signed content is the values of all ext fields but ``Signature``, in the order of their keys, concatenated in UTF-8
and followed by the body. The signature is its HMAC-SHA1 in Base64. ``AccessKey`` (and ``SecurityToken`` if present) are
ext fields like any other, so they are signed too.

Java's clients sign the marker ``_UNIQUE_KEY_QUERY`` of a query by unique key, and its broker leaves it out, so that
every such query fails there. Compatibility: :func:`signature_matches` accepts a signature made either way.

Compatibility: ``AclClientRPCHook``, ``AclUtils`` and ``AclSigner`` (4.9.8). Keys are ordered by
their UTF-16 code units, as Java's strings are.
"""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from collections.abc import Mapping
from hmac import compare_digest
from typing import Final

import attrs

from rocketpy.protocol.command import RemotingCommand

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"

_BLOCK_SIZE: Final = 64
_INNER_PAD: Final = bytes(each ^ 0x36 for each in range(256))
_OUTER_PAD: Final = bytes(each ^ 0x5C for each in range(256))


@attrs.frozen
class SessionCredentials:
    """Credentials of a client, as in RocketMQ's ``tools.yml``. ``repr`` does not show the secret."""

    access_key: str
    secret_key: str = attrs.field(repr=False)
    security_token: str | None = attrs.field(default=None, repr=False)


class SigningKey:
    """A secret key, ready to sign.

    The two blocks that HMAC makes of the key are hashed once and copied for each signature, which takes half the time
    of ``hmac.digest``.
    """

    __slots__ = ("_copy_inner", "_copy_outer")

    def __init__(self, secret_key: str) -> None:
        key = secret_key.encode("utf-8", "replace")
        if len(key) > _BLOCK_SIZE:
            key = hashlib.sha1(key, usedforsecurity=False).digest()
        key = key.ljust(_BLOCK_SIZE, b"\0")
        self._copy_inner = hashlib.sha1(key.translate(_INNER_PAD), usedforsecurity=False).copy
        self._copy_outer = hashlib.sha1(key.translate(_OUTER_PAD), usedforsecurity=False).copy

    def sign(self, content: bytes) -> bytes:
        """Return the Base64 text of the HMAC-SHA1 of ``content``."""
        inner = self._copy_inner()
        inner.update(content)
        outer = self._copy_outer()
        outer.update(inner.digest())
        return b2a_base64(outer.digest(), newline=False)

    def matches(self, content: bytes, signature: str) -> bool:
        """Whether ``signature`` is that of ``content``; takes the same time right or wrong."""
        return self.matches_text(content, signature.encode("utf-8", "replace"))

    def matches_text(self, content: bytes, signature: bytes) -> bool:
        """The same for the bytes of a signature's text."""
        return compare_digest(self.sign(content), signature)

    def matches_digest(self, content: bytes, digest: bytes) -> bool:
        """The same for a signature already decoded from Base64; the fast path of a send ends here."""
        inner = self._copy_inner()
        inner.update(content)
        outer = self._copy_outer()
        outer.update(inner.digest())
        return compare_digest(outer.digest(), digest)


def signed_content(ext_fields: Mapping[str, str], body: bytes | None, *, leave_out: str = SIGNATURE) -> bytes:
    """Return the signed content: every value but those of ``Signature`` and ``leave_out``, ordered by key."""
    keys = sorted(ext_fields)
    if not "".join(keys).isascii():
        keys.sort(key=_utf16)
    text = "".join([ext_fields[key] for key in keys if key not in (SIGNATURE, leave_out)])
    return text.encode("utf-8", "replace") + (body or b"")


def signature_matches(ext_fields: Mapping[str, str], body: bytes | None, key: SigningKey) -> bool:
    """Whether the fields hold the signature of themselves and the body, with or without ``_UNIQUE_KEY_QUERY``.

    Takes the same time right or wrong; a missing signature is a wrong one.
    """
    signature = ext_fields.get(SIGNATURE, "")
    matches = key.matches(signed_content(ext_fields, body), signature)
    if UNIQUE_KEY_QUERY in ext_fields:
        matches |= key.matches(signed_content(ext_fields, body, leave_out=UNIQUE_KEY_QUERY), signature)
    return matches


class RequestSigner:
    """Signer of one client's requests. A request that is sent again may be signed again."""

    def __init__(self, credentials: SessionCredentials) -> None:
        self._credentials = credentials
        self._key = SigningKey(credentials.secret_key)

    def __call__(self, request: RemotingCommand) -> None:
        """Add account and signature to the request's ext fields; the last step before it is sent."""
        fields = {} if request.ext_fields is None else request.ext_fields
        fields[ACCESS_KEY] = self._credentials.access_key
        if self._credentials.security_token is not None:
            fields[SECURITY_TOKEN] = self._credentials.security_token
        fields[SIGNATURE] = self._key.sign(signed_content(fields, request.body)).decode("ascii")
        request.ext_fields = fields


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")
