"""Compiled modules are used together or not at all, and only if they are of these sources and for this interpreter."""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from zlib import crc32

import pytest

from rocketpy import BUILD, __path__
from rocketpy.compiled import COMPILED_LIST, Build, find_build, source_path, use

SUFFIX = EXTENSION_SUFFIXES[0]
SOURCES = {"rocketpy.protocol.kernels.record": b"x = 1\n", "rocketpy.remoting.hub": b"y = 2\n"}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with two compiled modules, of which only the sources are there."""
    return make_package(tmp_path / "rocketpy", SOURCES)


def make_package(package: Path, sources: dict[str, bytes], suffix: str = SUFFIX) -> Path:
    lines = [suffix]
    for name, content in sources.items():
        path = Path(source_path(str(package), name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        lines.append(f"{name} {crc32(content):08x}")
    (package / COMPILED_LIST).write_text("\n".join(lines) + "\n")
    return package


def test_compiled_modules_are_used(package: Path) -> None:
    build = find_build(str(package), {})
    assert build == Build(frozenset(SOURCES))
    assert build.has_kernels
    assert str(build) == "2 compiled modules"


def test_kernels_alone_are_called_so(tmp_path: Path) -> None:
    name = "rocketpy.protocol.kernels.record"
    build = find_build(str(make_package(tmp_path / "rocketpy", {name: b"x = 1\n"})), {})
    assert build.has_kernels
    assert str(build) == "compiled kernels"


def test_nothing_is_compiled(tmp_path: Path) -> None:
    build = find_build(str(tmp_path), {})
    assert not build.has_kernels
    assert str(build) == "plain Python (no module is compiled)"
    assert not build.fault


def test_the_environment_asks_for_plain_python(package: Path) -> None:
    build = find_build(str(package), {"ROCKETPY_PURE": "1"})
    assert not build.has_kernels
    assert str(build) == "plain Python (ROCKETPY_PURE=1)"


@pytest.mark.parametrize("wish", ["", "0", "1"])
def test_one_changed_source_and_all_of_them_run(package: Path, wish: str) -> None:
    Path(source_path(str(package), "rocketpy.remoting.hub")).write_bytes(b"y = 3\n")
    build = find_build(str(package), {"ROCKETPY_PURE": wish})
    assert not build.has_kernels
    why = "rocketpy.remoting.hub was compiled from another source"
    assert build.why_pure == ("ROCKETPY_PURE=1" if wish == "1" else why)
    assert build.fault == (f"ROCKETPY_PURE=0 asks for compiled modules: {why}" if wish == "0" else "")


def test_a_source_is_missing(package: Path) -> None:
    Path(source_path(str(package), "rocketpy.remoting.hub")).unlink()
    assert find_build(str(package), {}).why_pure == "rocketpy.remoting.hub was compiled from another source"


def test_modules_for_another_python_are_not_used(tmp_path: Path) -> None:
    package = make_package(tmp_path / "rocketpy", SOURCES, suffix=".cpython-27-x86_64-linux-gnu.so")
    build = find_build(str(package), {})
    assert build.why_pure == f"the modules are compiled for .cpython-27-x86_64-linux-gnu.so, this Python takes {SUFFIX}"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b".so\nrocketpy.remoting.hub\n", b".so\nrocketpy.x zz\n"])
def test_a_list_that_is_none_is_said(package: Path, content: bytes) -> None:
    (package / COMPILED_LIST).write_bytes(content)
    build = find_build(str(package), {})
    assert build.why_pure.startswith(f"{COMPILED_LIST} cannot be read: ")
    assert not build.has_kernels


@pytest.mark.parametrize("wish", ["yes", "2", " 1"])
def test_a_wish_that_is_none_is_a_fault(package: Path, wish: str) -> None:
    assert find_build(str(package), {"ROCKETPY_PURE": wish}).fault == (
        f"ROCKETPY_PURE: expected 1 (run the sources), 0 (compiled modules only) or nothing, found {wish!r}"
    )


def test_sources_are_found_instead_of_compiled_modules(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    use(find_build(str(package), {"ROCKETPY_PURE": "1"}), str(package))
    finder = sys.meta_path[0]
    spec = finder.find_spec("rocketpy.remoting.hub", None)
    assert spec is not None
    assert spec.origin == source_path(str(package), "rocketpy.remoting.hub")
    assert finder.find_spec("rocketpy.remoting.config", None) is None


def test_nothing_stands_between_where_compiled_modules_are_used(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(sys.meta_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    use(find_build(str(package), {}), str(package))
    assert sys.meta_path == before


def test_this_run_uses_the_build_that_it_says() -> None:
    for name in BUILD.modules:
        module = sys.modules.get(name)
        if module is not None:
            assert str(module.__file__).endswith(".py") == bool(BUILD.why_pure), name
    assert BUILD.modules == find_build(__path__[0], {}).modules
