"""From the options that Spark passes, all text under case-insensitive names, to values.

Rule: a mistake is the user's, so each is one sentence that names the option, what was found and what was expected: an
unknown name the nearest known one, an option of another mode that mode, a name of another connector its successor.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from rocketpy.errors import SettingsError
from rocketpy.spark.options.connection import NAME_SERVER
from rocketpy.spark.options.files import PATH
from rocketpy.spark.options.option import Mode, Option, OptionValues
from rocketpy.spark.options.table import OPTIONS, REPLACED, options_of

_DOES = {
    Mode.FILES: "this reads files (path)",
    Mode.LIVE: "this is a batch read of a live cluster (nameServer)",
    Mode.STREAM: "this is a stream (readStream)",
    Mode.SINK: "this writes",
}
_BELONGS = {
    Mode.FILES: "reads of files (path)",
    Mode.LIVE: "batch reads of a live cluster (nameServer)",
    Mode.STREAM: "streams (readStream)",
    Mode.SINK: "writes",
}
_SIMILAR = 0.7  # below this the nearest name is a guess that misleads
_OF_CATALOG_TABLE = frozenset(("owner", "provider", "location", "external", "is_managed_location", "comment"))
"""Names that Spark adds for a table of its catalog, beside a copy of each option under ``option.``."""
_NO_CATALOG_TABLES = (
    "Spark gives catalog tables of Python sources no options, so CREATE TABLE ... USING rocketmq does not work; use "
    "CREATE TEMPORARY VIEW name USING rocketmq OPTIONS (...)"
)


def parse(options: Mapping[str, str], mode: Mode) -> OptionValues:
    """Return the values of a mode's options; :class:`SettingsError` for the first that is wrong."""
    by_name = {name.lower(): option for option in options_of(mode) for name in option.names}
    values: dict[str, Any] = {}
    given_as: dict[str, str] = {}
    for name, text in options.items():
        option = by_name.get(name.lower())
        if option is None:
            raise SettingsError(_why_not(name, mode))
        if option.name in given_as:
            raise SettingsError(
                f"options {given_as[option.name]} and {_spelled(name, option)} are the same: expected one of them"
            )
        given_as[option.name] = _spelled(name, option)
        values[option.name] = _value(option, given_as[option.name], text.strip())
    return OptionValues(mode, values)


def check_read_options(options: Mapping[str, str]) -> OptionValues:
    """Return the options of a read of which it is not known whether it is a batch or a stream.

    Spark asks for the schema without saying which. :class:`SettingsError` if the options fit neither: that of the
    stream if one of them is for streams alone, else that of the batch.
    """
    given = {name.lower() for name in options}
    is_stream = any(
        name.lower() in given for option in OPTIONS if option.modes == {Mode.STREAM} for name in option.names
    )
    return parse(options, Mode.STREAM if is_stream else read_mode(options))


def read_mode(options: Mapping[str, str]) -> Mode:
    """Return whether a batch read is of files or of a live cluster; :class:`SettingsError` for both or neither."""
    given = {name.lower() for name, text in options.items() if text.strip()}
    is_files = any(name.lower() in given for name in PATH.names)
    is_live = any(name.lower() in given for name in NAME_SERVER.names)
    if is_files and is_live:
        raise SettingsError(
            "format rocketmq reads either files (path) or a live cluster (nameServer), found both options"
        )
    if not is_files and not is_live:
        unknown = [name for name in options if name.lower() not in _KNOWN]
        if unknown:  # `nameSever` is a better explanation than a missing one
            raise SettingsError(_why_not(unknown[0], Mode.LIVE))
        hint = "" if options else f" (if this is a table: {_NO_CATALOG_TABLES})"
        raise SettingsError(
            "format rocketmq needs the option path (a store directory) or nameServer (host:port of a live cluster), "
            f"found neither{hint}"
        )
    return Mode.FILES if is_files else Mode.LIVE


_KNOWN = {name.lower(): option for option in OPTIONS for name in option.names}


def _value(option: Option[Any], name: str, text: str) -> object:
    try:
        return option.kind.parse(text)
    except ValueError as error:
        found = "that" if option.secret else repr(text)
        why = f": {error}" if str(error) and option.kind.explains else ""
        raise SettingsError(f"option {name}: expected {option.kind.expected}, found {found}{why}") from None


def _why_not(name: str, mode: Mode) -> str:
    if name.lower().startswith("option.") or name.lower() in _OF_CATALOG_TABLE:
        return _NO_CATALOG_TABLES
    known = _KNOWN.get(name.lower())
    if known is not None:
        where = " and ".join(_BELONGS[each] for each in Mode if each in known.modes)
        return f"option {_spelled(name, known)} is for {where}, and {_DOES[mode]}"
    for replaced, instead in REPLACED.items():
        if name.lower() == replaced.lower():
            return f"format rocketmq has no option {replaced}: {instead}"
    here = {each.lower(): each for option in options_of(mode) for each in option.names}
    everywhere = here | {each.lower(): each for option in OPTIONS for each in option.names}
    for names in (here, everywhere):
        if nearest := get_close_matches(name.lower(), names, 1, _SIMILAR):
            return f"unknown option {name!r} of format rocketmq, the nearest is {names[nearest[0]]}"
    every = ", ".join(option.name for option in options_of(mode))
    return f"unknown option {name!r} of format rocketmq, expected one of {every}"


def _spelled(name: str, option: Option[Any]) -> str:
    """Return the name as documented: Spark hands it over in lower case."""
    return next(each for each in option.names if each.lower() == name.lower())
