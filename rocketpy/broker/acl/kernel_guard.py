"""Access control on the fast paths of single sends, batches and pulls where the kernels are compiled.

The kernel reads the header, which the fast path then does not read again, and gives what was signed in one step. A
guard passes what it knows to be allowed: a request of an account and with names that
:class:`~rocketpy.broker.acl.fast_path_guards.FastPathGuards` has permitted on this connection before. It leaves any
other request to that guard, which decides and remembers.

Rule: like that guard, it passes only what has a valid signature. One that says what it is for is left to that guard.

Rule: the kernel reads no header of another code than that in the first member, by which the fast path was chosen, so
the sessions are those of the code that is served. Of pulls it reads only those like one that the fast path has decoded.
"""

from __future__ import annotations

from typing import Final, final

from rocketpy.broker.acl.session import Session
from rocketpy.protocol.signature import SIGNED_FOR_BEGIN
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import FastPath

_NO_BODY: Final = b""
_SIGNED_FOR_BEGIN: Final = SIGNED_FOR_BEGIN
_COPIED_MAX: Final = 1024
"""Bytes of a body that is copied behind what is signed of its header. To hash a longer one on its own is cheaper."""


class _Guard:
    """What guards have: the sessions, and the ways that a request may take."""

    def __init__(self, sessions: dict[str, Session], *, fast_path: FastPath, guarded: FastPath) -> None:
        """Take the sessions by peer, the fast path, and the same behind the guard that fills the sessions."""
        self._sessions = sessions
        self._fast_path = fast_path
        self._guarded = guarded


@final
class KernelGuard(_Guard):
    """Guard of the fast path of sends or of batches."""

    def process(self, connection: Connection, header: bytes, body: bytes | None) -> int:
        """Serve a request that is certainly allowed by the fast path; leave any other to the other guard."""
        session = self._sessions.get(connection.peer)
        sent = connection.last_send  # None before the first send of a peer
        if (
            session is not None
            and sent is not None
            and sent.read(header)
            and sent.access_key == session.access_key
            and session.allows(sent.topic, sent.producer_group)
        ):
            content = _NO_BODY if body is None else body
            if len(content) <= _COPIED_MAX:
                signed = sent.signed_content(content)
                is_signed = session.matches_text(signed, sent.signature)
            else:
                signed = sent.signed_content(_NO_BODY)
                is_signed = session.matches_text(signed, sent.signature, content)
            if is_signed and not signed.startswith(_SIGNED_FOR_BEGIN):
                return self._fast_path(connection, header, body)
        return self._guarded(connection, header, body)


@final
class KernelPullGuard(_Guard):
    """Guard of the fast path of pulls."""

    def process(self, connection: Connection, header: bytes, body: bytes | None) -> int:
        """Serve a pull that is certainly allowed by the fast path; leave any other to the other guard."""
        session = self._sessions.get(connection.peer)
        forms = connection.kept_pulls  # None before the first pull of a peer
        form = None if session is None or forms is None else forms.find(header)
        if (
            session is not None
            and form is not None
            and form.access_key == session.access_key
            and session.allows(form.topic, form.consumer_group)
        ):
            signed = form.signed_content(header, _NO_BODY if body is None else body)
            if session.matches_text(signed, form.signature) and not signed.startswith(_SIGNED_FOR_BEGIN):
                return self._fast_path(connection, header, body)
        return self._guarded(connection, header, body)
