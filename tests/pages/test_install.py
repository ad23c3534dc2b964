"""Pages and messages tell a reader to install only what can be installed, and name no address that is not there."""

from __future__ import annotations

import re
import shlex
import tomllib

import pytest

from tests.page_text import ROOT, blocks

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TEXTS = [
    path
    for pattern in ("*.md", "docs/*.md", "notebooks/*.ipynb", "conf/*.conf", "rocketpy/**/*.py")
    for path in sorted(ROOT.glob(pattern))
]
WITH_ADDRESSES = ("README.md", "SECURITY.md", "docs/contributing.md")
_INSTALL = re.compile(r"pip install ([^`\n\\,:;&]+?)(?=[`\n\\,:;&]|\"$| with | where | from )")
OTHERS = {"pip", "pytest", "matplotlib", "libraries", *(re.split("[<>=]", each)[0] for each in PROJECT["dependencies"])}
"""Distributions of others that pages name, and a directory that they are put into."""


def installed(text: str) -> set[str]:
    """Return what the commands of a text install, without options and extras."""
    words = {word for found in _INSTALL.findall(text) for word in shlex.split(found)}
    return {re.sub(r"\[.*\]$", "", word) for word in words if not word.startswith("-")}


def test_nothing_of_ours_is_to_be_installed_from_an_index() -> None:
    """The name on the index is another project's, so who followed such a command would get that."""
    found = {path.relative_to(ROOT): installed(path.read_text()) for path in TEXTS}
    wrong = {path: words - OTHERS - {"DIR", "./DIR", ".", "/src"} for path, words in found.items()}
    assert {path: words for path, words in wrong.items() if words} == {}
    assert len([path for path, words in found.items() if words & {"DIR", "."}]) > 10


def test_extras_that_are_named_exist_and_are_used() -> None:
    named = {
        extra
        for path in [*TEXTS, ROOT / "Makefile"]
        for extras in re.findall(r"(?:DIR|\.)\[([a-z,0-9]+)\]'", path.read_text())
        for extra in extras.split(",")
    }
    assert named <= set(PROJECT["optional-dependencies"])
    assert set(PROJECT["optional-dependencies"]) - named == {"lz4", "zstd"}, "of codecs that messages name"


def test_the_first_paragraph_says_how_to_install_and_whose_the_name_is() -> None:
    paragraph = (ROOT / "README.md").read_text().split("\n\n")[1]
    assert "`pip install DIR`" in paragraph
    assert "`rocketpy` on PyPI is another project's" in " ".join(paragraph.split())
    assert "write `./rocketpy`" in paragraph, "without a slash pip would install that one"


def test_an_image_is_built_from_a_checkout() -> None:
    (image,) = blocks((ROOT / "docs" / "containers.md").read_text(), "dockerfile")
    assert "COPY . /src\nRUN pip install --no-cache-dir /src " in image


@pytest.mark.parametrize("name", WITH_ADDRESSES)
def test_no_address_of_the_project_is_invented(name: str) -> None:
    page = (ROOT / name).read_text()
    hosts = set(re.findall(r"https?://([\w.-]+)", page))
    assert hosts <= {"rocketmq.apache.org", "trio.readthedocs.io"}
    assert re.findall(r"[\w.]+@[\w-]+\.\w+", page) == []
    assert "urls" not in PROJECT, "when there are addresses, the pages must say them"


NEEDED_BY_OTHERS = {"pandas"}
"""PySpark asks for it where frames pass through Arrow."""


def test_every_package_of_an_extra_is_imported() -> None:
    """An extra for what is not there yet installs packages that nothing uses."""
    sources = "".join(path.read_text() for path in (ROOT / "rocketpy").rglob("*.py"))
    for extra, requirements in PROJECT["optional-dependencies"].items():
        packages = {re.split("[<>=]", each)[0] for each in requirements if extra != "dev"}
        for name in packages - NEEDED_BY_OTHERS:
            assert re.search(rf"^\s*(import|from) {name}\b", sources, re.MULTILINE), f"{extra}: {name}"
