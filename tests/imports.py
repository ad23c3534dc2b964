"""Which modules a module of this repository imports, read from its source: wherever in the file, for types too."""

from __future__ import annotations

import ast
import sys
from collections.abc import Container, Iterator
from pathlib import Path


def module_files(root: Path, packages: tuple[str, ...]) -> dict[str, Path]:
    """Return the file of each module by its name; a package is named by its ``__init__.py``."""
    files = [file for package in packages for file in (root / package).rglob("*.py")]
    assert files
    return {module_name(file.relative_to(root)): file for file in files}


def module_name(path: Path) -> str:
    """Return the name of the module at a path in the repository."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imported(tree: ast.Module, modules: Container[str]) -> Iterator[str]:
    """Yield which of these modules a source imports. A package counts where a name is taken from it.

    Relative imports are not used here.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "a relative import"
            for alias in node.names:
                of_package = f"{node.module}.{alias.name}"
                if of_package in modules:
                    yield of_package
                elif node.module in modules:
                    yield node.module


def packages_of_others(tree: ast.Module, ours: str) -> Iterator[str]:
    """Yield the packages that a source imports, but for one that is ours, and for what comes with Python."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        packages = {name.partition(".")[0] for name in names}
        yield from packages - sys.stdlib_module_names - {ours}
