"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from rocketpy.client.config import DEFAULT_NAME_SERVER

NameServers = Annotated[
    str,
    typer.Option(
        "-n",
        "--namesrv",
        envvar="NAMESRV_ADDR",
        help="Nameservers: HOST:PORT, several separated by ';'.",
        show_default=True,
    ),
]
Topic = Annotated[str, typer.Option("-t", "--topic", help="The topic.", show_default=False)]

__all__ = ["DEFAULT_NAME_SERVER", "NameServers", "Topic"]
