"""Options that say which messages a pipeline reads: of a cluster, of a store directory or of an archive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NameServer = Annotated[
    str,
    typer.Option(
        "-n",
        "--namesrv",
        envvar="NAMESRV_ADDR",
        help="Read a cluster: its nameservers, HOST:PORT.",
        show_default=False,
    ),
]
Store = Annotated[
    str,
    typer.Option("--store", metavar="DIR", help="Read a store directory, of a dead broker too.", show_default=False),
]
BrokerName = Annotated[
    str, typer.Option("--broker-name", help="With --store: name of the broker it is of.", show_default=False)
]
Topics = Annotated[list[str] | None, typer.Option("-t", "--topic", help="Topic; may be repeated.", show_default=False)]
FormatOptions = Annotated[
    list[str] | None,
    typer.Option(
        "-o", "--option", metavar="NAME=VALUE", help="Option of format rocketmq; may be repeated.", show_default=False
    ),
]


def chosen_messages(
    spark: SparkSession,
    name_server: str,
    store: str,
    broker_name: str,
    topics: list[str] | None,
    options: Mapping[str, str],
) -> DataFrame:
    """Return the messages that the options name, checked by :func:`check_source` before."""
    from rocketpy.spark.pipelines.sources import live_messages, store_messages

    if store:
        return store_messages(spark, store, broker_name, topics or (), options=options)
    return live_messages(spark, name_server, topics or (), options=options)


def check_source(name_server: str, store: str, broker_name: str, topics: list[str] | None) -> None:
    """Raise ``BadParameter`` unless the options name one source. --store counts before the variable NAMESRV_ADDR."""
    if store and not broker_name:
        raise typer.BadParameter("--store needs it: files do not hold the broker's name", param_hint="--broker-name")
    if not store and not name_server:
        raise typer.BadParameter("expected a cluster, or a store directory (--store)", param_hint="--namesrv")
    if not store and not topics:
        raise typer.BadParameter("expected at least one topic to read from a cluster", param_hint="--topic")


def format_options(texts: list[str] | None) -> dict[str, str]:
    """Parse the values of --option."""
    parsed = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{text!r}, expected NAME=VALUE", param_hint="--option")
        parsed[name] = value
    return parsed
