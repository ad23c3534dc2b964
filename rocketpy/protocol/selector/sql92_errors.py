"""Errors of SQL92 selectors, and the limits on them.

Separate from the other modules, which take some milliseconds to import: brokers start without them, and most never need
them.
"""

from __future__ import annotations

from typing import Final

SIZE_MAX: Final = 32_768
"""Characters of a selector. RocketMQ has no such limit."""

TOKENS_MAX: Final = 4_096
"""Names, values, keywords and signs of a selector: a text with more would keep the broker busy for over 30 ms."""

DEPTH_MAX: Final = 200
"""Limit on nested expressions: NOT, unary minus, comparisons and parentheses around AND and OR."""


class SelectorError(ValueError):
    """A text that is no selector. The message is that of RocketMQ's ``MQFilterException``."""


class EvaluationError(Exception):
    """A selector cannot be evaluated for a message, such as a comparison of a number with ``abc``: no match."""
