"""``make test-changed``: runs the tests of what has changed, within seconds.

``python -m tests.changed BASE`` takes the files that differ from the commit BASE (HEAD: what is not committed), and new
ones that git does not ignore. For a module it runs the test file that mirrors it, for a test file that file, for a
helper of tests every test file that imports it, for a page the test file that is named for it. Slow cases are left out.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.imports import imported, module_files, module_name

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("tests", "property_tests")


def main(arguments: list[str]) -> int:
    """Run the tests, or say that there are none."""
    base = arguments[0] if arguments else "HEAD"
    changed = changed_files(base)
    tests = mirrors_of(changed)
    if not tests:
        what = f"{len(changed)} changed files, none of them with tests" if changed else "nothing has changed"
        print(f"{what} since {base}; BASE=COMMIT names another commit, make test runs all")
        return 0
    print(f"{len(tests)} test files for {len(changed)} files that have changed since {base}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-m", "not slow and not by_chance", *tests]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    return 0 if status == 5 else status  # 5: every case is slow


def changed_files(base: str) -> list[str]:
    """Return the paths of files that differ from a commit or are new, relative to the repository."""
    commands = (
        ("diff", "--name-only", "--diff-filter=d", base),
        ("ls-files", "--others", "--exclude-standard"),
    )
    found: set[str] = set()
    for command in commands:
        done = subprocess.run(("git", *command), cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"git {command[0]} {base}: {done.stderr.strip()}")
        found.update(done.stdout.splitlines())
    return sorted(found)


def mirrors_of(changed: Iterable[str]) -> list[str]:
    """Return the test files for changed files, relative to the repository."""
    found: set[Path] = set()
    helpers: set[str] = set()
    for path in map(Path, changed):
        folder, name = path.parts[0], path.name
        if path.suffix == ".md":
            found.add(Path("tests", f"test_{path.stem.lower().replace('-', '_')}_page.py"))
        elif path.suffix != ".py":
            continue
        elif folder == "rocketpy":
            found.add(Path("tests", *path.parts[1:-1], f"test_{name}"))
        elif folder not in TESTS:
            found.add(Path("tests", f"test_{path.parts[0].removesuffix('.py')}.py"))
        elif name.startswith("test_"):
            found.add(path)
        elif name == "conftest.py":
            found.update(each.relative_to(ROOT) for each in (ROOT / path).parent.glob("test_*.py"))
        else:
            helpers.add(module_name(path))
            found.add(path.with_name(f"test_{name}"))
    found |= _importers(helpers)
    return sorted(str(path) for path in found if (ROOT / path).is_file())


def _importers(helpers: set[str]) -> set[Path]:
    """Return the test files that import one of these modules of tests."""
    if not helpers:
        return set()
    names = {helper.rpartition(".")[2] for helper in helpers}
    tests = [file for file in module_files(ROOT, TESTS).values() if file.name.startswith("test_")]
    texts = {file.relative_to(ROOT): file.read_text("utf-8") for file in tests}
    named = {
        path: text for path, text in texts.items() if any(name in text for name in names)
    }  # the others are not parsed
    return {path for path, text in named.items() if any(imported(ast.parse(text), helpers))}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
