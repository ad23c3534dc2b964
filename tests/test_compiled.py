"""Compiled modules are used together or not at all, and only if they are of these sources and for this interpreter."""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from zlib import crc32

import pytest

from rocketpy import BUILD, __path__, compiled
from rocketpy.compiled import COMPILED_LIST, RUNTIME, Build, source_path, use

SUFFIX = EXTENSION_SUFFIXES[0]
SHARED = "0123456789abcdef__mypyc"
SOURCES = {"rocketpy.protocol.kernels.record": b"x = 1\n", "rocketpy.remoting.hub": b"y = 2\n"}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with two compiled modules, of which only the sources are there."""
    return make_package(tmp_path / "rocketpy", SOURCES)


def make_package(package: Path, sources: dict[str, bytes], suffix: str = SUFFIX) -> Path:
    """Write sources, extension modules that are none, the library that these share, and the list of all."""
    lines = [suffix]
    for name, content in sources.items():
        path = Path(source_path(str(package), name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        lines.append(f"{name} {crc32(content):08x}")
        extension = path.with_suffix(suffix)
        extension.write_bytes(b"\x7fELF")
        lines.append(f"{extension.relative_to(package.parent)} 4")
    (package.parent / f"{SHARED}{suffix}").write_bytes(b"\x7fELF and more")
    lines.append(f"{SHARED}{suffix} 13")
    (package / COMPILED_LIST).write_text("\n".join(lines) + "\n")
    return package


def find_build(package: str, environment: dict[str, str], loaded: list[str] | None = None) -> Build:
    """Find the build, and note what is loaded instead of loading it."""
    return compiled.find_build(package, environment, load=([] if loaded is None else loaded).append)


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


@pytest.mark.parametrize("path", [f"{SHARED}{SUFFIX}", f"rocketpy/remoting/hub{SUFFIX}"])
def test_a_file_is_missing_or_cut_and_all_sources_run(package: Path, path: str) -> None:
    """Without this the interpreter would take one source among compiled modules, or map a file that ends too early."""
    file = package.parent / path
    size = file.stat().st_size
    file.write_bytes(b"\x7fE")
    assert find_build(str(package), {}).why_pure == f"{path} has 2 bytes instead of {size}"
    file.unlink()
    build = find_build(str(package), {})
    assert build.why_pure == f"{path} is missing"
    assert build.modules == SOURCES.keys()


def test_a_module_whose_file_is_not_in_the_list_has_one_all_the_same(package: Path) -> None:
    path = f"rocketpy/remoting/hub{SUFFIX}"
    list_path = package / COMPILED_LIST
    list_path.write_text("".join(line for line in list_path.read_text().splitlines(True) if not line.startswith(path)))
    assert not find_build(str(package), {}).why_pure
    (package.parent / path).unlink()
    assert find_build(str(package), {}).why_pure == f"{path} is missing"


def test_what_all_share_is_loaded_first(package: Path) -> None:
    loaded: list[str] = []
    find_build(str(package), {}, loaded)
    assert loaded == [*RUNTIME, SHARED]


@pytest.mark.parametrize("culprit", [RUNTIME[0], SHARED])
def test_what_cannot_be_loaded_is_said_and_all_sources_run(package: Path, culprit: str) -> None:
    def load(name: str) -> None:
        if name == culprit:
            raise ImportError(f"{name}: invalid ELF header")

    build = compiled.find_build(str(package), {}, load=load)
    assert build.why_pure == f"the compiled modules cannot be loaded: {culprit}: invalid ELF header"
    assert build.modules == SOURCES.keys()


def test_nothing_is_loaded_where_the_sources_run(package: Path) -> None:
    loaded: list[str] = []
    find_build(str(package), {"ROCKETPY_PURE": "1"}, loaded)
    Path(source_path(str(package), "rocketpy.remoting.hub")).write_bytes(b"y = 3\n")
    find_build(str(package), {}, loaded)
    assert loaded == []


def test_a_compiler_that_failed_is_said(package: Path) -> None:
    why = "not compiled: error: command 'gcc' failed: No such file or directory"
    (package / COMPILED_LIST).write_text(f"{why}\n")
    build = find_build(str(package), {})
    assert (build.modules, str(build)) == (frozenset(), f"plain Python ({why})")
    assert find_build(str(package), {"ROCKETPY_PURE": "0"}).fault == f"ROCKETPY_PURE=0 asks for compiled modules: {why}"


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b".so\nrocketpy.remoting.hub\n", b".so\nrocketpy.x zz\n", b".so\nx.so 1k\n"]
)
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
