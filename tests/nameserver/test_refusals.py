"""Refusals that the processors of the nameserver share."""

from __future__ import annotations

import logging

import pytest

from rocketpy.errors import RequestError, StoreError
from rocketpy.nameserver.refusals import check_names, not_written
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.headers.namesrv import GetRouteInfoRequestHeader


def test_names_that_are_there_pass() -> None:
    check_names(GetRouteInfoRequestHeader(topic="T"), topic="T", cluster=" ")
    check_names(GetRouteInfoRequestHeader(topic="T"))


def test_an_empty_name_is_refused_with_its_header_and_field() -> None:
    with pytest.raises(RequestError) as refused:
        check_names(GetRouteInfoRequestHeader(topic=""), cluster="c", topic="", other="")
    assert refused.value.response_code == ResponseCode.SYSTEM_ERROR
    assert refused.value.remark == "GetRouteInfoRequestHeader.topic: expected a name, found an empty text"


def test_a_file_that_cannot_be_written_is_logged_and_refuses_one_request(caplog: pytest.LogCaptureFixture) -> None:
    refusal = not_written(StoreError("cannot write", path="/namesrv/kvConfig.json"))
    assert refusal.response_code == ResponseCode.SYSTEM_ERROR
    assert refusal.remark == (
        "nothing has changed, the file could not be written: cannot write (/namesrv/kvConfig.json)"
    )
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("rocketpy.nameserver", logging.ERROR)
    assert record.getMessage() == "cannot write (/namesrv/kvConfig.json)"
