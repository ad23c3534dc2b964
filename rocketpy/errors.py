"""The exceptions of rocketpy, grouped by who must act.

Rule: an expected outcome is a status, never an exception. What remains is a mistake of the caller
(:class:`LocalProtocolError`, ``ValueError``), of the peer (:class:`RemoteProtocolError`: the connection closes), one
refused request (:class:`RequestError`: the connection lives), the disk (:class:`StoreError`: the broker stops; a
:class:`ShortageError` passes, and the broker lives), the operator (:class:`SettingsError`, :class:`StartError`: exit
status 2) or ours (``AssertionError``: the broker stops).
Messages say what was expected, what was found and where; they have no trailing stop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum

_SHOWN_CHARACTERS_MAX = 8_192


class RocketpyError(Exception):
    """Base class of every exception that rocketpy raises on purpose. It can be copied and pickled, with its fields."""

    def __reduce__(self) -> tuple[object, ...]:
        # Exception's own calls the class with the text of the message, which is not what each class takes.
        return _made_again, (type(self), self.args), self.__dict__


def _made_again(kind: type[RocketpyError], arguments: tuple[object, ...]) -> RocketpyError:
    return kind.__new__(kind, *arguments)


class LocalProtocolError(RocketpyError):
    """The caller passed a value that the protocol cannot encode; nothing was sent."""


class RemoteProtocolError(RocketpyError):
    """The peer violated the protocol; its connection is closed, nothing else is affected."""


class RequestError(RocketpyError):
    """One request is refused with a response code of RocketMQ's and a remark that names the cause.

    A processor raises it, the server answers it, and the connection lives on.
    """

    def __init__(self, response_code: int, remark: str) -> None:
        super().__init__(f"CODE: {response_code}  DESC: {remark}")
        self.response_code = response_code
        self.remark = remark


class StoreError(RocketpyError):
    """A disk operation failed, or a file is damaged; the broker stops and keeps its abort file."""

    def __init__(self, message: str, *, path: str, position: int | None = None) -> None:
        where = path if position is None else f"{path} at {position}"
        super().__init__(f"{message} ({where})")
        self.path = path
        self.position = position


class ShortageError(StoreError):
    """A resource of the system is exhausted for now. Nothing was changed by the call that raises it.

    The broker goes on: the affected piece of work is refused, or retried later. The message names the cause.
    """


class DiskFullError(ShortageError):
    """No space is left for a reservation; reads go on, and sends work again when there is space."""

    def __init__(self, *, path: str, wanted_bytes: int, free_bytes: int) -> None:
        super().__init__(f"no space: {wanted_bytes} bytes wanted, {free_bytes} bytes free", path=path)
        self.wanted_bytes = wanted_bytes
        self.free_bytes = free_bytes


class DescriptorShortageError(ShortageError):
    """No file descriptor is left in the process (``ulimit -n``) or in the system; works again when some are closed."""

    def __init__(self, action: str, *, path: str, reason: str = "too many open files") -> None:
        super().__init__(f"{action}: no file descriptor is left ({reason})", path=path)


class TableWriteError(ShortageError):
    """A table's file cannot be written: its directory is gone or read-only, or the disk has failed there.

    The table is in memory and its file is the old one, so no program ends for that: the write is tried again.
    """


class DamagedStoreError(StoreError):
    """A store is damaged in a way that no crash causes: opening it would silently lose the records after the damage.

    The message says what was expected there and what was found; ``rocketpy store`` shows, explains and repairs it.
    """

    def __init__(self, message: str, *, path: str, position: int | None = None) -> None:
        super().__init__(f"{message}; `rocketpy store verify` shows what is left", path=path, position=position)


class SettingsError(RocketpyError):
    """A configuration file or option is wrong; says file, line, key, value and what was expected. Exit status 2."""


class StartError(RocketpyError):
    """A process cannot start (port in use, store locked, directory not writable). One sentence; exit status 2."""


class RemotingError(RocketpyError):
    """A request could not be sent or was not answered; says which address."""


class RemotingConnectError(RemotingError):
    """No connection to the address could be made."""


class RemotingRefusedError(RemotingConnectError):
    """No program listens at the address: its broker or nameserver does not run."""


class RemotingSendRequestError(RemotingError):
    """The connection ended while the request was on its way; whether the peer has processed it is unknown."""


class RemotingTimeoutError(RemotingError):
    """No answer within the time allowed; whether the peer has processed the request is unknown."""


class RemotingTooMuchRequestError(RemotingError):
    """A bound on requests in flight or buffered bytes is reached; nothing was sent."""


class ClientErrorCode(IntEnum):
    """Codes of :class:`ClientError`, as in RocketMQ's class of that name; -1 stands for all others."""

    BROKER_NOT_EXIST_EXCEPTION = 10003
    NO_NAME_SERVER_EXCEPTION = 10004
    NOT_FOUND_TOPIC_EXCEPTION = 10005
    REQUEST_TIMEOUT_EXCEPTION = 10006
    CREATE_REPLY_MESSAGE_EXCEPTION = 10007


