"""What a guard keeps inside, and what it lets through."""

from __future__ import annotations

import ast
import logging
import re
from functools import cache
from pathlib import Path

import pytest
import trio

import rocketpy
from rocketpy.containment import Contained, contain, is_containable
from rocketpy.errors import DescriptorShortageError, DiskFullError, RemoteProtocolError, ShortageError, StoreError

_log = logging.getLogger("rocketpy.tests")


@pytest.mark.parametrize("failure", [ZeroDivisionError("x"), RecursionError("deep"), RemoteProtocolError("garbage")])
def test_an_unexpected_failure_ends_only_the_block(failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with Contained(_log, "serving %s", "peer:1") as block:
        raise failure
    assert block.has_failed
    (record,) = caplog.records
    assert record.getMessage() == "serving peer:1 failed unexpectedly; only that was given up"
    assert record.exc_info is not None
    assert record.exc_info[1] is failure


def test_a_block_that_succeeds_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with Contained(_log, "serving") as block:
        pass
    assert not block.has_failed
    assert not caplog.records


DOUBTFUL = [StoreError("torn", path="/f"), AssertionError("ours")]
"""What a program must not go on after."""


@pytest.mark.parametrize("failure", [*DOUBTFUL, KeyboardInterrupt(), SystemExit(1)])
def test_what_must_end_the_program_passes(failure: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(type(failure)), Contained(_log, "serving"):
        raise failure
    assert not caplog.records


@pytest.mark.parametrize(
    "shortage",
    [DiskFullError(path="/f", wanted_bytes=2, free_bytes=1), DescriptorShortageError("cannot open", path="/f")],
)
def test_a_shortage_ends_only_the_block_and_is_one_line(
    shortage: ShortageError, caplog: pytest.LogCaptureFixture
) -> None:
    with Contained(_log, "serving %s", "peer:1") as block:
        raise shortage
    assert block.has_failed
    (record,) = caplog.records
    assert record.getMessage() == f"serving peer:1 was given up: {shortage}"
    assert record.exc_info is None


def test_a_group_is_as_bad_as_its_worst() -> None:
    assert is_containable(ExceptionGroup("", [ValueError(), ExceptionGroup("", [KeyError()])]))
    assert not is_containable(ExceptionGroup("", [ValueError(), ExceptionGroup("", [StoreError("torn", path="/f")])]))
    assert not is_containable(BaseExceptionGroup("", [ValueError(), KeyboardInterrupt()]))


async def test_cancellation_passes(caplog: pytest.LogCaptureFixture) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        with Contained(_log, "waiting"):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert not caplog.records


def test_contain_is_the_same_rule_without_a_block(caplog: pytest.LogCaptureFixture) -> None:
    contain(ZeroDivisionError("x"), _log, "serving %s", "peer:1")
    contain(DiskFullError(path="/f", wanted_bytes=2, free_bytes=1), _log, "serving %s", "peer:1")
    unexpected, shortage = caplog.messages
    assert unexpected == "serving peer:1 failed unexpectedly; only that was given up"
    assert shortage.startswith("serving peer:1 was given up: no space")
    for failure in DOUBTFUL:
        with pytest.raises(type(failure)):
            contain(failure, _log, "serving")
    assert len(caplog.messages) == 2


# ---- where the program catches everything ---------------------------------------------------------------------------

BROAD_CATCHES = {
    "broker/pull/long_polling.py::_try": "a pull that was held; once per message that wakes one",
    "remoting/burst.py::__exit__": "BaseException: a write, after which nothing is sent, raised again; and woken pulls",
    "remoting/burst.py::flush_replies": "a send; once per connection and burst",
    "remoting/client.py::_tls_stream": "BaseException: closes the socket; raised again",
    "remoting/connection.py::serve": "a fast path; once per message",
    "remoting/dispatch.py::_run_task": "a slow command: the failure becomes an answer",
    "remoting/dispatch.py::dispatch": "a request: the failure becomes an answer",
    "remoting/dispatch.py::run_deferred": "a request that is answered later: the failure becomes an answer",
    "remoting/hub.py::_serve_backlog": "the frames of a peer that were left from an earlier turn",
    "remoting/hub.py::_serve_ready": "each step of the hub for a ready peer; once per event",
    "nameserver/kv_config.py::_write_waiting": "BaseException: others' changes wait for the next writer; raised again",
    "remoting/stream_driver.py::_serve": "a slice of frames, inside a burst that must end all the same",
    "client/shells/asyncio_shell.py::__aenter__": "BaseException: a client that was not opened gives its loop back",
    "client/shells/asyncio_shell.py::__aexit__": "the block's own exception is left to Python",
    "client/shells/guest_host.py::acquire": "BaseException: a client that gives up while its run starts leaves it",
    "client/shells/blocking_shell.py::__enter__": "BaseException: a client that was not opened ends its thread",
    "client/shells/blocking_shell.py::__exit__": "the block's own exception is left to Python",
    "client/shells/handler_threads.py::run": "BaseException: logged if the handler was left; raised again",
    "client/shells/loop_thread.py::call": "BaseException: an interrupt of the waiting thread cancels the call",
    "client/producer/transaction.py::_checked": "a program's check of a transaction: its failure is UNKNOW, as in Java",
    "client/producer/transaction.py::_run": "a program's local transaction: its failure is UNKNOW, as in Java",
    "client/producer/transaction.py::transaction": "BaseException: the verdict, or a warning; raised again",
    "client/producer/attempt_hooks.py::before": "a program's own hook, which forbids the send by what it raises",
    "client/producer/selectors.py::select_queue": "a program's selector: its failure becomes a ClientError, as in Java",
    "client/consumer/concurrently.py::_consume": "BaseException: a program's handler: its messages are consumed again",
    "client/consumer/direct_consumption.py::consume": "BaseException: a handler: its failure becomes an answer",
    "client/consumer/orderly.py::_status_of": "BaseException: a program's handler: its messages are consumed again",
    "spark/source.py::streamReader": "PySpark loses what this raises: the reader that is returned raises it",
    "client/scope.py::unwrapped": "BaseException: distinguished from a group that holds it; raised again",
    "testing/fixture/life.py::_run": "the failure of a program is kept for the test; a cancellation is raised again",
    "testing/replica.py::run": "notes a death that was arranged; everything is raised again",
    "testing/sim/host.py::_live": "a process of the simulation ends; what no process may end with is raised again",
    "testing/store_world.py::_end": "BaseException: the end of a simulated life is what the test asks about",
}
"""Where everything is caught, by module and function. A new site needs a reason why ``Contained`` does not do."""


BROAD = {"Exception", "BaseException"}
_MAY_BE_BROAD = re.compile(r"\bexcept(\s*:|\b[^:]*\b(Base)?Exception\b)")


class _Sites(ast.NodeVisitor):
    """The functions that catch Exception, BaseException or everything, and whether they look at what they caught."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.found: list[tuple[str, ast.ExceptHandler]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.functions.append(node.name)
        self.generic_visit(node)
        self.functions.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        if any(each is None or (isinstance(each, ast.Name) and each.id in BROAD) for each in caught):
            self.found.append((self.functions[-1] if self.functions else "", node))
        self.generic_visit(node)


@cache
def broad_catches() -> list[tuple[str, ast.ExceptHandler]]:
    root = Path(rocketpy.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        sites = _Sites()
        if _MAY_BE_BROAD.search(source := path.read_text()):
            sites.visit(ast.parse(source))
        found += [(f"{path.relative_to(root)}::{function}", handler) for function, handler in sites.found]
    return found


def test_every_broad_catch_is_listed_with_its_reason() -> None:
    """A service that catches everything goes on with state that cannot be trusted."""
    assert sorted({site for site, _ in broad_catches()}) == sorted(BROAD_CATCHES)
    assert len(broad_catches()) == len(BROAD_CATCHES) + 1, "the end of a burst has two"


@pytest.mark.parametrize(
    ("site", "handler"), broad_catches(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_broad_catch_decides_by_the_one_rule_or_raises_again(site: str, handler: ast.ExceptHandler) -> None:
    """``contain`` and what calls it let a StoreError and our own mistakes pass."""
    called = {node.func for node in ast.walk(handler) if isinstance(node, ast.Call)}
    names = {each.id for each in called if isinstance(each, ast.Name)}
    names |= {each.attr for each in called if isinstance(each, ast.Attribute)}
    raises = any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    deciding = {"contain", "is_containable", "_failed", "_refuse", "answer_failure"}
    deciding |= {"contain_handler_failure", "log_program_failure"}  # the program's own, which say nothing of our state
    assert raises or names & deciding, site
