"""Options that say which messages a pipeline reads: of a cluster, of a store directory or of an archive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Store = Annotated[
    str,
    typer.Option("--store", metavar="DIR", help="Read a store directory, of a dead broker too.", show_default=False),
]
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
Topics = Annotated[list[str] | None, typer.Option("-t", "--topic", help="Topic; may be repeated.", show_default=False)]
FormatOptions = Annotated[
    list[str] | None,
    typer.Option(
        "-o", "--option", metavar="NAME=VALUE", help="Option of format rocketmq; may be repeated.", show_default=False
    ),
]
Archive = Annotated[str, typer.Option("--archive", metavar="DIR", help="Read an archive.", show_default=False)]


@attrs.frozen(kw_only=True)
class Source:
    """The options that name a cluster, or a store directory. --store counts before the variable NAMESRV_ADDR."""

    namesrv: NameServer = ""
    store: Store = ""
    broker_name: Annotated[str, typer.Option(help="With --store: name of the broker it is of.", show_default=False)] = (
        ""
    )
    topic: Topics = None
    option: FormatOptions = None

    @property
    def options(self) -> Mapping[str, str]:
        """Return the options of the format, which :meth:`check` has checked."""
        return format_options(self.option)

    def check(self, *, needs_broker_name: bool = True) -> None:
        """Raise ``BadParameter`` unless the options name one source."""
        if self.store and not self.broker_name and needs_broker_name:
            raise typer.BadParameter(
                "--store needs it: files do not hold the broker's name", param_hint="--broker-name"
            )
        if not self.store and not self.namesrv:
            raise typer.BadParameter("expected a cluster, or a store directory (--store)", param_hint="--namesrv")
        if not self.store and not self.topic:
            raise typer.BadParameter("expected at least one topic to read from a cluster", param_hint="--topic")
        format_options(self.option)

    def messages(self, spark: SparkSession) -> DataFrame:
        """Return the messages of the source."""
        from rocketpy.spark.pipelines.sources import live_messages, store_messages

        topics = self.topic or ()
        if self.store:
            return store_messages(spark, self.store, self.broker_name or None, topics, options=self.options)
        return live_messages(spark, self.namesrv, topics, options=self.options)


def format_options(texts: list[str] | None) -> dict[str, str]:
    """Parse the values of --option."""
    parsed = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{text!r}, expected NAME=VALUE", param_hint="--option")
        parsed[name] = value
    return parsed
