"""No module imports itself by way of others, imports for the type checker included.

Two modules in a cycle are one module in two files: neither is understood, tested or moved without the other. Where a
type is needed against the direction of the imports, the user states what it needs as a Protocol.
"""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Mapping
from pathlib import Path

from tests.imports import imported, module_files

ROOT = Path(__file__).parents[1]
_IMPORT = re.compile(r"^[ \t]*((?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(?:\([^)]*\)|.+))$", re.MULTILINE)
"""A statement of imports as the formatter leaves it: nothing else is on its lines."""


def test_imports_have_no_cycle() -> None:
    files = module_files(ROOT, ("rocketpy", "property_tests", "tests"))
    assert _cycle(_imports({name: file.read_text() for name, file in files.items()})) == []


def test_a_cycle_is_found_where_it_is_for_the_type_checker_only() -> None:
    assert _cycle(
        _imports(
            {
                "rocketpy.a": "from __future__ import annotations\nfrom rocketpy.b import B",
                "rocketpy.b": "if TYPE_CHECKING:\n    from rocketpy import c",
                "rocketpy.c": "def later():\n    import rocketpy.a",
            }
        )
    ) == ["rocketpy.a", "rocketpy.b", "rocketpy.c", "rocketpy.a"]


def test_modules_that_share_an_import_are_no_cycle() -> None:
    sources = {
        "rocketpy.a": "from rocketpy.b import B\nfrom rocketpy.c import C",
        "rocketpy.b": "import rocketpy.c",
        "rocketpy.c": "",
    }
    assert _cycle(_imports(sources)) == []


def _imports(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return for each module those that it imports, wherever in the file, and those that a text in it does."""
    return {
        module: {name for name in imported(_parsed(source), sources) if name != module}
        for module, source in sources.items()
    }


def _parsed(source: str) -> ast.Module:
    """Parse the imports of a source; all of it, which takes ten times as long, where a line only looks like one."""
    try:
        return ast.parse("\n".join(_IMPORT.findall(source)))
    except SyntaxError:
        return ast.parse(source)


def _cycle(imports: Mapping[str, set[str]]) -> list[str]:
    """Return one cycle, each module followed by one that it imports; the first module stands at both ends."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        cycle: list[str] = error.args[1][::-1]  # graphlib lists each node after the one it depends on
        first = cycle.index(min(cycle))
        return [*cycle[first:-1], *cycle[:first], cycle[first]]
    return []
