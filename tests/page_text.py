"""Reads the pages of the documentation for their tests: code blocks, links, paths and imports."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASES = ("", "rocketpy", "property_tests", "tests")
"""Folders of the repository that a path in backticks may begin in."""

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"`([^`\s]+)`")
_PATH = re.compile(r"[\w.-]+(/[\w.-]+)*/?")
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def blocks(page: str, language: str) -> list[str]:
    """Return the fenced code blocks of a language; the empty one are blocks without a language."""
    return [text for name, text in _BLOCK.findall(page) if name == language]


def links(page: str) -> list[str]:
    """Return the targets of links into the repository, as they are written."""
    return _LINK.findall(_BLOCK.sub("", page))


def named_paths(page: str) -> list[str]:
    """Return what stands in backticks outside code blocks and is a path: it has a slash or ends in ``.py``."""
    quoted = _QUOTED.findall(_BLOCK.sub("", page))
    return [text for text in quoted if _PATH.fullmatch(text) and ("/" in text or text.endswith(".py"))]


def exists(path: str) -> bool:
    """Return whether a path names a file or folder of the repository, from its root or from one of BASES."""
    return any((ROOT / base / path).exists() for base in BASES)


def missing_imports(code: str) -> list[str]:
    """Return the imports of ``rocketpy`` in a code block that do not work, as ``module`` or ``module:name``."""
    return [found for found in _imports(code) if not _can_be_imported(found)]


def _imports(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rocketpy"):
            yield from (f"{node.module}:{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("rocketpy"))


def _can_be_imported(found: str) -> bool:
    module_name, _, name = found.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError:
        return False
    return not name or hasattr(module, name)
