"""Every command line of every page is one that its program takes: options exist, files are there, targets are made.

:data:`HOW` names the test that runs it as well, or why none does. What is not even parsed (containers, packages of the
system, clusters of others) is in :data:`TRIED`. Benches and other tools for people are asked for ``--help``.
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


HOW: dict[str, str] = {
    # run by tests
    r"rocketpy( --help| --version)?$": "tests/cli/test_main.py::test_version_and_help",
    r"rocketpy (produce|consume|topic|store export store|store verify store)|printf|wc|\. |python hello|make broker$": (
        "tests/pages/test_readme.py::test_the_first_session_is_as_it_is_printed"
    ),
    r"python -m rocketpy\.broker( -c FILE| --port 20911.*)?$": (
        "tests/pages/test_readme.py::test_the_first_session_is_as_it_is_printed"
    ),
    r"python -m rocketpy\.(nameserver|nameserver -c conf/namesrv\.conf|broker -c conf/broker\.conf( -n HOST:9876)?)$": (
        "tests/pages/test_readme.py::test_clients_on_other_machines_find_a_broker_that_is_started_as_the_page_says"
    ),
    r"python -m rocketpy\.broker --groups 2$": (
        "tests/pages/test_operation.py::test_two_brokers_share_a_topic_that_is_created"
    ),
    r"python -m rocketpy\.broker --cluster": (
        "tests/broker/test_main.py::test_a_cluster_to_try_replicates_and_ends_with_ctrl_c"
    ),
    r"python -m rocketpy\.broker -c conf/2m-": (
        "tests/pages/test_operation.py::test_the_brokers_of_a_sample_file_each_start_and_replicate"
    ),
    r"python -m rocketpy\.broker -n 127|python -c|rm -f|until|do|kill|wait": (
        "tests/docs/test_pages.py::test_the_commands_of_the_container_page_run"
    ),
    r"python DIR/docs/examples": "tests/docs/test_examples.py::test_an_example_is_a_program",
    r"rocketpy doctor": "tests/pages/test_operation.py::test_the_doctor_says_of_a_new_broker_what_its_page_says",
    r"rocketpy pipeline": (
        "tests/spark/test_page_programs.py::test_the_programs_and_commands_of_the_page_run_in_their_order"
    ),
    r"rocketpy store(( verify| export)( DIR)?)?$": "tests/cli/test_store.py::test_verify_of_a_store_without_faults",
    r"rocketpy store repair": "tests/cli/test_store.py::test_repair_with_yes_says_where_it_keeps_what_it_changes",
    r"rocketpy store (diverged|export DIR --commitlog)": (
        "tests/cli/test_store.py::test_what_a_slave_has_cut_off_is_listed_and_can_be_read"
    ),
    r"rocketpy store dump": "tests/cli/test_dump.py::test_text_lines_name_what_they_show",
    r"(ROCKETPY_PURE=1 |\.venv/bin/)?pip( install)?( (-e|-v|pytest))? ?(\./)?(DIR|\.|'\.\[spark\]')?$": (
        "tests/test_wheel.py::test_pip_installs_from_a_checkout_as_the_pages_say"
    ),
    r"(\.venv/bin/)?python hatch_build": (
        "tests/test_hatch_build.py::test_an_editable_installation_has_the_kernels_beside_their_sources"
    ),
    # tried with --help, or parsed
    r"python -m (bench|tests|property_tests)|\.venv/bin/python -m tests": "tools of this repository: asked for --help",
    r"(ROCKETPY_TIER=(ci|deep) )?make( (test|test-changed|style|types|notebooks|wheel|upstream|bench).*)?$": (
        "the run of the tests, of which this one is a part, benches and the tier deep"
    ),
    r".*\.venv/bin/pytest|\.ci/run|PYTHON=python3\.12 make": "the run of the tests",
    r"pip install (-U|--target|--force-reinstall)": "fetches packages of others, or repeats an installation",
    r"apt-get|ulimit|docker": "packages, limits and containers of the system",
    r"spark-submit|PYTHONPATH=libraries|cp rocketpy_mq|tar": "a cluster of Spark",
    r"python -X": "options of Python for a profile",
    r"\./rocketpy|done": "a path, and a word of the shell",
}
"""Every command of a page by a pattern, and the test that runs it, or why it is only parsed."""


def test_every_command_is_run_or_there_is_a_reason() -> None:
    commands = {command for _, command in all_commands()}
    assert sorted(each for each in commands if not any(re.match(pattern, each) for pattern in HOW)) == []
    assert [pattern for pattern in HOW if not any(re.match(pattern, each) for each in commands)] == []
    for by in HOW.values():
        path, is_test, name = by.partition("::")
        assert not is_test or re.search(rf"def {name}\(", (ROOT / path).read_text()), by


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
