"""What the benchmark computes and draws, and that its mutants can be planted; what it measures needs brokers."""

from __future__ import annotations

import ast
from xml.etree import ElementTree

import pytest

from bench import picture
from bench.brokers import COMPILED, JAVA, PURE
from bench.hold_rows import HOLD_ROWS
from bench.mutants.mutants import ROOT, Mutant, load_mutants
from bench.rows import STEADY_ROWS, SYNC_ROWS, Row
from bench.table import TEN, Figures, format_means, format_table, means

KINDS = (JAVA, PURE, COMPILED)


def figures(row: Row, *rounds: tuple[float, ...]) -> Figures:
    return Figures(row, {kind: list(values) for kind, values in zip(KINDS, rounds, strict=False)})


def row(name: str, *, is_send: bool = False) -> Row:
    return Row(name, "messages/s", lambda session: None, is_send=is_send)


def test_the_table_has_a_column_for_each_broker_and_ratios_to_the_first() -> None:
    table = format_table(
        [figures(row("a"), (100, 300, 200), (200, 100, 300), (500, 600, 700)), figures(row("b"), (), (), ())]
    )
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert lines[0][:7] == ["row", "unit", "Java", "pure", "compiled", "pure / Java", "compiled / Java"]
    assert lines[2][2:7] == ["200", "200", "600", "1.00x", "3.00x"]
    assert lines[2][7:] == ["100..300", "100..300", "500..700"]
    assert lines[3][2:] == ["-"] * 8
    assert len({len(line) for line in table.splitlines()}) == 1


def test_a_broker_alone_has_no_ratio() -> None:
    (head, _, line) = format_table([Figures(row("a"), {PURE: [1.0]})]).splitlines()
    assert "/ " not in head
    assert line.split("|")[3].strip() == "1"


def test_the_ten_rates_are_the_sends_the_batch_two_pulls_and_sync_flush() -> None:
    ten = [each.name for each in (*STEADY_ROWS, *HOLD_ROWS, *SYNC_ROWS) if each.is_of_ten]
    assert len(ten) == TEN
    assert ten[-3:] == ["pull of 32 by SQL92", "SYNC_FLUSH 32x1", "SYNC_FLUSH 1x1"]
    assert [each.name for each in STEADY_ROWS if each.is_send] == ten[:5]
    assert not any(each.is_send for each in SYNC_ROWS)


def test_the_means_are_geometric_and_of_whole_sets_only() -> None:
    rows = [each for each in (*STEADY_ROWS, *HOLD_ROWS, *SYNC_ROWS) if each.is_of_ten]
    measured = [figures(each, (100,), (100,), (400 if number % 2 else 100,)) for number, each in enumerate(rows)]
    (sends, ten) = means(measured).values()
    assert sends == {PURE: pytest.approx(1.0), COMPILED: pytest.approx(4 ** (2 / 5))}
    assert ten == {PURE: pytest.approx(1.0), COMPILED: pytest.approx(2.0)}
    assert (
        format_means(means(measured)).splitlines()[0] == "geometric mean of the send rows: pure 1.00x, compiled 1.74x"
    )
    assert list(means(measured[:-1])) == ["the send rows"]
    measured[0].rounds[PURE].clear()
    assert [list(each) for each in means(measured).values()] == [[COMPILED], [COMPILED]]


def page(*headings: str) -> str:
    """A page with tables of these brokers."""
    parts = []
    for heading, names in ((picture.RATES_HEADING, picture.RATES), (picture.SIZES_HEADING, picture.SIZES)):
        rule = ["---"] * (2 + len(headings))
        lines = [["row", "unit", *headings], rule]
        lines += [[name, "messages/s", *(f"1,{number}00" for number in range(len(headings)))] for name in names]
        parts += [f"## {heading}", "", *("| " + " | ".join(line) + " |" for line in lines), ""]
    return "\n".join(parts)


@pytest.mark.parametrize("headings", [("Java", "ours"), ("Java", "pure", "compiled")])
def test_the_chart_has_a_bar_for_each_broker_of_the_tables(headings: tuple[str, ...]) -> None:
    svg = picture.draw(page(*headings))
    texts = [each.text for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("text")]
    bars = [text for text in texts if text and text.startswith("1,")]
    assert len(bars) == len(headings) * (len(picture.RATES) + len(picture.SIZES))
    assert [picture.NAMES[heading] in texts for heading in picture.NAMES] == [
        heading in headings for heading in picture.NAMES
    ]
    assert all(int(value) >= 0 for value in _attributes(svg, "x"))
    assert max(map(int, _attributes(svg, "y"))) < int(ElementTree.fromstring(svg).attrib["height"])


def test_a_row_knows_the_faster_build() -> None:
    rows = picture.read_rows(page("Java", "pure", "compiled"), picture.SIZES_HEADING)
    assert {(each.java, each.ours) for each in rows.values()} == {("1,000", "1,200")}


def _attributes(svg: str, name: str) -> list[str]:
    return [each.attrib[name] for each in ElementTree.fromstring(svg).iter() if name in each.attrib]


@pytest.mark.parametrize("mutant", load_mutants().values(), ids=lambda mutant: mutant.name)
def test_each_mutant_can_be_planted_and_has_tests(mutant: Mutant) -> None:
    source = (ROOT / mutant.path).read_text()
    changed = mutant.changed(source)
    assert changed is not None, "its old text is not there once: it no longer applies"
    assert changed != source
    ast.parse(changed)
    assert mutant.tests("mirror")
    assert mutant.tests("machines") == mutant.machines
    assert bool(mutant.tests("named")) == (mutant.area == "settings")
