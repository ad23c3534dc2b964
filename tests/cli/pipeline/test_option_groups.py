"""Options of a class, as parameters of a command."""

from __future__ import annotations

from typing import Annotated

import attrs
import typer
from typer.testing import CliRunner

from rocketpy.cli.pipeline.option_groups import with_option_groups


@attrs.frozen(kw_only=True)
class Colours:
    wall: Annotated[str, typer.Option("-w", "--wall", help="Colour of the wall.")] = "white"
    door: Annotated[list[str] | None, typer.Option("--door")] = None


def test_the_fields_of_a_class_are_options_in_its_place() -> None:
    seen: list[tuple[str, Colours, int]] = []

    @with_option_groups
    def paint(house: str, colours: Colours, *, coats: Annotated[int, typer.Option("--coats")] = 1) -> None:
        """Paint a house."""
        seen.append((house, colours, coats))

    app = typer.Typer()
    app.command()(paint)
    for arguments in (["old"], ["new", "-w", "red", "--door", "blue", "--door", "black", "--coats", "2"]):
        assert CliRunner().invoke(app, arguments).exit_code == 0
    assert seen == [("old", Colours(), 1), ("new", Colours(wall="red", door=["blue", "black"]), 2)]
    helped = CliRunner().invoke(app, ["--help"]).stdout
    assert "Paint a house." in helped
    assert "Colour of the wall." in helped
    assert helped.index("--wall") < helped.index("--door") < helped.index("--coats")
