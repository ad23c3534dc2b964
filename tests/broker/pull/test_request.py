"""A pull in progress: both kinds of decoded header are accepted."""

from __future__ import annotations

from rocketpy.broker.pull.request import PullHeader
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.fast_path_headers import decode_fast_pull
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.pull import PullMessageRequestHeader
from tests.broker.message_broker import pull_header

FIELDS = [name for name, member in vars(PullHeader).items() if isinstance(member, property)]


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
