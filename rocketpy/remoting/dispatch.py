"""Dispatch table from request codes to processors, and the conversion of their outcomes into replies.

A processor is a plain function of (connection, request): it returns a reply, ``None`` for no reply, or ``DEFERRED``
after passing the request to a component that replies later. It may raise :class:`RequestError`, which is answered with
its code and remark. A rare slow command is registered as a task instead. A *fast path* is chosen by the first twelve
bytes of a JSON header, which name the code, before anything is decoded; it may decline.

This is the guard of each request: any other exception of a processor is answered with SYSTEM_ERROR and logged with its
traceback, also in a task or a late answer (:meth:`Connection.answer_later`). ``StoreError`` and ``AssertionError`` pass
through: they end the program. A ``ShortageError`` does not: the request is answered with SYSTEM_BUSY and the cause.

Compatibility: the answers of ``NettyRemotingAbstract.processRequestCommand`` (4.9.8).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Protocol

from rocketpy.containment import Contained, contain
from rocketpy.errors import LocalProtocolError, RequestError, ShortageError
from rocketpy.log_files import is_logged
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RESPONSE_FLAG, RemotingCommand, make_response
from rocketpy.protocol.frame import decode_command, encode_frame
from rocketpy.remoting.burst import Burst, no_hook
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import DEFERRED, Deferred, Owed

FAST_PATH_PREFIX_SIZE: Final = 12
"""``{"code":310,`` and ``{"code":11,"``: long enough to name every code of two or three digits."""

REMARK_LENGTH_MAX: Final = 8192
"""Longer remarks are truncated."""

_log = logging.getLogger("rocketpy.remoting")


Processor = Callable[[Connection, RemotingCommand], RemotingCommand | Deferred | None]
AsyncProcessor = Callable[[Connection, RemotingCommand], Awaitable[RemotingCommand | None]]
FastPath = Callable[[Connection, bytes, bytes | None], int]
"""Serves a request and returns True or TOOK_LONG; returns False, without side effects, to decline it."""

TOOK_LONG: Final = 2
"""Returned by a fast path for a request that may have taken a millisecond, so that the driver checks its deadline."""

FastGuard = Callable[[FastPath], FastPath]
Authorize = Callable[[Connection, RemotingCommand], None]
"""Raises RequestError for a request that the peer has no permission for."""


class RpcHook(Protocol):
    """Third-party hook around every request. Registering one switches off all fast paths."""

    def before_request(self, peer: str, request: RemotingCommand) -> None:
        """Inspect an authorized request before its processor; RequestError refuses it."""
        ...

    def after_response(self, peer: str, request: RemotingCommand, response: RemotingCommand | None) -> None:
        """Inspect the answer before it is sent; None for one that is deferred or never sent."""
        ...


class Dispatcher:
    """The table of processors of one program. Filled at start, then only read.

    ``authorize`` is called before anything else for every request, unknown codes included. With it, a fast path is used
    only when ``fast_guards`` has a guard for its code. The guard wraps the fast path: it serves requests that are
    certainly allowed and declines all others, which then take the general path through ``authorize``.
    """

    def __init__(
        self,
        *,
        unsupported_log: Callable[[int], None] | None = None,
        end_burst: Callable[[], None] = no_hook,
        after_replies: Callable[[], None] = no_hook,
        authorize: Authorize | None = None,
        fast_guards: Mapping[int, FastGuard] | None = None,
    ) -> None:
        self.fast_paths: dict[bytes, FastPath] = {}
        self.burst = Burst(end_burst=end_burst, after_replies=after_replies)
        """The burst that requests are served in; shared by all dispatchers of one store, :meth:`without` included."""
        self.needs: dict[int, object] = {}
        """Declared needs of each registered code; None for a code without a declaration."""
        self._processors: dict[int, Processor] = {}
        self._task_processors: dict[int, AsyncProcessor] = {}
        self._rpc_hooks: list[RpcHook] = []
        self._authorize = authorize
        self._is_guarded = authorize is not None
        self._fast_guards = fast_guards or {}
        self._unsupported_log = unsupported_log
        self._unsupported_seen: set[int] = set()
        self._shortage_count = 0

    def register(self, codes: int | Iterable[int], processor: Processor, *, needs: object = None) -> None:
        """Answer requests of these codes with ``processor``; a code has one processor.

        ``needs`` is kept in :attr:`needs`, and means something only to the owner of ``authorize``.
        """
        for code in (codes,) if isinstance(codes, int) else codes:
            assert code not in self._processors, f"two processors for request code {code}"
            self._processors[int(code)] = processor
            self.needs[int(code)] = needs

    def register_task(self, codes: int | Iterable[int], processor: AsyncProcessor, *, needs: object = None) -> None:
        """Answer requests of these codes in a task each: for rare commands that wait for the disk or for peers."""
        for code in (codes,) if isinstance(codes, int) else codes:
            assert code not in self._task_processors, f"two processors for request code {code}"
            self._task_processors[int(code)] = processor
            self.needs[int(code)] = needs

    def register_fast_path(self, code: int, fast_path: FastPath) -> None:
        """Offer JSON requests whose header begins with this code to ``fast_path`` first."""
        if self._rpc_hooks:
            return
        if self._authorize is not None:
            guard = self._fast_guards.get(int(code))
            if guard is None:
                return
            fast_path = guard(fast_path)
        self.fast_paths[_fast_path_prefix(code)] = fast_path

    def register_rpc_hook(self, hook: RpcHook) -> None:
        """Call ``hook`` for every request; hooks are called in the order of registration."""
        self._rpc_hooks.append(hook)
        self._is_guarded = True
        self.fast_paths.clear()

    def without(self, codes: Iterable[int]) -> Dispatcher:
        """Return a copy without ``codes``: for the VIP port, which refuses pulls."""
        other = Dispatcher(
            unsupported_log=self._unsupported_log,
            authorize=self._authorize,
            fast_guards=self._fast_guards,
        )
        other.burst = self.burst
        for hook in self._rpc_hooks:
            other.register_rpc_hook(hook)
        refused = {int(code) for code in codes}
        prefixes = {_fast_path_prefix(code) for code in refused}
        other.fast_paths = {prefix: path for prefix, path in self.fast_paths.items() if prefix not in prefixes}
        other.needs = {code: needs for code, needs in self.needs.items() if code not in refused}
        other._processors = {code: p for code, p in self._processors.items() if code not in refused}
        other._task_processors = {code: p for code, p in self._task_processors.items() if code not in refused}
        return other

    def dispatch(self, connection: Connection, serialize_type: int, header: bytes, body: bytes | None) -> None:
        """Decode one frame and serve it; RemoteProtocolError when the header is malformed."""
        command = decode_command(serialize_type, header, body)
        if command.flag & 1:
            connection.complete_request(command)
            return
        response: RemotingCommand | Deferred | None
        try:
            if self._is_guarded:
                self._admit(connection, command)
            processor = self._processors.get(command.code)
            if processor is None:
                self._dispatch_task(connection, command)
                return
            response = processor(connection, command)
        except Exception as failure:
            response = self._failed(command, command.code, failure)
        if self._rpc_hooks:
            self._show_response(connection, command, response)
        if response is DEFERRED:
            connection.count_deferred()
        elif response is not None and not command.is_oneway:
            assert isinstance(response, RemotingCommand)
            _reply(connection, command, response)

    def answer_failure(self, connection: Connection, header: bytes, body: bytes | None, failure: Exception) -> None:
        """Answer a request whose fast path raised an unexpected exception; its effects so far are not undone."""
        command = decode_command(0, header, body)
        response = self._failed(command, command.code, failure)
        if not command.is_oneway:
            _reply(connection, command, response)

    async def run_deferred(
        self,
        connection: Connection,
        owed: Owed,
        function: Callable[..., Awaitable[RemotingCommand | bytes | Deferred]],
        *arguments: object,
    ) -> None:
        """Answer a deferred request with the result of ``function``; see ``Connection.answer_later``."""
        answer: RemotingCommand | bytes | Deferred
        try:
            answer = await function(*arguments)
        except Exception as failure:
            answer = self._failed(owed, "answered later", failure)
        with self.burst:
            if not isinstance(answer, Deferred):
                connection.answer_deferred(owed, answer if isinstance(answer, bytes) else _encoded(owed, answer))

    # ---- private --------------------------------------------------------------------------------------------------

    def _admit(self, connection: Connection, command: RemotingCommand) -> None:
        if self._authorize is not None:
            self._authorize(connection, command)
        for hook in self._rpc_hooks:
            hook.before_request(connection.peer, command)

    def _show_response(
        self, connection: Connection, command: RemotingCommand, response: RemotingCommand | Deferred | None
    ) -> None:
        for hook in self._rpc_hooks:
            with Contained(_log, "showing the answer to request code %d to a hook", command.code):
                hook.after_response(connection.peer, command, None if isinstance(response, Deferred) else response)

    def _dispatch_task(self, connection: Connection, command: RemotingCommand) -> None:
        slow = self._task_processors.get(command.code)
        if slow is not None:
            if not connection.start_command(self._run_task, slow, connection, command):
                remark = f"[OVERLOAD]system busy, start flow control for a while: {command.code} has too many tasks"
                _reply_unless_oneway(connection, command, ResponseCode.SYSTEM_BUSY, remark)
            return
        if command.code not in self._unsupported_seen:
            if len(self._unsupported_seen) < 1024:
                self._unsupported_seen.add(command.code)
            if self._unsupported_log is not None:
                self._unsupported_log(command.code)
        remark = f" request type {command.code} not supported"
        _reply_unless_oneway(connection, command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)

    def _failed(self, owed: Owed, what: object, failure: Exception) -> RemotingCommand:
        """Convert a processor's exception into an answer; an unexpected one is logged with its traceback.

        Reraises exceptions that must end the program.
        """
        if isinstance(failure, RequestError):
            return _answer_to(owed, failure.response_code, failure.remark)
        if isinstance(failure, ShortageError):
            self._shortage_count += 1
            if is_logged(self._shortage_count):
                _log.warning("request code %s is refused: %s", what, failure)
            return _answer_to(owed, ResponseCode.SYSTEM_BUSY, str(failure))
        contain(failure, _log, "processing request code %s", what)
        return _answer_to(owed, ResponseCode.SYSTEM_ERROR, f"{type(failure).__name__}: {failure}")

    async def _run_task(self, slow: AsyncProcessor, connection: Connection, command: RemotingCommand) -> None:
        try:
            response = await slow(connection, command)
        except Exception as failure:
            response = self._failed(command, command.code, failure)
        if self._rpc_hooks:
            self._show_response(connection, command, response)
        with self.burst:
            if response is not None and not command.is_oneway:
                _reply(connection, command, response)


def _fast_path_prefix(code: int) -> bytes:
    prefix = (b'{"code":%d,"' % code)[:FAST_PATH_PREFIX_SIZE]
    assert len(prefix) == FAST_PATH_PREFIX_SIZE, code
    return prefix


def _answer_to(owed: Owed, code: int, remark: str) -> RemotingCommand:
    return RemotingCommand(
        code=code, remark=remark, opaque=owed.opaque, flag=RESPONSE_FLAG, serialize_type=owed.serialize_type
    )


def _cut(remark: str) -> str:
    """Truncate a remark, which may repeat megabytes of what the peer sent."""
    return remark if len(remark) <= REMARK_LENGTH_MAX else remark[:REMARK_LENGTH_MAX] + "..."


def _reply(connection: Connection, command: RemotingCommand, response: RemotingCommand) -> None:
    connection.reply_frame(_encoded(command, response))


def _encoded(owed: Owed, answer: RemotingCommand) -> bytes:
    """Return the frame of an answer, or of the error that it is longer than a frame can be.

    Every remark is truncated here: some repeat a name from the request, and a megabyte takes 0.1 s to write as JSON.
    """
    if answer.remark is not None and len(answer.remark) > REMARK_LENGTH_MAX:
        answer.remark = _cut(answer.remark)
    try:
        return encode_frame(answer)
    except LocalProtocolError as failure:
        return encode_frame(_answer_to(owed, ResponseCode.SYSTEM_ERROR, f"the answer cannot be sent: {failure}"))


def _reply_unless_oneway(connection: Connection, command: RemotingCommand, code: int, remark: str) -> None:
    if not command.is_oneway:
        connection.reply(make_response(command, code, remark))
