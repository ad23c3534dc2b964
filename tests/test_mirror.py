"""``tests/`` mirrors ``rocketpy/``: the tests of a module are found by its path."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent

WITHOUT_TESTS = {
    "broker/send/collaborators.py": "a value without methods, made and read by the paths of a send",
    "remoting/collaborators.py": "interfaces without code; those who implement them are tested",
    **{
        f"protocol/bodies/{name}.py": "declarations; test_golden_bodies.py has each of them as Java wrote it"
        for name in ("filter", "lock", "queue", "running")
    },
    **{
        f"spark/options/{name}.py": "declarations; test_table.py has what each of them is held to"
        for name in ("connection", "files", "live", "reading", "sink", "stream")
    },
}
"""Modules without a test file, and why there is nothing to test."""


def mirror_of(module: Path) -> Path:
    """Return where the tests of a module are; those of ``__main__`` are in ``test_main``."""
    return module.parent / f"test_{module.name.replace('__', '')}"


def test_each_module_has_its_test_file() -> None:
    modules = [path.relative_to(ROOT / "rocketpy") for path in (ROOT / "rocketpy").rglob("*.py")]
    assert len(modules) > 200
    missing = {
        str(module)
        for module in modules
        if module.name != "__init__.py" and not (ROOT / "tests" / mirror_of(module)).exists()
    }
    assert missing == set(WITHOUT_TESTS)
