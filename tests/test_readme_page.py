"""``README.md`` and ``docs/README.md``: the commands run, the tables are true, every path and link leads somewhere."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
import trio
import typer.core
import typer.main

from bench.picture import PAGE_PATH, PICTURE_PATH, RATES_HEADING, SIZES_HEADING, draw, read_rows
from rocketpy.cli.__main__ import app
from tests.client.real_cluster import open_real_cluster
from tests.page_text import ROOT, blocks
from tests.patience import PATIENCE_SECONDS

README = (ROOT / "README.md").read_text()
COMPATIBILITY = (ROOT / "docs" / "compatibility.md").read_text()
INDEX = (ROOT / "docs" / "README.md").read_text()
FLOORS_WITHOUT_A_ROW = {"broker"}  # its folders have rows of their own
_SERVED = re.compile(r"^\| \d+ \| \w+ \| served \| tests/(broker/\w+|\w+)/\S+\.py \|", re.MULTILINE)
"""The package of the test of each code that is served; folders in a package count for it.

A code whose test is a recording from Java, in ``tests/broker`` itself, is one for administrators.
"""


def section(heading: str) -> str:
    """Return the text under a heading of the second level."""
    return README.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def works() -> dict[str, str]:
    """Return the number of request codes in each row of the table of what works, by package."""
    lines = [line for line in section("What works").splitlines() if line.startswith("| `")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert all(len(row) == 3 and all(row) for row in rows)
    packages = {row[0].strip("`"): row[2] for row in rows}
    assert len(packages) == len(rows), "a package has two rows"
    return packages


def console_commands() -> list[str]:
    """Return the calls of ``rocketpy`` in the console blocks, without what is piped in or out."""
    lines = [line[2:] for block in blocks(README, "console") for line in block.splitlines() if line.startswith("$ ")]
    pieces = [piece.strip() for line in lines for piece in line.split("|")]
    return [piece for piece in pieces if piece.startswith("rocketpy ")]


def test_every_package_has_a_row_of_what_works() -> None:
    def packages(folder: str) -> set[str]:
        return {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / folder).glob("*/__init__.py")}

    without_a_row = {f"rocketpy/{name}" for name in FLOORS_WITHOUT_A_ROW}
    assert set(works()) == packages("rocketpy/broker") | packages("rocketpy") - without_a_row


def test_the_numbers_of_request_codes_are_those_of_the_table_of_codes() -> None:
    """Which codes are served is held to a running cluster by :mod:`tests.test_compatibility_page`."""
    folders = (folder if folder != "broker" else "broker/admin" for folder in _SERVED.findall(COMPATIBILITY))
    served = Counter(f"rocketpy/{folder}" for folder in folders)
    assert works() == {package: str(served[package]) if package in served else "-" for package in works()}
    assert served.keys() <= works().keys()


@pytest.mark.parametrize("feature", ["DLedger", "class filters"])
def test_what_does_not_work_yet_is_on_both_pages(feature: str) -> None:
    missing = COMPATIBILITY.split("\n## Not in this version\n", 1)[1].split("\n## ", 1)[0]
    assert feature in missing
    assert feature.lower() in section("What does not work yet").lower()


def test_the_two_commands_are_targets_of_the_makefile_and_ci_runs_one() -> None:
    (commands,) = [block for block in blocks(README, "") if "make " in block]
    targets = re.findall(r"^make (\w+) ", commands, re.MULTILINE)
    assert targets == ["broker", "test"]
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("make test")


@pytest.mark.parametrize("line", console_commands())
def test_every_command_of_the_sessions_exists_with_its_options(line: str) -> None:
    command = typer.main.get_command(app)
    _, *words = line.split()
    while isinstance(command, typer.core.TyperGroup):
        command = command.commands[words.pop(0)]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-") and not word[1:].isdigit()} <= options


async def test_the_session_from_python_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = [block for block in blocks(README, "python") if "trio.run(main)" in block]
    async with open_real_cluster(tmp_path) as cluster:
        program = code.replace("127.0.0.1:9876", cluster.address).replace("trio.run(main)", "")
        names: dict[str, object] = {}
        exec(compile(program, "README.md", "exec"), names)
        main = names["main"]
        assert callable(main)
        with trio.fail_after(PATIENCE_SECONDS):
            await main()
    sent, received = capsys.readouterr().out.splitlines()
    assert sent.startswith("SEND_OK MessageQueue(topic='hello'")
    assert received.endswith(" 0 hello from Python")


def test_the_figures_are_those_of_the_page_about_performance() -> None:
    page = PAGE_PATH.read_text()
    start = read_rows(page, SIZES_HEADING)["spawn to first SEND_OK"]
    memory = read_rows(page, SIZES_HEADING)["RssAnon idle"]
    rates = read_rows(page, RATES_HEADING)
    text = " ".join(section("Why one would use it").split())
    for figures in (
        f"{start.ours} ms (Java: {start.java} ms)",
        f"{memory.ours} MiB of private memory (Java: {memory.java} MiB)",
    ):
        assert figures in text
    for name in ("batch of 32", "pull of 32"):
        ours, java = (float(figure.replace(",", "")) for figure in (rates[name].ours, rates[name].java))
        assert f"({ours / java:.2f}x" in text


def test_the_chart_is_drawn_from_the_page_about_performance() -> None:
    """``python -m bench.picture`` draws it again."""
    assert PICTURE_PATH.read_text() == draw(PAGE_PATH.read_text())
    ElementTree.fromstring(PICTURE_PATH.read_text())
    assert f"({PICTURE_PATH.relative_to(ROOT)})" in README


def test_the_index_has_one_line_for_each_page() -> None:
    rows = re.findall(r"^\| \[([^\]]+)\]\(([^)]+)\) \| .+ \|$", INDEX, re.MULTILINE)
    assert all(name == target for name, target in rows)
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages == {name for name, _ in rows if "/" not in name}
    assert len(rows) == len(set(rows)) == INDEX.count("\n| [")
