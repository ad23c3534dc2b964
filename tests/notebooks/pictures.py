"""What is wrong with a picture, found in the kernel that draws it: titles, units, texts that cannot be read.

A startup file of the kernel calls :func:`watch`. Each figure that is drawn adds a line of JSON to a file: its title,
and a sentence for each defect.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text

FONT_POINTS_MIN = 8
_NUMBER = re.compile(r"\W*\d")
OVERLAP_PIXELS = 2
"""Texts whose boxes overlap by less, in one direction, touch no letter of each other."""


def watch(report: str) -> None:
    """Let every figure that is drawn in this process be checked."""
    from matplotlib.backend_bases import FigureCanvasBase

    draw = FigureCanvasBase.print_figure

    @functools.wraps(draw)
    def checked(canvas: FigureCanvasBase, *arguments: Any, **options: Any) -> Any:
        result = draw(canvas, *arguments, **options)
        with Path(report).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"title": title_of(canvas.figure), "defects": list(defects(canvas.figure))}) + "\n")
        return result

    FigureCanvasBase.print_figure = checked


def title_of(figure: Figure) -> str:
    """Return the title of a figure, or the titles of its axes."""
    return figure.get_suptitle() or " / ".join(filter(None, (_title(axes) for axes in figure.axes)))


def defects(figure: Figure) -> Iterator[str]:
    """Yield a sentence for each defect of a figure that has been drawn."""
    panels = [axes for axes in figure.axes if axes.get_visible()]
    if not panels:
        yield "the figure is empty"
    for axes in panels:
        if not (_title(axes) or figure.get_suptitle()):
            yield "axes without a title"
        if axes.axison:
            yield from _unnamed(axes.xaxis, "x axis", figure.get_supxlabel())
            yield from _unnamed(axes.yaxis, "y axis", figure.get_supylabel())
    yield from _unreadable(figure)


def _title(axes: Axes) -> str:
    return next((axes.get_title(loc) for loc in ("left", "center", "right") if axes.get_title(loc)), "")


def _unnamed(axis: Axis, name: str, shared: str) -> Iterator[str]:
    """An axis with numbers says what they count, and in which unit; words speak for themselves."""
    numbers = [text.get_text() for text in _tick_labels(axis) if _NUMBER.match(text.get_text())]
    if numbers and not (axis.get_label_text() or shared):
        yield f"{name} without a label, with ticks {', '.join(numbers[:3])}"


def _unreadable(figure: Figure) -> Iterator[str]:
    texts = list(_texts(figure))
    for text in texts:
        if text.get_fontsize() < FONT_POINTS_MIN:
            yield f"text of {text.get_fontsize():g} points: {text.get_text()!r}"
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    for (one, first), (other, second) in combinations(boxes, 2):
        width = min(first.x1, second.x1) - max(first.x0, second.x0)
        height = min(first.y1, second.y1) - max(first.y0, second.y0)
        if width > OVERLAP_PIXELS and height > OVERLAP_PIXELS:
            yield f"texts overlap: {one!r}, {other!r}"


def _texts(figure: Figure) -> Iterator[Text]:
    """Yield the texts that are drawn. Texts of ticks are there for ticks outside the limits, too."""
    from matplotlib.axis import Tick
    from matplotlib.text import Text

    ticks = {id(text) for tick in figure.findobj(Tick) for text in tick.findobj(Text)}
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip() and id(text) not in ticks:
            yield text
    for axes in figure.axes:
        if axes.get_visible() and axes.axison:
            yield from _tick_labels(axes.xaxis)
            yield from _tick_labels(axes.yaxis)


def _tick_labels(axis: Axis) -> Iterator[Text]:
    low, high = sorted(axis.get_view_interval())
    room = (high - low) * 1e-6
    for tick in axis.get_major_ticks():
        label = tick.label1
        if label.get_visible() and label.get_text().strip() and low - room <= tick.get_loc() <= high + room:
            yield label
