"""Which stages need not run again: those whose inputs are exactly those of a run that passed.

Some stages stand on little and cost much. ``passed_inputs.txt`` holds a line for each of them, its name and the digest
of its inputs: sources, tests, pins, and the version of Python. The tier ``ci`` skips a stage whose digest is there.
Only a run that passed writes the file; it is committed with the change that was tested.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = Path(__file__).with_name("passed_inputs.txt")

_PINS = ("pyproject.toml", "constraints.txt")
_PROPERTIES = ("property_tests", "tests/*.py")
RECORDED: Mapping[str, tuple[str, ...]] = {
    "hunts": (
        *_PINS,
        *_PROPERTIES,
        *(
            f"rocketpy/{each}"
            for each in ("*.py", "broker", "client", "nameserver", "protocol", "remoting", "store", "testing")
        ),
    ),
    "notebooks": (
        *_PINS,
        "rocketpy",
        "pyspark_rocketmq.py",
        "notebooks",
        "tests/*.py",
        "tests/notebooks",
        "tests/store",
    ),
    "wheel": (
        *_PINS,
        "rocketpy",
        "pyspark_rocketmq.py",
        "hatch_build.py",
        "README.md",
        "LICENSE",
        "tests/*.py",
        "tests/blackbox",
    ),
}
"""The stages, and the files and folders that decide how each ends."""

_NOT_INPUTS = (".pyc", ".so", "compiled.txt", RECORD.name)


def unchanged() -> set[str]:
    """Return the stages whose inputs are those of a run that passed."""
    passed = _read()
    return {stage for stage in RECORDED if passed.get(stage) == digest(stage)}


def record(passed: Set[str]) -> None:
    """Write the digests of stages that have passed; those of others remain as they are."""
    found = _read() | {stage: digest(stage) for stage in passed if stage in RECORDED}
    RECORD.write_text("".join(f"{stage} {found[stage]}\n" for stage in sorted(found)), encoding="utf-8")


def digest(stage: str, root: Path = ROOT) -> str:
    """Return the digest of a stage's inputs: the names and contents of the files, and the version of Python."""
    summed = hashlib.sha256(platform.python_version().encode())
    for path in sorted(set(_files(stage, root))):
        content = path.read_bytes()
        summed.update(f"\0{path.relative_to(root)}\0{len(content)}\0".encode())
        summed.update(content)
    return summed.hexdigest()


def _files(stage: str, root: Path) -> Iterator[Path]:
    for pattern in RECORDED[stage]:
        found = list(root.glob(pattern))
        assert found, f"{stage}: no file named {pattern}"
        for each in found:
            paths = each.rglob("*") if each.is_dir() else (each,)
            yield from (path for path in paths if path.is_file() and not path.name.endswith(_NOT_INPUTS))


def _read() -> dict[str, str]:
    if not RECORD.exists():
        return {}
    return dict(line.split() for line in RECORD.read_text(encoding="utf-8").splitlines())
