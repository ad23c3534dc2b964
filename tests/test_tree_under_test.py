"""Programs that tests start are those of the tree under test, wherever another checkout is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tree_under_test
from tests.tree_under_test import ROOT, lead_to_tree


def test_a_program_imports_the_tree_under_test(tmp_path: Path) -> None:
    code = "import rocketpy; print(rocketpy.__file__)"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert Path(printed.stdout.strip()) == ROOT / "rocketpy" / "__init__.py"
    assert Path(tree_under_test.__file__).parents[1] == ROOT


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, [str(ROOT)]),
        ("", [str(ROOT)]),
        ("/another", [str(ROOT), "/another"]),
        (str(ROOT), [str(ROOT)]),
        (f"/another{os.pathsep}{ROOT}", [str(ROOT), "/another"]),
    ],
)
def test_the_tree_comes_first_and_once(before: str | None, after: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if before is not None:
        monkeypatch.setenv("PYTHONPATH", before)
    lead_to_tree()
    assert os.environ["PYTHONPATH"].split(os.pathsep) == after
