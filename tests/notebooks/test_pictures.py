"""What is found wrong with a picture."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.pictures import defects, title_of, watch

pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra: dev)")


@pytest.fixture
def figure() -> Iterator[Any]:
    """A figure without a defect."""
    import matplotlib as mpl
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context():
        style.use("rocketpy.spark.plots")
        figure = Figure()
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2, sharey=True)
        left.plot([1, 2], [3, 4])
        left.set(title="Rate", xlabel="time (s)", ylabel="messages")
        right.bar(["orders", "clicks"], [1, 2])
        right.set(title="Topics")
        yield figure


def drawn(figure: Any) -> list[str]:
    figure.canvas.draw()
    return list(defects(figure))


def test_a_good_figure_has_no_defect(figure: Any) -> None:
    """Words on an axis need no label, nor does an axis that shares the numbers of its neighbour."""
    assert drawn(figure) == []
    assert title_of(figure) == "Rate / Topics"


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda left: left.set_title("", loc="left"), "axes without a title"),
        (lambda left: left.set_xlabel(""), "x axis without a label, with ticks 1.0"),
        (lambda left: left.set_ylabel(""), "y axis without a label, with ticks 0.0"),
        (lambda left: left.text(1.2, 3.2, "tiny", fontsize=6), "text of 6 points: 'tiny'"),
        (lambda left: [left.text(1.2, each, "label") for each in (3.2, 3.21)], "texts overlap: 'label', 'label'"),
    ],
)
def test_each_defect_is_named(figure: Any, spoil: Callable[[Any], object], sentence: str) -> None:
    spoil(figure.axes[0])
    (defect,) = drawn(figure)
    assert defect.startswith(sentence)


def test_an_empty_figure_is_a_defect(figure: Any) -> None:
    figure.clear()
    assert drawn(figure) == ["the figure is empty"]


def test_every_figure_that_is_printed_is_reported(
    figure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.backend_bases import FigureCanvasBase

    monkeypatch.setattr(FigureCanvasBase, "print_figure", FigureCanvasBase.print_figure)  # undone after the test
    report = tmp_path / "report"
    watch(str(report))
    figure.axes[0].set_xlabel("")
    figure.savefig(io.BytesIO(), format="png")
    (line,) = report.read_text().splitlines()
    assert json.loads(line)["title"] == "Rate / Topics"
    assert len(json.loads(line)["defects"]) == 1
