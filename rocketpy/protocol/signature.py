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

from collections.abc import Mapping
from typing import Final

import attrs

from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.signing_key import SigningKey

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"


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
