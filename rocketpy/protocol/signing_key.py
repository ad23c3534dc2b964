"""The secret key of an account, ready to sign: HMAC-SHA1 of OpenSSL, with the work on the key done once.

What is signed is said in :mod:`.signature`.
"""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from hmac import compare_digest
from typing import Final, final

_BLOCK_SIZE: Final = 64
_INNER_PAD: Final = bytes(each ^ 0x36 for each in range(256))
_OUTER_PAD: Final = bytes(each ^ 0x5C for each in range(256))


@final
class SigningKey:
    """A secret key, ready to sign. Its ``repr`` does not show it.

    The two blocks that HMAC makes of the key are hashed once and copied for each signature, which takes half the time
    of ``hmac.digest``.
    """

    __slots__ = ("_copy_inner", "_copy_outer")

    def __init__(self, secret_key: str) -> None:
        """Take the key as it stands in a file of accounts."""
        key = secret_key.encode("utf-8", "replace")
        if len(key) > _BLOCK_SIZE:
            key = hashlib.sha1(key, usedforsecurity=False).digest()
        key = key.ljust(_BLOCK_SIZE, b"\0")
        # The bound methods, which compiled code calls without a look-up.
        self._copy_inner = hashlib.sha1(key.translate(_INNER_PAD), usedforsecurity=False).copy
        self._copy_outer = hashlib.sha1(key.translate(_OUTER_PAD), usedforsecurity=False).copy

    def sign(self, content: bytes) -> bytes:
        """Return the Base64 text of the HMAC-SHA1 of ``content``."""
        return b2a_base64(self._digest(content), newline=False)

    def matches(self, content: bytes, signature: str) -> bool:
        """Whether ``signature`` is that of ``content``; takes the same time right or wrong."""
        return self.matches_text(content, signature.encode("utf-8", "replace"))

    def matches_text(self, content: bytes, signature: bytes, rest: bytes = b"") -> bool:
        """The same for the bytes of a signature's text, of ``content`` and a ``rest`` that are not copied together."""
        return compare_digest(b2a_base64(self._digest(content, rest), newline=False), signature)

    def matches_digest(self, content: bytes, digest: bytes, rest: bytes = b"") -> bool:
        """The same for a signature already decoded from Base64."""
        return compare_digest(self._digest(content, rest), digest)

    def is_same(self, other: SigningKey) -> bool:
        """Whether both are made of the same secret key."""
        return compare_digest(self._digest(b""), other._digest(b""))

    def _digest(self, content: bytes, rest: bytes = b"") -> bytes:
        inner = self._copy_inner()
        inner.update(content)
        if rest:
            inner.update(rest)
        outer = self._copy_outer()
        outer.update(inner.digest())
        return outer.digest()
