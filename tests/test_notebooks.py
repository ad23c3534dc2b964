"""Every notebook runs from top to bottom in a fresh kernel, and is committed with the outputs of such a run.

``python -m tests.notebooks`` writes the outputs. Here they are only compared in kind: a run has other times and ports.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.__main__ import defects_of
from tests.notebooks.cleaning import cleaned, code_cells, defects, output_kinds
from tests.notebooks.execution import notebook_paths, run_notebook, running_java
from tests.page_text import links
from tests.spark_runtime import require_spark

PAGE = Path(__file__).parents[1] / "docs" / "spark.md"
EACH = pytest.mark.parametrize("path", notebook_paths(), ids=lambda path: path.stem)

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (the extra: dev)")


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The Java of all notebooks, which they leave without files of theirs in its working directory."""
    require_spark()
    directory = tmp_path_factory.mktemp("java")
    with running_java(directory) as variables:
        yield variables
    assert list((directory / "notebooks").iterdir()) == []


@EACH
@pytest.mark.spark
@pytest.mark.blackbox
def test_notebook_runs_and_shows_what_is_committed(path: Path, tmp_path: Path, java: dict[str, str]) -> None:
    """Also: its pictures have titles, units and texts that can be read, and it leaves nothing behind."""
    pytest.importorskip("nbclient", reason="nbclient is not installed (the extra: dev)")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra: dev)")
    run = run_notebook(path, tmp_path, java)
    assert defects_of(run) == []
    notebook = cleaned(run.notebook)
    assert list(defects(notebook)) == []
    committed = nbformat.read(path, as_version=4)
    assert kinds_by_cell(notebook) == kinds_by_cell(committed)
    shutil.rmtree(
        tmp_path, ignore_errors=True
    )  # three of them are kept otherwise, with the files of a store and of Spark each


@EACH
def test_notebook_is_committed_with_the_outputs_of_its_code(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert code_cells(notebook)
    assert list(defects(notebook)) == []
    assert "image/png" in [kind for cell in code_cells(notebook) for kind in output_kinds(cell)]


def test_the_page_about_dataframes_lists_every_notebook() -> None:
    rows = re.findall(r"^\| \[(\S+\.ipynb)\]\(\.\./notebooks/(\S+)\) \| .+ \|$", PAGE.read_text(), re.MULTILINE)
    assert all(name == target for name, target in rows)
    assert sorted(name for name, _ in rows) == [path.name for path in notebook_paths()]


@EACH
def test_links_of_a_notebook_lead_somewhere(path: Path) -> None:
    text = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
    assert [target for target in links(text) if not (path.parent / target).exists()] == []


def kinds_by_cell(notebook: Any) -> dict[int, list[str]]:
    """Return what each cell shows, by its number."""
    return {number: output_kinds(cell) for number, cell in enumerate(code_cells(notebook), 1)}
