"""The table of open transactions: what it takes for new, and in which order it gives what it has."""

from __future__ import annotations

from rocketpy.broker.transaction.open_transactions import OpenTransactions


def opened(known_end: int = 0, **newest: int) -> OpenTransactions:
    transactions = OpenTransactions()
    transactions.load({int(origin[1:]): offset for origin, offset in newest.items()}, known_end)
    return transactions


def test_the_first_is_the_one_whose_newest_record_is_the_oldest() -> None:
    transactions = opened()
    transactions.catch_up(3)
    assert transactions.first() == (0, 0)
    transactions.renewed(0, 3)
    assert transactions.first() == (1, 1)
    transactions.ended(1)
    transactions.renewed(2, 4)
    assert transactions.first() == (0, 3)
    transactions.ended(0)
    transactions.ended(2)
    assert transactions.first() is None
    assert transactions.known_end == 5


def test_skipped_transactions_come_first_again() -> None:
    """In the old order, whatever has happened meanwhile: offsets move up to the first."""
    transactions = opened()
    transactions.catch_up(6)
    skipped = {}
    for _ in range(4):
        origin, queue_offset = transactions.first() or (-1, -1)
        skipped[origin] = queue_offset
        transactions.skip(origin)
    assert skipped == {0: 0, 1: 1, 2: 2, 3: 3}
    assert transactions.first() == (4, 4)
    transactions.renewed(4, 6)  # looked at
    transactions.renewed(2, 7)  # taken up again by an operator
    transactions.ended(1)
    transactions.restore(skipped)
    seen = []
    while (first := transactions.first()) is not None:
        seen.append(first)
        transactions.ended(first[0])
    assert seen == [(0, 0), (3, 3), (5, 5), (4, 6), (2, 7)]
