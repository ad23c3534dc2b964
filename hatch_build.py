"""Compiles the modules that a message passes to C, with mypyc; a hook of the build, and a command for a checkout.

    python hatch_build.py kernels     the kernels alone, beside their source: some seconds
    python hatch_build.py all         the kernels and the hot modules around them: about a minute
    python hatch_build.py none        remove what was compiled

``pip install .`` and ``python -m build`` compile all, ``pip install -e .`` the kernels. What the checkout holds,
compiled from these sources, is used. Without a C compiler, or if one fails, the build is of plain Python. Pip shows
nothing of a build that succeeds, so the reason is also written where the list of compiled modules would be: the
broker shows it when it starts, ``rocketpy --version`` too. ``ROCKETPY_PURE=1`` asks for plain Python, and with
``ROCKETPY_PURE=0`` the build fails if the compiler does. What runs is chosen by ``rocketpy/compiled.py``, from the list
that is written here.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from zlib import crc32

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
LIST = "rocketpy/compiled.txt"
VARIABLE = "ROCKETPY_PURE"
NOT_COMPILED = "not compiled: "
KERNELS = (
    "rocketpy/protocol/kernels/ascii_text.py",
    "rocketpy/protocol/kernels/batch.py",
    "rocketpy/protocol/kernels/frames.py",
    "rocketpy/protocol/kernels/index_entries.py",
    "rocketpy/protocol/kernels/index_hashes.py",
    "rocketpy/protocol/kernels/log_keys.py",
    "rocketpy/protocol/kernels/log_scan.py",
    "rocketpy/protocol/kernels/mapped_words.py",
    "rocketpy/protocol/kernels/pull.py",
    "rocketpy/protocol/kernels/pull_found.py",
    "rocketpy/protocol/kernels/pull_header.py",
    "rocketpy/protocol/kernels/record.py",
    "rocketpy/protocol/kernels/selector.py",
    "rocketpy/protocol/kernels/send_form.py",
    "rocketpy/protocol/kernels/send_header.py",
    "rocketpy/protocol/kernels/send_ok.py",
)
HOT_MODULES = (
    "rocketpy/broker/acl/kernel_guard.py",
    "rocketpy/broker/acl/session.py",
    "rocketpy/broker/monitoring/broker_stats_manager.py",
    "rocketpy/broker/monitoring/counters.py",
    "rocketpy/broker/pull/answers.py",
    "rocketpy/broker/pull/checks.py",
    "rocketpy/broker/pull/processor.py",
    "rocketpy/broker/send/answers.py",
    "rocketpy/broker/send/fast_batch.py",
    "rocketpy/broker/send/fast_path.py",
    "rocketpy/broker/send/kernel_path.py",
    "rocketpy/broker/send/properties.py",
    "rocketpy/protocol/batch.py",
    "rocketpy/protocol/frame/codec.py",
    "rocketpy/protocol/java_hash.py",
    "rocketpy/protocol/properties.py",
    "rocketpy/protocol/signing_key.py",
    "rocketpy/protocol/stored_message.py",
    "rocketpy/remoting/burst.py",
    "rocketpy/remoting/connection.py",
    "rocketpy/remoting/dispatch.py",
    "rocketpy/remoting/hub.py",
    "rocketpy/remoting/lull.py",
    "rocketpy/store/append/appender.py",
    "rocketpy/store/append/batch.py",
    "rocketpy/store/append/burst_counts.py",
    "rocketpy/store/append/general_path.py",
    "rocketpy/store/append/packed_batch.py",
    "rocketpy/store/append/room.py",
    "rocketpy/store/disk/os_file.py",
    "rocketpy/store/files/mapped_file.py",
    "rocketpy/store/files/mapped_file_queue.py",
    "rocketpy/store/index/feed.py",
    "rocketpy/store/index/file.py",
    "rocketpy/store/index/hash.py",
    "rocketpy/store/index/hashed_keys.py",
    "rocketpy/store/index/service.py",
    "rocketpy/store/log/commit_log.py",
    "rocketpy/store/queue/consume_queue.py",
    "rocketpy/store/read/message_reader.py",
    "rocketpy/store/read/plain_read.py",
    "rocketpy/store/read/queue_messages.py",
    "rocketpy/store/read/record_spans.py",
)
ALL = (*KERNELS, *HOT_MODULES)
COMPILER = ("mypy==2.4.*", "setuptools>=70")
TYPES = ("trio>=0.27", "attrs>=24.2", "cattrs>=24.1", "msgspec>=0.19", "lark>=1.2")
"""What the hot modules and those that they import need: without their types mypyc would make other code of them."""
RUNTIME = ("librt>=0.16", "mypy-extensions>=1.1")
"""What compiled modules need when they run."""
COMPILE_SECONDS_MAX = 900
SLOW_WARNING = "-Wno-misleading-indentation"
"""Python's own flags have -Wall; this one warning takes gcc as long as a quarter of the rest, in 300,000 lines of C."""
_SHOWN_MAX = 300


