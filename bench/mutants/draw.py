"""The draw of the functions in which mutants are planted: ``python -m bench.mutants.draw [AREA [COUNT]]``.

For each area ``random.Random(25)`` draws a module, weighted by its lines, then one of its functions, weighted by
theirs. ``__init__`` and functions with fewer than four lines after the docstring are not drawn, and none is drawn
twice. In each function so drawn one fault is written by hand, in the order of the draw, until the area has fourteen,
and recovery twenty: those show which tests of crashes are needed. A function in which no fault would have a visible
effect is left out (``LEFT_OUT``). For the area ``settings`` settings are drawn of the honoured rows of the page of
compatibility; of the first fourteen those that are read at one place or two are ignored there.

The draw depends on the sources: it was made at ``COMMIT``. A mutant whose text is gone is replaced by the next of the
draw.
"""

from __future__ import annotations

import ast
import random
import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "81b528da"
SEED = 25
SHORTEST = 4

STORE_OPENING = ("store/opening.py", "store/background.py", "store/message_store.py")
AREAS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "store": (("store/",), ("store/recovery/", *STORE_OPENING)),
    "recovery": (("store/recovery/", *STORE_OPENING), ()),
    "broker": (("broker/",), ()),
    "remoting": (("remoting/", "protocol/"), ()),
    "client": (("client/",), ()),
    "spark": (("spark/",), ()),
}
"""Beginnings of the paths of an area's modules in ``rocketpy/``, and of those that are another area's."""


LEFT_OUT = {
    "broker": (9,),
    "remoting": (1, 3, 16, 17),
    "client": (1, 4, 7),
    "spark": (9, 12),
    "settings": (4, 8, 9, 12),
}
"""Numbers of the draw without a mutant: wiring, reprs, wording of errors, and what only costs time."""


def modules(area: str) -> list[Path]:
    """Return the modules of an area by path, without those that hold nothing."""
    inside, outside = AREAS[area]
    package = ROOT / "rocketpy"
    paths = sorted(package.rglob("*.py"), key=lambda path: path.relative_to(package).as_posix())
    names = {path: path.relative_to(package).as_posix() for path in paths}
    return [
        path
        for path, name in names.items()
        if name.startswith(inside) and not (outside and name.startswith(outside)) and path.name != "__init__.py"
    ]


def functions(module: Path) -> dict[ast.FunctionDef | ast.AsyncFunctionDef, int]:
    """Return the functions of a module that may be drawn, in the order of the file, and their lines."""
    found = {}
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__":
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
            if lines >= SHORTEST:
                found[node] = lines
    return {node: found[node] for node in sorted(found, key=lambda node: node.lineno)}


def draw(area: str) -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield functions of an area, each once, for ever or until all are drawn."""
    rng = random.Random(SEED)
    of_module = {module: functions(module) for module in modules(area)}
    weights = {module: len(module.read_text().splitlines()) for module, found in of_module.items() if found}
    while weights:
        (module,) = rng.choices(list(weights), list(weights.values()))
        (function,) = rng.choices(list(of_module[module]), list(of_module[module].values()))
        del of_module[module][function]
        yield module, function
        if not of_module[module]:
            del weights[module]


def draw_settings(count: int) -> list[str]:
    """Return settings of the tables of ``docs/compatibility.md`` that have an effect."""
    page = (ROOT / "docs" / "compatibility.md").read_text()
    found = []
    for section in page.partition("\n## Settings\n")[2].partition("\n## ")[0].split("\n### ")[1:]:
        found += [
            (section.split("\n")[0], key) for key in re.findall(r"^\| `([\w.]+)` \| honoured", section, re.MULTILINE)
        ]
    return [".".join(each) for each in random.Random(SEED).sample(sorted(found), count)]


def main() -> None:
    """Print the draw of one area, or of all."""
    areas, count = sys.argv[1:2] or [*AREAS, "settings"], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    for area in areas:
        if area == "settings":
            print("\n".join(f"settings {number}: {name}" for number, name in enumerate(draw_settings(count), 1)))
            continue
        for number, (module, function) in enumerate(islice(draw(area), count), 1):
            print(f"{area} {number}: {module.relative_to(ROOT)}:{function.lineno} {function.name}")


if __name__ == "__main__":
    main()
