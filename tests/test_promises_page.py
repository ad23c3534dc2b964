"""``docs/promises.md``: every cell has an answer and names tests, and every test that it names is collected."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "promises.md").read_text()
WORDS = ("**kept**", "**may be lost**", "**refused**", "**may repeat**")
SECTIONS = ("Faults and flush modes", "Damage, whatever the flush mode", "What else is promised", "Faults and roles")
_REFERENCES = re.compile(r"\[([A-Z]\d(?:, [A-Z]\d)*)\]$")


def table(heading: str) -> list[list[str]]:
    """The rows of the only table under a heading, the first being its head."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert set("".join(rows.pop(1))) <= set("-")
    return rows


def named_tests() -> dict[str, str]:
    """The tests by their short names."""
    return {name: test.strip("`") for name, test in table("Tests")[1:]}


def answers() -> list[tuple[str, str]]:
    """Every cell that answers, with the beginning of its row."""
    found = []
    for heading in SECTIONS:
        head, *rows = table(heading)
        for row in rows:
            assert len(row) == len(head), f"{row[0]}: expected {len(head)} cells, found {len(row)}"
            first = 2 if heading == SECTIONS[2] else 1
            found += [(row[0], cell) for cell in row[first:]]
    return found


@pytest.mark.parametrize(("fault", "cell"), answers())
def test_every_cell_says_what_happens_and_names_its_tests(fault: str, cell: str) -> None:
    references = _REFERENCES.search(cell)
    assert references, f"{fault}: no test is named in {cell!r}"
    answer = cell[: references.start()]
    assert any(word in answer for word in WORDS) or answer.startswith(("as ", "no answer", "it goes on", "its file")), (
        f"{fault}: {answer!r} has none of {WORDS}"
    )
    unknown = set(references[1].split(", ")) - named_tests().keys()
    assert not unknown, f"{fault}: {unknown} are not in the table of tests"


def test_every_mode_has_a_column() -> None:
    assert table(SECTIONS[0])[0] == ["fault", "ASYNC_FLUSH", "SYNC_FLUSH", "transient pool"]
    assert table(SECTIONS[3])[0] == ["fault", "ASYNC_MASTER with a slave", "SYNC_MASTER", "SLAVE"]


def test_every_word_is_explained_and_used() -> None:
    legend = PAGE.split("\n## ", 1)[0]
    assert tuple(re.findall(r"^\| (\*\*[a-z ]+\*\*) \|", legend, re.MULTILINE)) == WORDS
    for word in WORDS:
        assert any(word in cell for _, cell in answers()), word


def test_every_test_of_the_table_proves_something_and_has_one_name() -> None:
    named = {name for _, cell in answers() for name in _REFERENCES.search(cell)[1].split(", ")}  # type: ignore[index]
    assert named == named_tests().keys()
    assert len(set(named_tests().values())) == len(table("Tests")) - 1


def test_the_named_tests_are_there() -> None:
    """Pytest itself finds each of them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--no-header", *named_tests().values()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    collected = {line.split("[", 1)[0] for line in done.stdout.splitlines() if "::" in line}
    missing = [
        test
        for test in named_tests().values()
        if not any(each == test or each.startswith(test + "::") for each in collected)
    ]
    assert missing == []


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
