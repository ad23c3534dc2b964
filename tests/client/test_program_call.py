"""What functions of the program may raise, and where the client calls them."""

from __future__ import annotations

import logging

import pytest
import trio

from rocketpy.client.program_call import ProgramCall
from rocketpy.errors import StoreError

_log = logging.getLogger("rocketpy.tests")


@pytest.mark.parametrize("failure", [ValueError("x"), AssertionError("theirs"), StoreError("torn", path="/f")])
def test_an_exception_is_logged_and_ends_there(failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with ProgramCall(_log, "hook %s", "mine"):
        raise failure
    (record,) = caplog.records
    assert record.getMessage() == "hook mine failed unexpectedly; only that was given up"
    assert record.exc_info is not None
    assert record.exc_info[1] is failure


async def test_cancellations_and_what_ends_programs_pass(caplog: pytest.LogCaptureFixture) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        with ProgramCall(_log, "waiting"):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    with pytest.raises(SystemExit), ProgramCall(_log, "leaving"):
        raise SystemExit(1)
    with ProgramCall(_log, "succeeding"):
        pass
    assert not caplog.records
