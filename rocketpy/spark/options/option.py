"""An option of the Spark format, and the values of the options of one read or write.

An option is declared once, in the module of its subject (:mod:`connection`, :mod:`reading`, :mod:`live` ...), and is
the key of its own value: ``values[MIN_PARTITIONS]`` is an ``int`` for the type checker, too. Rule: nothing here knows
Spark, files or sockets; :mod:`table` joins the declarations, :mod:`parsing` reads text by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Generic, TypeVar, cast

import attrs

from rocketpy.spark.options.kinds import Kind

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Mode(Enum):
    """What is done with the format; the value is the word of the documentation."""

    FILES = "files"  # spark.read ... load(path)
    LIVE = "live"  # spark.read ... option("nameServer", ...)
    STREAM = "stream"  # spark.readStream
    SINK = "sink"  # df.write, df.writeStream


@attrs.frozen(eq=False)
class Option(Generic[T_co]):
    """One option: what it is called, what its text means, and where it may be given.

    ``aliases`` are other names for the same thing (those of Apache's rocketmq-spark), ``shown_default`` is the word of
    the documentation for a default that is no text. A ``secret`` value is never printed.
    """

    name: str
    kind: Kind[T_co]
    default: T_co
    modes: frozenset[Mode]
    meaning: str
    aliases: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    shown_default: str = attrs.field(default="", kw_only=True)
    secret: bool = attrs.field(default=False, kw_only=True)

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names under which it may be given."""
        return (self.name, *self.aliases)


def modes(*those: Mode) -> frozenset[Mode]:
    """Return the modes as the set that an option holds."""
    return frozenset(those)


@attrs.frozen(repr=False)
class OptionValues:
    """Values of the options of one read or write: those given, else the defaults. Picklable."""

    mode: Mode
    given: Mapping[str, Any]  # by the option's own name

    def __getitem__(self, option: Option[T]) -> T:
        """Return the value; asking for an option of another mode is a mistake of the code."""
        assert self.mode in option.modes, f"{option.name} is no option of {self.mode.value}"
        return cast("T", self.given[option.name]) if option.name in self.given else option.default

    def is_given(self, option: Option[Any]) -> bool:
        """Return whether the user has set it."""
        return option.name in self.given

    def __repr__(self) -> str:
        """Show the names only: values may be secrets."""
        return f"OptionValues({self.mode.value}: {', '.join(sorted(self.given))})"
