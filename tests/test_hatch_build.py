"""The hook of the build: what is compiled for which kind of installation, and what is said where nothing is."""

from __future__ import annotations

import ast
import re
import subprocess
import sysconfig
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

import hatch_build
from hatch_build import (
    ALL,
    COMPILER,
    HOT_MODULES,
    KERNELS,
    LIST,
    RUNTIME,
    TYPES,
    CompiledModules,
    CompileError,
    compile_into,
)
from rocketpy.compiled import NOT_COMPILED, Build, find_build
from tests.imports import imported, module_files, module_name, packages_of_others

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
SHARED = f"0123__mypyc{SUFFIX}"


@attrs.define
class App:
    """What hatchling shows; pip shows it with ``-v`` only."""

    shown: list[str] = attrs.field(factory=list)

    def display_info(self, message: str) -> None:
        self.shown.append(message)

    def display_warning(self, message: str) -> None:
        self.shown.append(message)


@attrs.define
class Hook:
    """One build with the hook, over a checkout in which nothing but the sources is."""

    root: Path
    app: App
    compiled: list[tuple[str, ...]]

    def run(self, version: str) -> dict[str, Any]:
        """Build a wheel; return what the hook tells hatchling, with the contents of files instead of their paths."""
        hook = CompiledModules(str(self.root), {}, None, None, str(self.root), "wheel", self.app)  # type: ignore[arg-type]
        data: dict[str, Any] = {"force_include": {}, "dependencies": []}
        hook.initialize(version, data)
        included = {name: Path(path).read_bytes() for path, name in data.pop("force_include").items()}
        hook.finalize(version, data, "")
        return data | {"included": included}

    def build(self) -> Build:
        """What a program in the checkout would run."""
        return find_build(str(self.root / "rocketpy"), {}, load=lambda name: None)

    @property
    def extensions(self) -> set[str]:
        """What was compiled into the checkout."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*.so")}


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hook:
    """A build whose compiler writes a file for each module, and one that they share."""
    for name in ALL:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n")
    made = Hook(tmp_path, App(), [])

    def compile_modules(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        directory, sources = Path(command[3]), command[4:]
        made.compiled.append(tuple(sources))
        for name in (*(f"{source[:-3]}{SUFFIX}" for source in sources), SHARED):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(b"\x7fELF")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.delenv("ROCKETPY_PURE", raising=False)
    monkeypatch.setattr(hatch_build, "ROOT", tmp_path)
    monkeypatch.setattr(hatch_build, "why_not", lambda: "")
    monkeypatch.setattr(hatch_build.subprocess, "run", compile_modules)
    return made


def fails_with(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    def compile_modules(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, output, "")

    monkeypatch.setattr(hatch_build.subprocess, "run", compile_modules)


def test_a_wheel_holds_every_module_and_the_list_of_them(hook: Hook) -> None:
    data = hook.run("standard")
    assert hook.compiled == [ALL]
    assert data["included"].keys() == {LIST, SHARED, *(f"{path[:-3]}{SUFFIX}" for path in ALL)}
    assert (data["pure_python"], data["infer_tag"], data["dependencies"]) == (False, True, list(RUNTIME))
    assert hook.extensions == set(), "a wheel leaves the checkout as it is"


def test_an_editable_installation_has_the_kernels_beside_their_sources(hook: Hook) -> None:
    data = hook.run("editable")
    assert hook.compiled == [KERNELS]
    assert hook.extensions == {SHARED, *(f"{path[:-3]}{SUFFIX}" for path in KERNELS)}
    assert str(hook.build()) == "compiled kernels"
    assert data == {"included": {}, "dependencies": list(RUNTIME)}


def test_what_is_compiled_from_these_sources_is_not_compiled_again(hook: Hook) -> None:
    hook.run("editable")
    hook.run("editable")
    assert hook.compiled == [KERNELS]
    assert hook.run("standard")["included"].keys() > {f"{path[:-3]}{SUFFIX}" for path in HOT_MODULES}
    assert hook.compiled == [KERNELS, ALL], "a wheel needs more than the kernels"
    hatch_build.main(["all"])
    assert str(hook.build()) == f"{len(ALL)} compiled modules"
    before = hook.extensions
    data = hook.run("standard")
    hook.run("editable")
    assert hook.compiled == [KERNELS, ALL, ALL]
    assert data["included"].keys() == {LIST, *before}
    assert hook.extensions == before
    (hook.root / HOT_MODULES[0]).write_text("# changed\n")
    hook.run("standard")
    assert len(hook.compiled) == 4


def test_the_next_installation_removes_what_the_last_has_compiled(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    other = hook.root / "rocketpy" / "remoting" / "hub.cpython-27-x86_64-linux-gnu.so"
    other.write_bytes(b"\x7fELF")
    hook.run("editable")
    assert not other.exists(), "also what was compiled for another Python"
    monkeypatch.setenv("ROCKETPY_PURE", "1")
    hook.run("editable")
    assert hook.extensions == set()
    assert str(hook.build()) == "plain Python (no module is compiled)"


@pytest.mark.parametrize("version", ["standard", "editable"])
def test_plain_python_on_request(hook: Hook, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("ROCKETPY_PURE", "1")
    assert hook.run(version) == {"included": {}, "dependencies": []}
    assert hook.compiled == []
    assert hook.app.shown == ["rocketpy: plain Python, as ROCKETPY_PURE=1 asks"]


@pytest.mark.parametrize("version", ["standard", "editable"])
def test_a_compiler_that_fails_gives_plain_python_that_says_why(
    hook: Hook, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    hook.run("editable")
    (hook.root / KERNELS[0]).write_text("# changed\n")
    fails_with(monkeypatch, "running build_ext\nerror: command '/usr/bin/gcc' failed with exit code 1\n")
    data = hook.run(version)
    why = "error: command '/usr/bin/gcc' failed with exit code 1"
    assert hook.app.shown == [f"rocketpy: plain Python, its modules are not compiled: {why}"]
    assert data["dependencies"] == []
    assert "pure_python" not in data
    if version == "standard":
        assert data["included"] == {LIST: f"not compiled: {why}\n".encode()}
    else:
        assert str(hook.build()) == f"plain Python (not compiled: {why})"
        assert hook.extensions == set()


def test_compiled_modules_on_request_or_a_failed_build(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETPY_PURE", "0")
    assert hook.run("standard")["dependencies"] == list(RUNTIME)
    fails_with(monkeypatch, "")
    with pytest.raises(SystemExit) as ended:
        hook.run("standard")
    assert ended.value.code == "rocketpy: ROCKETPY_PURE=0 asks for compiled modules: the compiler said nothing"


def test_a_wish_that_is_none_fails_the_build(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETPY_PURE", "banana")
    with pytest.raises(SystemExit) as ended:
        hook.run("standard")
    assert "expected 1 (plain Python), 0 (compile or fail) or nothing, found 'banana'" in str(ended.value.code)


@pytest.mark.parametrize("stopped_at", [1, 2, 3])
def test_an_interrupted_installation_runs_the_sources(
    hook: Hook, monkeypatch: pytest.MonkeyPatch, stopped_at: int
) -> None:
    """Whatever was compiled already, nothing of it is used without the rest."""
    copy, calls = hatch_build.shutil.copyfile, []

    def stops(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == stopped_at:
            raise KeyboardInterrupt
        copy(source, target)

    monkeypatch.setattr(hatch_build.shutil, "copyfile", stops)
    with pytest.raises(KeyboardInterrupt):
        hook.run("editable")
    build = hook.build()
    assert build.why_pure
    assert {path.split(SUFFIX)[0].replace("/", ".") for path in hook.extensions if "/" in path} <= build.modules


@pytest.mark.parametrize(
    ("what", "value", "why"),
    [
        ("CC", "no-such-compiler -pthread", "no C compiler: no-such-compiler -pthread is not on the PATH"),
        ("PATH", "/nowhere", "no C compiler: "),
    ],
)
def test_without_a_compiler_nothing_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str, value: str, why: str
) -> None:
    """Neither mypy is installed into the build's environment nor is anything tried."""
    monkeypatch.setattr(hatch_build, "compiled_already", lambda sources: [])
    monkeypatch.delenv("ROCKETPY_PURE", raising=False)
    monkeypatch.setenv(what, value)
    if what == "PATH":
        monkeypatch.delenv("CC", raising=False)
    hook = CompiledModules(str(tmp_path), {}, None, None, str(tmp_path), "wheel", None)  # type: ignore[arg-type]
    assert hook.dependencies() == []
    with pytest.raises(CompileError) as raised:
        compile_into(tmp_path, KERNELS)
    assert str(raised.value).startswith(why)