class CompileError(Exception):
    """The modules could not be compiled; the text is one line."""


class CompiledModules(BuildHookInterface):  # type: ignore[type-arg]
    """The hook: adds compiled modules to a wheel, or to the checkout that an editable installation uses."""

    PLUGIN_NAME = "custom"

    _directory: Path | None = None

    def dependencies(self) -> list[str]:
        """Return what the build needs beside hatchling; nothing where it will not compile."""
        if self.target_name != "wheel" or wanted() == "1" or why_not() or compiled_already(ALL):
            return []
        return [*COMPILER, *TYPES, *RUNTIME]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say what goes into the wheel, or put it beside the sources of an editable installation."""
        if self.target_name != "wheel":
            return
        is_editable = version == "editable"
        self._directory = directory = Path(tempfile.mkdtemp(prefix="rocketpy-compiled-"))
        paths: list[str] = []
        if wanted() == "1":
            self.app.display_info(f"rocketpy: plain Python, as {VARIABLE}=1 asks")
        else:
            try:
                directory, paths = self._compile(directory, is_editable=is_editable)
                build_data["dependencies"] += RUNTIME
            except CompileError as failure:
                if wanted() == "0":
                    raise SystemExit(f"rocketpy: {VARIABLE}=0 asks for compiled modules: {failure}") from failure
                self.app.display_warning(f"rocketpy: plain Python, its modules are not compiled: {failure}")
                paths = write_failure(directory, failure)
        if is_editable:
            if directory != ROOT:
                install(directory, paths)
            return
        build_data["force_include"].update({str(directory / path): path for path in paths})
        if len(paths) > 1:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def _compile(self, directory: Path, *, is_editable: bool) -> tuple[Path, list[str]]:
        """Return the directory with what is compiled, and the paths in it."""
        for sources in (ALL, KERNELS) if is_editable else (ALL,):
            paths = compiled_already(sources)
            if paths:
                return ROOT, paths
        return directory, compile_into(directory, KERNELS if is_editable else ALL)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled, which is in the wheel."""
        if self._directory is not None:
            shutil.rmtree(self._directory)


def wanted() -> str:
    """Return what the environment asks for: 1 plain Python, 0 compiled modules or a failure, nothing either."""
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "0", "1"):
        raise SystemExit(f"{VARIABLE}: expected 1 (plain Python), 0 (compile or fail) or nothing, found {value!r}")
    return value


