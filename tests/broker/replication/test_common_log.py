"""A log that goes on where another one ends is told from one that parts, and from what a stranger claims."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy.broker.replication.common_log import SHOWN_MAX, CommonLog
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.codec import write_header
from rocketpy.protocol.headers.query import CompareRecordResponseHeader
from tests.broker.replication.masters import ADDRESS, JavaMaster, Master, OurMaster, history, records_of, rolled


class OurSlave(OurMaster):
    """Ours, whose records have their units."""

    async def view(self, request: RemotingCommand, offset: int) -> RemotingCommand:
        has_digest = "recordDigest" in (request.ext_fields or {})
        return await (OurMaster.view if has_digest else JavaMaster.view)(self, request, offset)  # type: ignore[arg-type]


BOTH = pytest.mark.parametrize("kind", [JavaMaster, OurSlave])
COMMON = history(b"", [10, 200, 30, 100, 250, 5, 60, 180, 20, 40])
LATER_MS = 1_800_000_000_000


async def difference(own: bytes, other: Master) -> str:
    return await CommonLog(records_of(own), other).difference(ADDRESS)


@BOTH
async def test_a_log_that_is_the_same_or_a_beginning_or_goes_on_is_known(kind: type[Master]) -> None:
    more = history(COMMON, [30, 500, 60, 400, 1])
    for own, other in ((COMMON, COMMON), (COMMON, more), (more, COMMON), (rolled(COMMON), rolled(COMMON))):
        assert await difference(own, kind(content=other)) == ""


@BOTH
@given(st.lists(st.integers(0, 700), max_size=5), st.lists(st.integers(0, 700), max_size=5), st.booleans())
@settings(max_examples=40)
async def test_logs_that_part_are_told_from_those_that_do_not(
    kind: type[Master], own_sizes: list[int], other_sizes: list[int], begins_alike: bool
) -> None:
    begin = COMMON if begins_alike else b""
    own = history(begin, own_sizes, who="own", time_ms=LATER_MS)
    other = history(begin, other_sizes, who="other", time_ms=LATER_MS)
    is_known = bool(own and other) and (own.startswith(other) or other.startswith(own))
    assert (await difference(own, kind(content=other)) == "") == is_known


async def test_a_stranger_that_says_yes_to_all_shows_nothing() -> None:
    def claims(request: RemotingCommand) -> RemotingCommand | None:
        fields = request.ext_fields or {}
        if "offset" not in fields:
            return None
        answer = make_response(request, body=b"what it does not know")
        if any("igest" in name for name in fields):
            answer.ext_fields = write_header(CompareRecordResponseHeader(record_is_equal=True))
        return answer

    stranger = OurMaster(content=COMMON, fails=claims)
    assert (await difference(COMMON, stranger)).startswith("it shows none of the last records of this log up to")
    assert len(stranger.viewed) <= 1 + SHOWN_MAX
    assert (await difference(COMMON, OurMaster(content=COMMON))).startswith("it shows none"), "nor has units"


async def test_who_does_not_answer_is_an_error() -> None:
    with pytest.raises(OSError, match=r"the slave cannot be asked about its log: cannot connect to 10\.0\.0\.2"):
        await CommonLog(records_of(COMMON), OurMaster(content=COMMON)).difference("10.0.0.2:10911")
