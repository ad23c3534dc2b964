"""Which test files CI runs on both builds: those that compare them, and those of modules that choose between them.

All tests run on compiled modules in CI, and on the sources in ``make test``. A difference between a kernel and the path
that stands in for it shows where ``kernels`` are named. The kernels' own tests are left out: no program uses kernels
that are not compiled.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_FLOORS = ("broker", "protocol", "remoting", "store")
_KERNELS = "tests/protocol/kernels/"
_COMPARES = ROOT / "tests" / "test_extreme_calls.py"
"""It runs both builds, each as a program of its own."""
_NAMED = "kernels"
"""In a test file: it imports a kernel, or asks for a build with them or without. In a module: ``has_kernels``."""


def both_build_files() -> list[str]:
    """Return the paths of the test files, relative to the repository."""
    files = {
        path for folder in _FLOORS for path in (ROOT / "tests" / folder).rglob("test_*.py") if _names_kernels(path)
    }
    files |= {
        mirror for path in (ROOT / "rocketpy").rglob("*.py") if _names_kernels(path) and (mirror := _mirror(path))
    }
    files.add(_COMPARES)
    return sorted(name for path in files if not (name := str(path.relative_to(ROOT))).startswith(_KERNELS))


def _names_kernels(path: Path) -> bool:
    return _NAMED in path.read_text(encoding="utf-8")


def _mirror(module: Path) -> Path | None:
    relative = module.relative_to(ROOT / "rocketpy")
    mirror = ROOT / "tests" / relative.with_name(f"test_{relative.name}")
    return mirror if mirror.is_file() else None
