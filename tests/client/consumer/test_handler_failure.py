"""What is logged of a handler that fails."""

from __future__ import annotations

import pytest

from rocketpy.client.consumer.handler_failure import log_handler_failure
from rocketpy.protocol.message import MessageQueue


def test_a_failure_is_logged_once_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    failure = AssertionError("of the program")
    log_handler_failure(failure, MessageQueue("T", "b", 0), 3)
    (record,) = caplog.records
    assert "its 3 messages are redelivered" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is failure
