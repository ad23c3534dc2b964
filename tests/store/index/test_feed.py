"""Keys of messages come to the index when it takes them, and when it is time."""

from __future__ import annotations

from rocketpy.store.index.feed import IndexFeed, IndexWork
from tests.store.parts import PlainIndex

FIRST: IndexWork = ("T", (b"k1",), 0, 1)
SECOND: IndexWork = ("T", (b"k2",), 100, 1)


def test_nothing_is_kept_for_an_index_that_reads_the_log_itself() -> None:
    for index in (None, PlainIndex()):
        feed = IndexFeed(index, has_pool=False)
        feed.work.append(FIRST)
        assert feed.end_burst()
        assert feed.work == []
    assert index is not None
    assert (index.pending, index.burst_count) == ([], 0)


def test_messages_go_into_the_index_s_own_list() -> None:
    index = PlainIndex()
    feed = IndexFeed(index, has_pool=False)
    feed.begin()
    feed.work.append(FIRST)
    assert index.pending == [FIRST], "no copy"
    assert feed.end_burst()
    assert (index.pending, index.burst_count) == ([FIRST], 1)


def test_with_a_pool_the_index_sees_what_readers_see() -> None:
    index = PlainIndex()
    feed = IndexFeed(index, has_pool=True)
    feed.begin()
    feed.work.append(FIRST)
    assert index.pending == []
    assert feed.end_burst()
    feed.work.append(SECOND)
    assert index.pending == [FIRST]
    assert feed.end_burst()
    assert (index.pending, feed.work) == ([FIRST, SECOND], [])


def test_an_index_without_space_is_reported() -> None:
    index = PlainIndex()
    feed = IndexFeed(index, has_pool=False)
    feed.begin()
    index.no_space = "the index has no space"
    assert not feed.end_burst()
    index.no_space = None
    assert feed.end_burst()


def test_messages_of_a_batch_without_keys_are_left_out() -> None:
    feed = IndexFeed(None, has_pool=False)
    feed.add("T", [(b"k1",), (b"k2", b"k3")], [0, 100], 7)
    feed.add("T", [(), (b"k4",), ()], [200, 300, 400], 8)
    assert feed.work == [("T", (b"k1",), 0, 7), ("T", (b"k2", b"k3"), 100, 7), ("T", (b"k4",), 300, 8)]


def test_the_index_is_told_of_a_burst_with_the_keys_of_a_batch() -> None:
    index = PlainIndex()
    feed = IndexFeed(index, has_pool=False)
    assert not feed.takes_keys
    feed.begin()
    assert feed.takes_keys
    feed.add_packed("T", b"", 0, 7)
    assert feed.end_burst()
    feed.add_packed("T", b"k" * 40, 100, 8)
    assert index.pending == [("T", b"k" * 40, 100, 8)]
    assert feed.end_burst()
    assert feed.end_burst()
    assert index.has_packed == [False, True, False]
