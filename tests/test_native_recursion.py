"""Compiled functions call each other natively: no limit of Python's ends a recursion, but the end of the stack."""

from __future__ import annotations

import ast
from pathlib import Path

from hatch_build import ALL, KERNELS

ROOT = Path(__file__).parents[1]
BOUNDED = {
    "rocketpy/protocol/kernels/selector.py: .decide",  # the parser's DEPTH_MAX
    "rocketpy/store/index/hash.py: _hash_chunk",  # once: what is hashed again is ASCII, and that needs no other way
    "rocketpy/store/index/hash.py: _hash_mixed",
}


def recursive(source: str, *, is_kernel: bool = True) -> set[str]:
    """Return the functions, and methods with a dot, from which a chain of calls by name or of ``self`` leads back.

    In kernels also calls of anything else that has a method of that name: there it is of the same class.
    """
    calls: dict[str, set[str]] = {}
    for owner in ast.walk(ast.parse(source)):
        if isinstance(owner, ast.Module | ast.ClassDef):
            prefix = "." if isinstance(owner, ast.ClassDef) else ""
            for function in owner.body:
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    calls.setdefault(prefix + function.name, set()).update(_called(function, is_kernel=is_kernel))

    def reached(name: str) -> set[str]:
        found: set[str] = set()
        waiting = [name]
        while waiting:
            new = (calls[waiting.pop()] & calls.keys()) - found
            found |= new
            waiting += new
        return found

    return {name for name in calls if name in reached(name)}


def _called(function: ast.AST, *, is_kernel: bool) -> set[str]:
    called = set()
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                called.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=of), attr=name)) if is_kernel or of == "self":
                called.add(f".{name}")
    return called


def test_a_compiled_function_that_calls_itself_has_a_bound() -> None:
    found = {
        f"{path}: {name}" for path in ALL for name in recursive((ROOT / path).read_text(), is_kernel=path in KERNELS)
    }
    assert found == BOUNDED


def test_a_chain_of_calls_back_is_found() -> None:
    assert recursive("def a(n):\n return b(n)\ndef b(n):\n return -a(-n)\ndef c():\n a(1)") == {"a", "b"}
