"""The statuses are the response codes that mean them."""

from __future__ import annotations

from rocketpy.client.results import PullStatus, SendStatus
from rocketpy.protocol.codes import ResponseCode


def test_send_statuses_are_the_codes_that_mean_stored() -> None:
    assert {each.name: each.value for each in SendStatus} == {
        "SEND_OK": ResponseCode.SUCCESS,
        "FLUSH_DISK_TIMEOUT": ResponseCode.FLUSH_DISK_TIMEOUT,
        "FLUSH_SLAVE_TIMEOUT": ResponseCode.FLUSH_SLAVE_TIMEOUT,
        "SLAVE_NOT_AVAILABLE": ResponseCode.SLAVE_NOT_AVAILABLE,
    }


def test_pull_statuses_are_the_codes_of_pull_answers() -> None:
    assert {each.name: each.value for each in PullStatus} == {
        "FOUND": ResponseCode.SUCCESS,
        "NO_NEW_MSG": ResponseCode.PULL_NOT_FOUND,
        "NO_MATCHED_MSG": ResponseCode.PULL_RETRY_IMMEDIATELY,
        "OFFSET_ILLEGAL": ResponseCode.PULL_OFFSET_MOVED,
    }
