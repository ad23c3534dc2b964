"""SQL92 selectors for the kernel that reads properties and decides in one pass over a record.

A selector of the usual parts (a property against whole numbers or ASCII texts, IS NULL, IN, and what joins them) is
made into the kernel's objects, of which the values are found in the bytes of a record. A selector with any other part
is not: its closures serve (:mod:`.sql92`). They are the definition, and decide what the kernel leaves undecided.
"""

from __future__ import annotations

from rocketpy.protocol.kernels import selector as kernel
from rocketpy.protocol.selector import sql92_tree as tree
from rocketpy.protocol.selector.sql92 import Judge
from rocketpy.protocol.selector.sql92_values import Kind

_ORDERS = {"<": kernel.LESS, "<=": kernel.AT_MOST, "==": kernel.EQUAL, ">=": kernel.AT_LEAST, ">": kernel.MORE}
_NUMBER_MAX = (1 << 62) - 1
_TEXTS_MAX = 16
"""Texts of a membership: the kernel compares with one after the other."""

_PARTS_MAX = 64
"""Parts of a selector: the kernel evaluates a longer one no faster than the closures do, which stop at a time limit."""


class _Unusual(Exception):
    """A part that the kernel does not have."""


def kernel_selector(root: tree.Node) -> kernel.Selector | None:
    """Return a selector as the kernel evaluates it; None if it has a part that the kernel does not have."""
    builder = _Builder()
    try:
        decision = builder.decision(root)
    except _Unusual:
        return None
    return kernel.Selector(list(builder.properties.values()), decision)


def kernel_judge(root: tree.Node) -> Judge | None:
    """Return the verdicts of :func:`kernel_selector` on many records; None for a selector that it does not have."""
    selector = kernel_selector(root)
    return None if selector is None else selector.judge


class _Builder:
    def __init__(self) -> None:
        self.properties: dict[str, kernel.Property] = {}
        self._part_count = 0

    def decision(self, node: tree.Node) -> kernel.Decision:
        self._part_count += 1
        if self._part_count > _PARTS_MAX:
            raise _Unusual
        if isinstance(node, tree.Logic):
            operands = [self.decision(operand) for operand in node.operands]
            return kernel.AnyOf(operands) if node.symbol == "||" else kernel.AllOf(operands)
        if isinstance(node, tree.Not):
            return kernel.Inverse(self.decision(node.operand))
        if isinstance(node, tree.BooleanCast):
            return kernel.AsBoolean(self._property(node.name))
        if isinstance(node, tree.Membership):
            among = kernel.IsAmong(self._property(node.name), _ascii(node.texts))
            return kernel.Inverse(among) if node.is_negated else among
        if isinstance(node, tree.Comparison):
            return self._comparison(node)
        if isinstance(node, tree.Constant) and (node.value is None or isinstance(node.value, bool)):
            return kernel.Fixed(kernel.NULL if node.value is None else int(node.value))
        raise _Unusual

    def _comparison(self, node: tree.Comparison) -> kernel.Decision:
        if not isinstance(node.left, tree.Property):
            raise _Unusual
        operand = self._property(node.left.name)
        right, sign = node.right, 1
        while isinstance(right, tree.Negation):
            right, sign = right.operand, -sign
        if not isinstance(right, tree.Constant):
            raise _Unusual
        if right.kind in (Kind.INTEGER, Kind.LONG):
            assert isinstance(right.value, int)
            if right.value > _NUMBER_MAX:
                raise _Unusual
            return kernel.Compared(operand, _ORDERS[node.symbol], sign * right.value)
        if right is not node.right or node.symbol != "==":
            raise _Unusual
        if right.kind is Kind.NULL:
            return kernel.IsAbsent(operand)
        if right.kind is Kind.STRING:
            return kernel.IsAmong(operand, _ascii((str(right.value),)))
        raise _Unusual

    def _property(self, name: str) -> kernel.Property:
        if not name.isascii():
            raise _Unusual
        found = self.properties.get(name)
        if found is None:
            found = self.properties[name] = kernel.Property(name.encode())
        return found


def _ascii(texts: tuple[str, ...]) -> list[bytes]:
    if len(texts) > _TEXTS_MAX or not all(map(str.isascii, texts)):
        raise _Unusual
    return [text.encode() for text in texts]
