"""Peers that are not what they say: the product believes none of them."""

from __future__ import annotations

from rocketpy.store.ha.protocol import encode_frame_header, encode_report
from rocketpy.store.results import PutMessageStatus
from tests.testing.replicas import a_pair, put

TIMEOUT = PutMessageStatus.FLUSH_SLAVE_TIMEOUT


def test_a_forged_report_is_no_acknowledgement() -> None:
    with a_pair() as world:
        world.kill("b")
        world.pass_time(6)
        world.impostors.forge("a", encode_report(0), is_new=True)
        world.pass_time(0.1)
        put(world, b"body")
        world.impostors.forge("a", encode_report(1 << 40), is_new=False)
        world.pass_time(4)
        assert world.producers.answers == [TIMEOUT]


def test_a_lie_is_not_stored() -> None:
    with a_pair() as world:
        asked: list[int] = []

        def frames(offset: int) -> bytes:
            asked.append(offset)
            return encode_frame_header(offset, 100) + bytes(100)

        put(world, b"body")
        world.pass_time(1)
        world.impostors.lie("b", frames)
        end = world.replica("a").shown().end_offset
        assert asked[0] == end
        world.calm()
        assert world.replica("b").shown().end_offset == end
