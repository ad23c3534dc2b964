"""A store takes disk, time and worker threads from its environment, and by no other way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

import rocketpy.store
from rocketpy.clock import ManualClock
from rocketpy.runner import run_inline
from rocketpy.store.environment import StoreEnvironment
from rocketpy.testing.sim.disk import SimDisk

STORE = Path(rocketpy.store.__file__).parent

MACHINE = {"os", "time", "datetime", "random", "tempfile", "shutil", "fcntl", "mmap", "pathlib", "socket", "subprocess"}
"""Modules that reach the machine: each use in the store is in ``REACHED`` or ``PURE``."""

PURE = {
    *(f"os.path.{name}" for name in ("basename", "dirname", "expanduser", "join", "split")),
    "time.localtime",
    "time.strftime",
}
"""Functions of names and of times that are given."""

REACHED = {
    ("disk/os_disk.py", "*"): "the real disk",
    ("disk/os_file.py", "*"): "the files of the real disk",
    ("inspection/lock_probe.py", "*"): "asks the kernel whether a store is open, before there is a disk",
    ("inspection/plain_files_disk.py", "*"): "the real disk of a store that is not to be trusted",
    ("inspection/show/dump.py", "os.path.abspath"): "the path that a user has given",
    ("ha/client.py", "random.Random"): "the type of what it is given",
    ("ha/tail_cut.py", "datetime.UTC"): "a constant",
    ("ha/tail_cut.py", "datetime.datetime"): "formats a time of the clock",
    ("opening.py", "os.sysconf"): "the memory of the machine, which bounds what is cold",
    ("read/message_reader.py", "time.thread_time"): "the processor time of a pull, which bounds it",
    ("read/queue_scan.py", "time.thread_time"): "the processor time of a filter, which bounds it",
}
"""Other ways to the machine, and why they are none around the environment; ``*`` is all of a module."""


def reached(path: Path) -> Iterator[str]:
    """Yield the functions and types of ``MACHINE`` that a module uses, and ``open``."""
    tree = ast.parse(path.read_text())
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {
                (each.asname or each.name).partition(".")[0]: each.name.partition(".")[0] for each in node.names
            }
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MACHINE:
            yield from (f"{node.module}.{each.name}" for each in node.names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield "open"
        elif isinstance(node, ast.Attribute) and MACHINE.intersection(modules.values()):
            first, _, rest = ast.unparse(node).partition(".")
            if modules.get(first) in MACHINE and rest != "path" and "(" not in rest:  # a result's attribute is none
                yield f"{modules[first]}.{rest}"


def test_no_module_of_the_store_reaches_disk_time_or_randomness_by_itself() -> None:
    uses = {
        (str(path.relative_to(STORE)), name)
        for path in STORE.rglob("*.py")
        for name in reached(path)
        if name not in PURE
    }
    known = {(path, "*" if (path, "*") in REACHED else name) for path, name in uses}
    assert known == set(REACHED)


def test_all_of_it_is_given_by_name_and_none_is_replaced() -> None:
    clock = ManualClock()
    disk = SimDisk(clock=clock)
    environment = StoreEnvironment(disk=disk, clock=clock, run_blocking=run_inline)
    assert (environment.disk, environment.clock, environment.run_blocking) == (disk, clock, run_inline)
    with pytest.raises(TypeError):
        StoreEnvironment(disk, clock, run_inline)  # type: ignore[misc]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        environment.disk = disk  # type: ignore[misc]
