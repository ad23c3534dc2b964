"""Names of parametrised cases that say what the case is: pytest itself numbers values that are no text (``fields3``).

A name is the same in each process, so it holds no address and no order of a set; it is short enough for a line.
"""

from __future__ import annotations

import enum
import re
import types
from collections.abc import Mapping, Set

import attrs
import pytest

LENGTH_MAX = 60
BYTES_SHOWN = 8

_REPEATED = re.compile(r"(.{1,8}?)\1{7,}", re.DOTALL)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Name a value for the id of a case: a hook, which each ``conftest.py`` of a whole folder of tests imports."""
    name = case_name(val)
    return None if name is None else cut(name).encode("unicode_escape").decode("ascii")


def case_name(value: object) -> str | None:
    """Return the name of a value, None for one that pytest names well."""
    if isinstance(value, str):
        return text_name(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes_name(bytes(value))
    if value is None or isinstance(value, bool | int | float | complex | enum.Enum | re.Pattern | type):
        return None
    if isinstance(value, types.FunctionType):
        return None if value.__name__ != "<lambda>" else lambda_name(value)
    if isinstance(value, Mapping):
        return ",".join(f"{part_name(key)}={part_name(each)}" for key, each in value.items()) or "empty"
    if isinstance(value, Set):
        return ",".join(sorted(map(part_name, value))) or "empty"
    if isinstance(value, list | tuple):
        return ",".join(map(part_name, value)) or "empty"
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}" if str(value) else type(value).__name__
    if hasattr(value, "__name__"):
        return None
    if attrs.has(type(value)):
        changed = [getattr(value, each.name) for each in attrs.fields(type(value)) if _is_given(value, each)]
        return f"{type(value).__name__}({','.join(map(part_name, changed))})"
    return _ADDRESS.sub("", repr(value))


def _is_given(value: object, field: attrs.Attribute[object]) -> bool:
    given = getattr(value, field.name, field.default)
    default = field.default
    if isinstance(default, attrs.Factory) and not default.takes_self:  # type: ignore[arg-type]
        default = default.factory()
    return bool(given != default)


def part_name(value: object) -> str:
    """Return the name of a value inside another."""
    return case_name(value) or (value.__name__ if isinstance(value, type) else str(value))


def text_name(text: str) -> str | None:
    """Return a text with its properties and its repetitions in short, None for one that has neither."""
    name = _REPEATED.sub(lambda found: f"{found[1]}*{len(found[0]) // len(found[1])}", text)
    name = name.replace("\x01", "=").replace("\x02", ";")
    return name if name != text or len(name) > LENGTH_MAX else None


def bytes_name(content: bytes) -> str | None:
    """Return the first bytes in hexadecimal and the length, None for bytes that are a short text."""
    if content.isascii() and content.translate(None, b"\x01\x02").decode().isprintable():
        return text_name(content.decode()) or content.decode() or "empty"
    if len(content) <= BYTES_SHOWN:
        return content.hex()
    return f"{content[:BYTES_SHOWN].hex()}.. of {len(content)} bytes"


def lambda_name(function: types.FunctionType) -> str:
    """Return what a lambda calls, or reads, or returns."""
    code = function.__code__
    constants = (str(each) for each in code.co_consts if isinstance(each, str | int | bytes))
    return ".".join(code.co_names) or ",".join(constants) or "lambda"


def cut(name: str) -> str:
    """Return the beginning and the end of a long name."""
    end = LENGTH_MAX // 4
    return name if len(name) <= LENGTH_MAX else f"{name[: LENGTH_MAX - end - 2]}..{name[-end:]}"
