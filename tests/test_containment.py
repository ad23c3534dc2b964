"""What a guard keeps inside, and what it lets through."""

from __future__ import annotations

import logging

import pytest
import trio

from rocketpy.containment import Contained, is_containable
from rocketpy.errors import DescriptorShortageError, DiskFullError, RemoteProtocolError, ShortageError, StoreError

_log = logging.getLogger("rocketpy.tests")


@pytest.mark.parametrize("failure", [ZeroDivisionError("x"), RecursionError("deep"), RemoteProtocolError("garbage")])
def test_an_unexpected_failure_ends_only_the_block(failure, caplog):
    with Contained(_log, "serving %s", "peer:1") as block:
        raise failure
    assert block.has_failed
    (record,) = caplog.records
    assert record.getMessage() == "serving peer:1 failed unexpectedly; only that was given up"
    assert record.exc_info[1] is failure


def test_a_block_that_succeeds_says_nothing(caplog):
    with Contained(_log, "serving") as block:
        pass
    assert not block.has_failed
    assert not caplog.records


@pytest.mark.parametrize(
    "failure",
    [
        StoreError("torn", path="/f"),
        AssertionError("ours"),
        KeyboardInterrupt(),
        SystemExit(1),
    ],
)
def test_what_must_end_the_program_passes(failure, caplog):
    with pytest.raises(type(failure)), Contained(_log, "serving"):
        raise failure
    assert not caplog.records


@pytest.mark.parametrize(
    "shortage",
    [DiskFullError(path="/f", wanted_bytes=2, free_bytes=1), DescriptorShortageError("cannot open", path="/f")],
)
def test_a_shortage_ends_only_the_block_and_is_one_line(shortage: ShortageError, caplog: pytest.LogCaptureFixture):
    with Contained(_log, "serving %s", "peer:1") as block:
        raise shortage
    assert block.has_failed
    (record,) = caplog.records
    assert record.getMessage() == f"serving peer:1 was given up: {shortage}"
    assert record.exc_info is None


def test_a_group_is_as_bad_as_its_worst():
    assert is_containable(ExceptionGroup("", [ValueError(), ExceptionGroup("", [KeyError()])]))
    assert not is_containable(ExceptionGroup("", [ValueError(), ExceptionGroup("", [StoreError("torn", path="/f")])]))
    assert not is_containable(BaseExceptionGroup("", [ValueError(), KeyboardInterrupt()]))


async def test_cancellation_passes(caplog):
    with trio.CancelScope() as scope:
        scope.cancel()
        with Contained(_log, "waiting"):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert not caplog.records
