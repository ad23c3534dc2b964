"""Every notebook runs from top to bottom in a fresh kernel, and shows the plots that it promises."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rocketpy.errors import StartError

REPOSITORY = Path(__file__).parents[1]
NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
CELL_S = 900  # no measure: what hangs ends
KERNEL_S = 300
PLOTS = {"first_look.ipynb": 2}
PLOT_BYTES_MIN = 5_000  # of PNG in Base64; empty axes have less

pytestmark = [pytest.mark.spark, pytest.mark.blackbox]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_shows_its_plots(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (the extra: dev)")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (the extra: dev)")
    _require_spark()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")])))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "matplotlib"))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "spark"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        timeout=CELL_S,
        startup_timeout=KERNEL_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    plots = [
        output["data"]["image/png"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert len(plots) >= PLOTS.get(path.name, 0)
    assert all(len(plot) > PLOT_BYTES_MIN for plot in plots)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_committed_without_outputs(path: Path) -> None:
    """Outputs make every diff unreadable, and the test above makes them anyway."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (the extra: dev)")
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)


def _require_spark() -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")
    from rocketpy.spark.session import check_java

    try:
        check_java()
    except StartError as error:
        if "java" in os.environ.get("ROCKETPY_REQUIRE", ""):
            raise
        pytest.skip(str(error))
