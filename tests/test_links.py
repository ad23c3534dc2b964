"""Links, paths and imports of the pages lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.page_text import ROOT, blocks, exists, links, missing_imports, named_paths

PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_PATHS = ("README.md", "docs/architecture.md", "docs/testing.md")
"""Pages whose paths in backticks are those of the repository; others name files of stores."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [target for target in links(page.read_text()) if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("name", WITH_PATHS)
def test_every_path_exists_and_every_import_works(name: str) -> None:
    page = (ROOT / name).read_text()
    assert [path for path in named_paths(page) if not exists(path)] == []
    assert [found for block in blocks(page, "python") for found in missing_imports(block)] == []