class ClientError(RocketpyError):
    """A client call failed before or without a broker's answer (no route, no nameserver, an invalid message).

    ``response_code`` is a :class:`ClientErrorCode`, or -1. What programs tell apart has a class of its own.
    """

    def __init__(self, response_code: int, message: str) -> None:
        super().__init__(f"CODE: {response_code}  DESC: {message}")
        self.response_code = response_code


class NoBrokerError(ClientError):
    """No nameserver knows the broker of a queue: it has gone, or has not registered yet (10003)."""

    def __init__(self, message: str) -> None:
        super().__init__(ClientErrorCode.BROKER_NOT_EXIST_EXCEPTION, message)


class NoNameServerError(ClientError):
    """A client was given no nameserver (10004). One that does not answer is a :class:`RemotingConnectError`."""

    def __init__(self, message: str) -> None:
        super().__init__(ClientErrorCode.NO_NAME_SERVER_EXCEPTION, message)


class NoRouteError(ClientError):
    """A topic has no route that can be used: no broker has it, or lets it be written (10005)."""

    def __init__(self, message: str) -> None:
        super().__init__(ClientErrorCode.NOT_FOUND_TOPIC_EXCEPTION, message)


class NoReplyError(ClientError):
    """The message of a ``request`` is stored, but no reply has come in time (10006)."""

    def __init__(self, message: str) -> None:
        super().__init__(ClientErrorCode.REQUEST_TIMEOUT_EXCEPTION, message)


class NotReadyError(ClientError):
    """What a role depends on does not stand in time: ``missing`` has a text for each thing, with its reason.

    The role is as it was and goes on trying; a program that cannot do without leaves its block.
    """

    def __init__(self, missing: Sequence[str], timeout_s: float) -> None:
        super().__init__(-1, f"not ready after {timeout_s:g} s: " + "; ".join(missing))
        self.missing = tuple(missing)


class BrokerError(RocketpyError):
    """A broker or nameserver answered with an error code. Of a very long ``remark`` the message has the beginning."""

    def __init__(self, response_code: int, remark: str | None, address: str) -> None:
        shown = (remark or "")[:_SHOWN_CHARACTERS_MAX]  # a peer's text may have megabytes
        super().__init__(f"CODE: {response_code}  DESC: {shown} BROKER: {address}")
        self.response_code = response_code
        self.remark = remark
        self.address = address


class BrokersError(RocketpyError):
    """A call to several brokers or nameservers failed at some of them; all of them were asked.

    ``failures`` has the error of each that failed, ``results`` what the others answered, both by address.
    """

    def __init__(self, failures: Mapping[str, RocketpyError], results: Mapping[str, object]) -> None:
        count = len(failures) + len(results)
        texts = "; ".join(f"{address}: {failure}" for address, failure in failures.items())
        super().__init__(f"{len(failures)} of {count} failed: {texts}")
        self.failures = dict(failures)
        self.results = dict(results)


def single_failures(failure: BaseException) -> Iterator[BaseException]:
    """Yield the leaf exceptions of a group, nested groups included; of any other failure the failure itself."""
    if isinstance(failure, BaseExceptionGroup):
        for each in failure.exceptions:
            yield from single_failures(each)
    else:
        yield failure