def test_the_build_asks_for_the_compiler_of_wheels_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ROCKETPY_PURE", raising=False)
    monkeypatch.setattr(hatch_build, "why_not", lambda: "")
    monkeypatch.setattr(hatch_build, "compiled_already", lambda sources: [])
    for target, asked in (("wheel", True), ("sdist", False)):
        hook = CompiledModules(str(tmp_path), {}, None, None, str(tmp_path), target, None)  # type: ignore[arg-type]
        assert ("mypy==2.4.*" in hook.dependencies()) == asked


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (
            "running build_ext\n/tmp/x.c:1:10: fatal error: Python.h: No such file\nerror: command 'gcc' failed",
            "/tmp/x.c:1:",
        ),
        (
            "  File x.py\ndistutils.CompileError: Command '['cc', '-O3']' returned non-zero exit status 1.",
            "cc ended with st",
        ),
        ("error: command '/usr/bin/false' failed with exit code 1\n", "error: command '/usr/bin/false' failed"),
        ("", "the compiler said nothing"),
    ],
)
def test_of_all_that_is_printed_one_line_is_shown(output: str, line: str) -> None:
    assert hatch_build.first_error(output).startswith(line)
    assert len(hatch_build.first_error(f"error: {'x' * 10_000}")) == 300


def test_a_compiler_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With setuptools' own words: a real attempt, which ends at the first file."""
    monkeypatch.setenv("CC", "false")
    with pytest.raises(CompileError) as raised:
        compile_into(tmp_path, KERNELS)
    (line,) = str(raised.value).splitlines()
    assert line.endswith(("false ended with status 1", "false' failed with exit code 1")), "by version of setuptools"


