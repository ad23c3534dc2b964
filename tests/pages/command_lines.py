"""Finds the command lines of the pages, and holds each to the program that it starts, without running it.

A command line is a line of a shell block (in a ``console`` block one that begins with ``$``), or a text in backticks
whose first word is a program of :data:`PROGRAMS`. What stands for a value of the reader's own is in capitals (``DIR``,
``HOST:PORT``, ``N``), what may be left out in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs

from tests.page_text import ROOT

SHELL = ("bash", "sh", "console")
PROGRAMS = ("rocketpy", "python", "make", "pip", "pytest", "docker", "spark-submit", "apt-get", "ulimit", ".ci/run")

OTHER_PAGES = ("bench/README.md", "tests/interop/README.md", "tests/golden/README.md")

_FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"`([^`]+)`")
_VARIABLE = re.compile(r"[A-Z_]+=\S*\Z")


@attrs.frozen
class Block:
    """A fenced block of a page."""

    page: str
    language: str
    text: str

    @property
    def first(self) -> str:
        """Its first line, by which it is known."""
        return self.text.partition("\n")[0].strip()


def pages() -> list[str]:
    """Return every page of the repository, by its path."""
    found = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        ROOT / "bench" / "README.md",
        ROOT / "tests/interop/README.md",
    ]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def conf_files() -> list[str]:
    """Return the sample configurations, whose comments have commands."""
    found = [path for pattern in ("*.conf", "*.properties") for path in (ROOT / "conf").rglob(pattern)]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text = (ROOT / page).read_text()
    return [Block(page, language, body) for language, body in _FENCED.findall(text)]


def commands_of(block: Block) -> list[str]:
    """Return the commands of a shell block: lines, continued ones joined, without comments."""
    joined = block.text.replace("\\\n", " ")
    if block.language == "console":
        lines = [line[2:] for line in joined.splitlines() if line.startswith("$ ")]
    else:
        lines = joined.splitlines()
    return [command for line in lines if (command := _without_comment(line))]


def quoted_commands(page: str) -> Iterator[str]:
    """Yield the command lines in backticks, of a page or of the comments of a file."""
    text = _FENCED.sub("", (ROOT / page).read_text())
    is_conf = page in conf_files()
    text = re.sub(r"\n *#? *", " ", text) if is_conf else text
    for quoted in _QUOTED.findall(text):
        command = " ".join(quoted.split())
        if program_of(command) in PROGRAMS and not command.endswith(("/", ".md")):
            yield command
    if is_conf:
        yield from re.findall(r"(python -m rocketpy\.\w+(?: -c \S+)?)", text)


def program_of(command: str) -> str:
    """Return the program of a command line, without variables and directories."""
    words = [word for word in command.split() if not _VARIABLE.match(word)]
    name = words[0] if words else ""
    return name if name in PROGRAMS else Path(name).name or name


def _without_comment(line: str) -> str:
    return re.sub(r"(^|\s+)#.*$", "", line).strip()
