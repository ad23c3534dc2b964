"""What is no SQL92 selector, what makes no sense for a message, and where selectors end.

Apart from the rest, which costs some milliseconds to import: brokers start without it and most never need it.
"""

from __future__ import annotations

from typing import Final

SIZE_MAX: Final = 32_768
"""Characters of a selector. RocketMQ has no such limit."""

TOKENS_MAX: Final = 4_096
"""Names, values, keywords and signs of a selector: a text with more would keep the broker busy for over 30 ms."""

DEPTH_MAX: Final = 200
"""So many parts may lie within each other: NOT, unary minus, comparisons and parentheses around AND and OR."""


class SelectorError(ValueError):
    """A text that is no selector. The message is that of RocketMQ's ``MQFilterException``."""


class EvaluationError(Exception):
    """A selector that makes no sense for a message, as a comparison of a number with ``abc``: it does not match."""
