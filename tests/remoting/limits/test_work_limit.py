"""What requests hold while tasks work on them is counted for as long as they do, and bounded."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.remoting.limits.work_limit import WorkLimit


def test_beyond_the_limit_a_request_is_refused_until_others_have_ended() -> None:
    at_work = WorkLimit("bytes of things", 100)
    with ExitStack() as others:
        for size in (60, 0, 40):
            others.enter_context(at_work.counted(size))
        with pytest.raises(RequestError) as refused:
            others.enter_context(at_work.counted(1))
        assert refused.value.response_code == ResponseCode.SYSTEM_BUSY
        assert refused.value.remark == (
            "[OVERLOAD]system busy, start flow control for a while: 100 bytes of things wait, this one has 1, the "
            "limit is 100"
        )
    with pytest.raises(KeyError), at_work.counted(100):
        raise KeyError("the request fails")
    with at_work.counted(100):
        pass


def test_one_that_is_alone_is_served_however_long_it_is() -> None:
    at_work = WorkLimit("things", 100)
    for _ in range(2):
        with at_work.counted(1000), pytest.raises(RequestError):
            at_work.counted(1).__enter__()
