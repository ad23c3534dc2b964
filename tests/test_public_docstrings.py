"""Every public name of the client says what it is, in which units it counts, and which class of Java it follows."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator

import attrs
import pytest

from rocketpy import client
from rocketpy.client import admin, aio, blocking

ALIASES = {"QueueSelector", "TO_END"}
"""Names of values and of types of functions, which cannot have a docstring."""
WITHOUT_JAVA = {
    "BatchingProducer": "RocketMQ 4.9 collects no batches; its module names the class of RocketMQ 5",
    "ClientEnvironment": "clock, network and randomness are the machine's in Java",
    "EncodedBatch": "Java's producer encodes a batch itself",
    "PendingSend": "what a send returns instead of a callback",
}
"""Classes of the client whose module follows no class of Java, and why."""
MEASURES = re.compile(r"timeout|interval|delay|period|duration|_size|bytes|_pause|suspend|millis|timestamp")
UNIT_IN_NAME = re.compile(r"_(ms|s|seconds|minutes|bytes|mib|millis|timestamp|level|batch_size|max_size)$")
UNIT = re.compile(r"\b(ms|milliseconds?|seconds?|minutes?|bytes?|MiB|KiB|messages|wall time)\b", re.IGNORECASE)
NOT_MEASURED = {
    "RollbackStats.timestamp_offset",  # a queue offset
    "OffsetAdmin.time_spans",  # a list of values that are documented themselves
    "DataVersion.timestamp",
    "QueueTimeSpan.delay_time",
}
"""Names that sound like a duration or size and are none, or say so in the class of their value."""


def public_names() -> Iterator[tuple[str, object]]:
    for package in (client, admin):
        for name in package.__all__:
            yield name, getattr(package, name)
    for module in (aio, blocking):
        for name, value in vars(module).items():
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__:
                yield f"{module.__name__}.{name}", value


PUBLIC = {name: value for name, value in public_names() if name not in ALIASES}
CLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}


def members(public: type) -> Iterator[tuple[str, Callable[..., object]]]:
    """The public methods and properties that a class has itself, as functions."""
    for name, value in vars(public).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            assert value.fget is not None
            yield name, value.fget
        elif isinstance(value, classmethod | staticmethod):
            yield name, value.__func__
        elif inspect.isfunction(value):
            yield name, inspect.unwrap(value)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_and_its_members_have_a_docstring_that_begins_with_a_sentence(name: str) -> None:
    public = PUBLIC[name]
    named = {name: public.__doc__}
    if inspect.isclass(public):
        named |= {f"{name}.{member}": function.__doc__ for member, function in members(public)}
    for where, text in named.items():
        assert text, f"{where} has no docstring"
        assert not text.startswith(f"{name}("), f"{where} has only the docstring that attrs makes"
        first = text.strip().split("\n\n")[0]
        assert first[0].isupper() or first[0] in "`:", where
        assert first.rstrip()[-1] in ".:", f"{where}: expected a sentence, found {first!r}"


def _texts_of_fields(public: type) -> dict[str, str]:
    """What stands on the line of each field and in the string below it."""
    source = inspect.getsource(sys.modules[public.__module__])
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and node.name == public.__name__:
            texts: dict[str, str] = {}
            for statement, below in zip(node.body, [*node.body[1:], ast.Pass()], strict=True):
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    text = source.splitlines()[statement.lineno - 1]
                    if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                        text += f" {below.value.value}"
                    texts[statement.target.id] = text
            return texts
    return {}


@pytest.mark.parametrize("name", PUBLIC)
def test_durations_and_sizes_have_a_unit_in_their_name_or_docstring(name: str) -> None:
    public = PUBLIC[name]
    unclear = []
    functions = [(name, public)] if inspect.isfunction(public) else []
    if inspect.isclass(public):
        functions = [(f"{name}.{member}", function) for member, function in members(public)]
        if attrs.has(public):
            texts = _texts_of_fields(public)
            for field in attrs.fields(public):
                text = texts.get(field.name, "") + (public.__doc__ or "")
                if _is_measure(f"{name}.{field.name}", field.name) and not UNIT.search(text):
                    unclear.append(f"{name}.{field.name}")
    for where, function in functions:
        for parameter in inspect.signature(function).parameters.values():
            if _is_measure(where, parameter.name) and not UNIT.search(function.__doc__ or ""):
                unclear.append(f"{where}({parameter.name})")
    assert unclear == []


def _is_measure(where: str, name: str) -> bool:
    return bool(MEASURES.search(name)) and not UNIT_IN_NAME.search(name) and where not in NOT_MEASURED


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_names_the_class_of_java_that_it_follows(name: str) -> None:
    """Headers, bodies and values of the protocol have the names that they have in Java; others say it."""
    public = CLASSES[name]
    module = sys.modules[public.__module__]
    if module.__name__.startswith(("rocketpy.protocol.", "rocketpy.client.aio", "rocketpy.client.blocking")):
        return
    says = "Compatibility:" in (module.__doc__ or "") or "Compatibility:" in (public.__doc__ or "")
    assert says != (name in WITHOUT_JAVA), f"{name} in {module.__name__}"
