"""Every command line of every page is one that its program takes: options exist, files are there, targets are made.

Those in blocks are run as well, by the tests that ``test_blocks.py`` names. What is not even parsed (containers,
packages of the system, clusters of others) is in :data:`TRIED`. Benches and other tools for people are asked for
``--help``.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
import typer.core
import typer.main

from rocketpy.broker import __main__ as broker_main
from rocketpy.cli.__main__ import app
from rocketpy.nameserver import __main__ as nameserver_main
from tests.page_text import ROOT
from tests.pages.command_lines import blocks_of, commands_of, conf_files, pages, program_of, quoted_commands

MAKEFILE = (ROOT / "Makefile").read_text()
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
SEPARATORS = {"|", "&&", "||", ";", "&"}
SHELL_BLOCK = re.compile(r"make |rocketpy |cp |ROCKETPY_TIER")
OF_OTHERS = {"printf", "echo", "wc", "kill", "wait", "until", "rm", "cp", "tar", "sleep", "do", "done", ".", "[", "cd"}
"""Programs of a shell or the system, in blocks that a test runs."""

TRIED = {
    "apt-get": "packages of the system",
    "docker": "containers",
    "spark-submit": "a cluster of Spark",
    "ulimit": "a limit of the shell",
    ".ci/run": "the whole of what lands",
}
"""Programs whose command lines are not parsed, and why."""


def all_commands() -> Iterator[tuple[str, str]]:
    """Yield each command of a page once, with the page; what a version has brought is no recipe."""
    for page in [*pages(), *conf_files()]:
        if page == "CHANGELOG.md":
            continue
        found = list(quoted_commands(page))
        for block in blocks_of(page) if page.endswith(".md") else ():
            if block.language in ("bash", "console") or (not block.language and SHELL_BLOCK.match(block.first)):
                found += [part for command in commands_of(block) for part in _parts(command)]
        yield from ((page, command) for command in dict.fromkeys(found))


def _parts(command: str) -> Iterator[str]:
    """Yield the commands of a pipeline or a list."""
    words: list[str] = []
    lexer = shlex.shlex(command, posix=False, punctuation_chars=True)
    lexer.whitespace_split = True
    for word in [*lexer, ";"]:
        if word in SEPARATORS:
            if words:
                yield " ".join(words)
            words = []
        else:
            words.append(word)


def check(command: str) -> None:
    """Raise AssertionError for a command line that its program would not take."""
    program = program_of(command)
    if program in TRIED or program in OF_OTHERS:
        return
    words = [_filled(word) for word in shlex.split(re.sub(r"(?<= )\[|\](?= |$)|\.\.\.", " ", command))]
    while re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    CHECKS[program](words[1:])


def _filled(word: str) -> str:
    """Return a word with something in place of what the reader fills in."""
    word = word.removeprefix("'").removesuffix("'")
    for there, value in (("HOST:PORT", "127.0.0.1:9876"), ("HOST:", "127.0.0.1:"), ("CHECKOUT", "."), ("FILE", "f")):
        word = word.replace(there, value)
    return "2" if word == "N" else word


def check_rocketpy(words: list[str]) -> None:
    """Parse options and arguments as the command does; a name without arguments only has to exist."""
    command = typer.main.get_command(app)
    while isinstance(command, typer.core.TyperGroup) and words and not words[0].startswith("-"):
        if words[0] == "NAME":
            return
        assert words[0] in command.commands, f"no command {words[0]}"
        command = command.commands[words.pop(0)]
    if not words or "--help" in words:
        return
    words = [
        str(ROOT) if word == "DIR" or word.startswith(("/", "DIR/")) or word == "store" else word for word in words
    ]
    try:
        command.make_context("rocketpy", words)
    except typer.Exit:
        return
    except Exception as failure:
        raise AssertionError(f"{type(failure).__name__}: {failure}") from failure


def check_python(words: list[str]) -> None:
    """Parse the options of our programs. Those of other modules must be in their source, and files must exist."""
    while words[:1] == ["-X"]:
        words = words[2:]
    if not words:
        return
    if words[0] == "-c":
        compile(words[1], "-c", "exec")
    elif words[0] == "-m":
        _check_module(words[1], words[2:])
    elif words[0] == "hatch_build.py":
        assert words[1] in ("kernels", "all", "none")
    else:
        # The first one is made by the page.
        assert words[0] == "hello.py" or (ROOT / words[0].removeprefix("DIR/")).is_file(), words[0]


def _check_module(module: str, words: list[str]) -> None:
    parsers = {"rocketpy.broker": broker_main.argument_parser, "rocketpy.nameserver": nameserver_main.argument_parser}
    words = [word for word in words if word not in (">", "2>", "&")]
    if module in parsers:
        _parse(parsers[module](), words)
        assert [word for word in words if word.startswith("conf/") and not (ROOT / word).is_file()] == []
        return
    assert module.startswith(("bench", "tests.", "property_tests.")), module
    sources = _sources(module)
    for option in (word for word in words if word.startswith("--")):
        assert f'"{option}"' in sources, f"{module} has no option {option}"


def _sources(module: str) -> str:
    spec = importlib.util.find_spec(module)
    assert spec is not None, f"no module {module}"
    folders = spec.submodule_search_locations
    paths = [path for folder in folders for path in Path(folder).glob("*.py")] if folders else [Path(spec.origin or "")]
    return "".join(path.read_text() for path in paths)


def _parse(parser: argparse.ArgumentParser, words: list[str]) -> None:
    errors = StringIO()
    try:
        with redirect_stderr(errors), redirect_stdout(StringIO()):
            parser.parse_args(words)
    except SystemExit as ended:
        if ended.code:
            raise AssertionError(errors.getvalue()) from ended


def check_make(words: list[str]) -> None:
    """Each target is made, and each variable read."""
    for word in words:
        name, is_variable, _ = word.partition("=")
        wanted = rf"^{name} \?=" if is_variable else rf"^{name}:"
        assert re.search(wanted, MAKEFILE, re.MULTILINE), f"make {word}"


def check_pip(words: list[str]) -> None:
    """Options are pip's, and extras ours."""
    if not words:
        return
    verb, *rest = words
    for option in (word for word in rest if word.startswith("-")):
        assert re.search(rf"(^|[ ,]){option}\b", _pip_help(verb), re.MULTILINE), f"pip {verb} has no option {option}"
    for extras in re.findall(r"\[(.+)\]", " ".join(rest)):
        assert set(extras.split(",")) <= set(EXTRAS)


