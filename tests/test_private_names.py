"""Tests use what users of a module use: private names of the product are reached only where this file says why.

A test of a private name holds the code to how it is written, and every change of that breaks tests of behaviour that is
the same. What a test wants to see is in an answer, a file, a log line or ``statistics()``; what it wants to control is
handed in by the constructor: clock, disk, runner, sizes.

Counted are attributes, imports and names in strings (``monkeypatch.setattr(x, "_name")``). Planted bugs (``Bug`` in
``property_tests/hunts.py``) name the function that they break, whatever its name is, and are no such places.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("tests", "property_tests")

DOCUMENTED = {"os._exit", "_replace", "_asdict", "_fields", "_make"}
"""Names that are public in spite of their underscore."""

BY_NAME = {"getattr", "setattr", "hasattr", "delattr", "object"}
"""Functions that take the name of an attribute as a text; ``object`` is that of ``mock.patch``."""

REACHED = {
    ("tests/task_order.py", "trio._core._run._r"): "Trio's random order of tasks has no public seed",
    ("tests/same_examples.py", "providers._get_local_constants"): (
        "Hypothesis has no setting for where examples take their constants from"
    ),
    ("tests/spark/pipelines/archive_log/test_opening.py", "spark.sparkContext._jsc"): (
        "settings of Hadoop; a running session has no public way to them"
    ),
    ("tests/interop/programs/cpp/client.py", "ffi._CSendResult"): "a structure of the C++ client's Python package",
    ("tests/interop/test_store_options.py", "store._services"): (
        "runs both deletions to their end, as Java's test does; a store deletes one file at a time, and tells nobody"
    ),
    ("tests/client/producer/test_batching.py", "BatchingProducer._send_others"): (
        "a planted bug: messages of one queue overtake each other"
    ),
    ("property_tests/test_transaction_machine.py", "self._transactions._newest"): (
        "a planted bug: it reopens a transaction that has ended, and no method does that"
    ),
}
"""File and expression of each place, and why there is no other way."""

_MAY_REACH = re.compile(
    r"(?<!\bself)(?<!\bcls)\.\s*_(?!_)"  # an attribute, or a name in a text with dots
    r"|[\"']_(?!_)"  # a name in a text
    r"|\bimport\b(\s*\([^)]*|.*)\b_(?!_)"
)
"""What every source has that reaches a private name, and few others: only those are parsed."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in DOCUMENTED


def places(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and expression of each place that reaches a private name of something else."""
    nodes = list(ast.walk(ast.parse(source))) if _MAY_REACH.search(source) else []
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            chain, owner = [node.attr], node.value
            while isinstance(owner, ast.Attribute):
                chain.append(owner.attr)
                owner = owner.value
            is_own = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
            is_own |= isinstance(owner, ast.Call) and ast.unparse(owner.func) == "super"
            if is_own:
                del chain[-1]
            if any(map(is_private, chain)) and ast.unparse(node) not in DOCUMENTED:
                yield node.lineno, _up_to_last_private(node)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"import {each.name}") for each in node.names if is_private(each.name))
        elif isinstance(node, ast.Call):
            yield from ((node.lineno, name) for name in _names_in_texts(node))


def _up_to_last_private(node: ast.Attribute) -> str:
    """Return the expression without what follows its last private name."""
    while not is_private(node.attr):
        assert isinstance(node.value, ast.Attribute), ast.unparse(node)
        node = node.value
    return ast.unparse(node)


def _names_in_texts(call: ast.Call) -> Iterator[str]:
    """Yield the private names that a call reaches by text."""
    texts = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    for text in texts:
        if text.startswith("rocketpy.") and any(map(is_private, text.split("."))):
            yield text
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if function in BY_NAME and len(call.args) > 1 and ast.unparse(call.args[0]) != "self":
        name = call.args[1]
        if isinstance(name, ast.Constant) and isinstance(name.value, str) and is_private(name.value):
            expression = f"{ast.unparse(call.args[0])}.{name.value}"
            if expression not in DOCUMENTED:
                yield expression


def test_private_names_are_reached_only_where_there_is_a_reason() -> None:
    found = [
        (str(path.relative_to(ROOT)), line, expression)
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, expression in places(path.read_text())
    ]
    new = [f"{path}:{line}: {expression}" for path, line, expression in found if (path, expression) not in REACHED]
    assert new == [], "test what can be seen from outside, or hand in what the test wants to control"
    assert {(path, expression) for path, _, expression in found} == set(REACHED), "a reason without its place"


@pytest.mark.parametrize(
    ("source", "expression"),
    [
        ("store._queues.get(1)", "store._queues"),
        ("a.b._c.d = 1", "a.b._c"),
        ("self.hub._turn(1)", "self.hub._turn"),
        ("self._world._peers", "self._world._peers"),
        ("made()._inner", "made()._inner"),
        ("x[0]._inner.y", "x[0]._inner"),
        ("from rocketpy.a import b, _c", "import _c"),
        ("monkeypatch.setattr(module, '_SIZE', 3)", "module._SIZE"),
        ("getattr(store, '_files')", "store._files"),
        ("mock.patch.object(Kind, '_begin')", "Kind._begin"),
        ("monkeypatch.setattr('rocketpy.store.opening._SECONDS', 0)", "rocketpy.store.opening._SECONDS"),
    ],
)
def test_a_place_is_found(source: str, expression: str) -> None:
    assert [found for _, found in places(source)] == [expression]


@pytest.mark.parametrize(
    "source",
    [
        "self._count += 1",
        "cls._cache.clear()",
        "super()._run(1)",
        "value._replace(a=1)",
        "os._exit(3)",
        "monkeypatch.setattr(os, '_exit', end)",
        "getattr(self, '_count', 0)",
        "x.__class__.__name__",
        "Bug(Service, '_put', broken)",
    ],
)
def test_what_is_no_such_place(source: str) -> None:
    assert list(places(source)) == []