def why_not() -> str:
    """Return why nothing can be compiled, as far as one sees without trying; empty if it may."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return f"mypyc compiles for CPython with its lock, this is {sys.implementation.cache_tag}"
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    return "" if command and shutil.which(command[0]) else f"no C compiler: {' '.join(command)} is not on the PATH"


def compiled_already(sources: Sequence[str]) -> list[str]:
    """Return the paths of what the checkout holds compiled from these modules and no others, or nothing.

    The list is believed where a program would believe it.
    """
    specification = spec_from_file_location("rocketpy_compiled", Path(__file__).parent / "rocketpy" / "compiled.py")
    assert specification is not None
    assert specification.loader is not None
    compiled = module_from_spec(specification)
    specification.loader.exec_module(compiled)
    build = compiled.find_build(str(ROOT / "rocketpy"), {}, load=lambda name: None)
    if build.why_pure or build.modules != {_module_name(path) for path in sources}:
        return []
    suffix, *lines = (ROOT / LIST).read_text(encoding="utf-8").splitlines()
    files = [path for path, _, _ in (line.rpartition(" ") for line in lines) if path.endswith(suffix)]
    return [LIST, *files] if {f"{path[:-3]}{suffix}" for path in sources} < set(files) else []


def _module_name(path: str) -> str:
    return path[:-3].replace("/", ".")


def compile_into(directory: Path, sources: Sequence[str]) -> list[str]:
    """Compile modules into a directory, with the list of them; return the paths of all files in it, relative to it."""
    why = why_not()
    if why:
        raise CompileError(why)
    command = [sys.executable, str(Path(__file__)), "--compile", str(directory), *sources]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=COMPILE_SECONDS_MAX
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise CompileError(str(failure)) from failure
    if done.returncode:
        raise CompileError(first_error(done.stdout + done.stderr))
    made = sorted(str(path.relative_to(directory)) for path in directory.rglob("*.so"))
    lines = [sysconfig.get_config_var("EXT_SUFFIX")]
    lines += [f"{_module_name(path)} {crc32((ROOT / path).read_bytes()):08x}" for path in sources]
    lines += [f"{path} {(directory / path).stat().st_size}" for path in made]
    return [_write_list(directory, lines), *made]


def write_failure(directory: Path, failure: CompileError) -> list[str]:
    """Write why nothing is compiled where the list of compiled modules would be; return what was written."""
    return [_write_list(directory, [f"{NOT_COMPILED}{failure}"])]


def install(directory: Path, paths: Sequence[str]) -> None:
    """Take what was compiled into a directory into the checkout, instead of what was compiled before.

    The list comes first and leaves last: an installation that was interrupted is one in which files are missing.
    """
    remove()
    for path in paths:
        shutil.copyfile(directory / path, ROOT / path)


def remove() -> None:
    """Remove what was compiled from the checkout, for whatever Python."""
    for path in (*ROOT.glob("*__mypyc*.so"), *(ROOT / "rocketpy").rglob("*.so"), ROOT / LIST):
        path.unlink(missing_ok=True)


def _write_list(directory: Path, lines: Sequence[str]) -> str:
    (directory / LIST).parent.mkdir(exist_ok=True)
    (directory / LIST).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return LIST


def first_error(output: str) -> str:
    """Return one line of what the compiler and setuptools have printed: the first that names an error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = next((line for line in lines if "error:" in line), lines[-1] if lines else "the compiler said nothing")
    silent = re.search(r"Command '\['([^']+)'.* returned non-zero exit status (\d+)", told)
    return f"{silent[1]} ended with status {silent[2]}" if silent else told[:_SHOWN_MAX]


def _compile(directory: str, sources: Sequence[str]) -> None:
    """Compile: in a process of its own, because mypyc prints, and ends it when it refuses a module."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    with tempfile.TemporaryDirectory(prefix="rocketpy-c-") as work:
        _check_compiler(Path(work))
        options = ["--python-version", f"{sys.version_info.major}.{sys.version_info.minor}", "--cache-dir", work]
        extensions = mypycify([*options, *sources], opt_level="3", debug_level="0", target_dir=work)
        for extension in extensions:
            extension.extra_compile_args.append(SLOW_WARNING)
        command = build_ext(Distribution({"name": "rocketpy", "ext_modules": extensions}))
        command.build_lib, command.build_temp = directory, f"{work}/objects"
        command.ensure_finalized()
        command.run()


def _check_compiler(work: Path) -> None:
    """Fail at once, instead of after a minute, where there is no C compiler or no header of Python."""
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    source = work / "nothing.c"
    source.write_text("#include <Python.h>\nPyMODINIT_FUNC PyInit_nothing(void) { return NULL; }\n")
    command = build_ext(Distribution({"name": "nothing", "ext_modules": [Extension("nothing", [str(source)])]}))
    command.build_lib = command.build_temp = str(work)
    command.ensure_finalized()
    command.run()


def main(arguments: Sequence[str]) -> str | None:
    """Do what the command line asks; return what is wrong with it, or what went wrong."""
    match arguments:
        case ["--compile", directory, *sources]:
            _compile(directory, sources)
        case ["kernels" | "all" as what]:
            with tempfile.TemporaryDirectory(prefix="rocketpy-compiled-") as name:
                sources = KERNELS if what == "kernels" else ALL
                try:
                    install(Path(name), compile_into(Path(name), sources))
                except CompileError as failure:
                    return f"not compiled: {failure}"
        case ["none"]:
            remove()
        case _:
            return "expected one of: kernels, all, none"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