@cache
def _pip_help(verb: str) -> str:
    command = [sys.executable, "-m", "pip", verb, "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_pytest(words: list[str]) -> None:
    """The files exist."""
    for word in words:
        assert (ROOT / word.partition("::")[0]).exists(), word


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "rocketpy": check_rocketpy,
    "python": check_python,
    "make": check_make,
    "pip": check_pip,
    "pytest": check_pytest,
}


@pytest.mark.parametrize(("page", "command"), list(all_commands()))
def test_a_command_is_one_that_its_program_takes(page: str, command: str) -> None:
    check(command)


def tools() -> list[str]:
    """Return the modules of benches and tests that pages start, and that have options."""
    found = {
        match
        for _, command in all_commands()
        for match in re.findall(r"-m ((?:bench|tests|property_tests)[.\w]*)", command)
    }
    return sorted(module for module in found if "argparse" in _sources(module))


@pytest.mark.parametrize("module", tools())
def test_a_tool_says_how_it_is_used(module: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout[:6], ended.stderr) == (0, "usage:", "")


@pytest.mark.parametrize(
    "command",
    [
        "rocketpy produce -t hello --taag x",
        "rocketpy topic creat hello",
        "python -m rocketpy.broker --groups 27",
        "python -m rocketpy.nameserver --store x",
        "python -m bench.spark --gib 3",
        "python -m tests.nothing",
        "make borker",
        "make upstream ROUND=3",
        ".venv/bin/pytest tests/cli/test_topics.py",
        "pip install '.[console]'",
        "pip install --quickly DIR",
    ],
)
def test_a_wrong_command_is_noticed(command: str) -> None:
    with pytest.raises(AssertionError):
        check(command)
