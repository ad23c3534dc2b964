"""A pull in progress: both kinds of decoded header are accepted, and pulls compare by identity."""

from __future__ import annotations

from typing import cast

import pytest

from rocketpy.broker.pull.request import PullHeader, PullRequest
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.codes import RequestCode, SerializeType
from rocketpy.protocol.command import make_request
from rocketpy.protocol.fast_path_headers import decode_fast_pull
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.pull import PullMessageRequestHeader
from rocketpy.remoting.connection import Connection
from tests.broker.message_broker import pull_header

FIELDS = [name for name, member in vars(PullHeader).items() if isinstance(member, property)]


def pull_request(header: PullHeader) -> PullRequest:
    return PullRequest(
        connection=cast("Connection", None),
        opaque=7,
        serialize_type=SerializeType.JSON,
        is_oneway=False,
        header=header,
        queue_offset=header.queue_offset,
        message_filter=None,
        group_config=SubscriptionGroupConfig("G"),
        deadline=0.0,
        resume=lambda request, is_final: True,
    )


def test_both_decoded_headers_have_every_field_with_the_same_value() -> None:
    """The code that wakes a held pull does not know on which path it arrived."""
    given = pull_header(queue_id=3, queue_offset=1 << 40, max_msg_nums=17, sys_flag=6, commit_offset=99, sub_version=5)
    request = make_request(RequestCode.PULL_MESSAGE, given)
    whole = read_header(request, PullMessageRequestHeader)
    frame = encode_frame(request)
    fast = decode_fast_pull(frame[8:]).ext_fields
    assert len(FIELDS) == 11
    for name in FIELDS:
        assert getattr(whole, name) == getattr(fast, name) == getattr(given, name), name


def test_two_pulls_of_one_thing_are_two() -> None:
    """They are kept in sets and dictionaries: an answer to one is none to the other."""
    first, second = pull_request(pull_header()), pull_request(pull_header())
    assert first != second
    assert len({first, second}) == 2


def test_the_search_goes_on_and_what_was_asked_for_stays() -> None:
    request = pull_request(pull_header(queue_offset=10))
    request.queue_offset = 50
    assert (request.queue_offset, request.header.queue_offset) == (50, 10)


def test_the_hook_context_has_an_owner_only_if_the_pull_has_one() -> None:
    assert pull_request(pull_header()).owner is None


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(AttributeError):
        pull_request(pull_header()).offset = 1  # type: ignore[attr-defined]