def test_the_failure_is_written_as_it_is_read() -> None:
    assert hatch_build.NOT_COMPILED == NOT_COMPILED


# ---- what an isolated build needs -----------------------------------------------------------------------------------

WITH_TRIO = "outcome"
"""A package that comes with Trio."""


def test_an_isolated_build_has_every_package_that_the_modules_import() -> None:
    """Mypy follows all imports, also those in functions, and refuses a module that imports what is not there."""
    pyproject = tomllib.loads((hatch_build.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (overrides,) = pyproject["tool"]["mypy"]["overrides"]
    assert overrides["ignore_missing_imports"]
    left_out = {name.removesuffix(".*") for name in overrides["module"]}
    declared = {re.split("[=>]", each)[0].replace("-", "_") for each in (*COMPILER, *TYPES, *RUNTIME)}
    imported = imported_packages(ALL)
    assert {"trio", "lark", "librt"} < imported
    assert imported - left_out <= declared | {WITH_TRIO}


def imported_packages(sources: Sequence[str]) -> set[str]:
    """Return the packages of others that modules import, with all modules of ours that they import in turn."""
    files = module_files(hatch_build.ROOT, ("rocketpy",))
    packages: set[str] = set()
    seen: set[str] = set()
    waiting = {module_name(Path(source)) for source in sources}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        tree = ast.parse(files[name].read_text(encoding="utf-8"))
        packages.update(packages_of_others(tree, "rocketpy"))
        reached = set(imported(tree, files)) | {name.rpartition(".")[0]} - {
            ""
        }  # the package that it is in is loaded too
        waiting |= reached - seen
    return packages
