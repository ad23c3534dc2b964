"""Names of clients, for words about one that a program has left open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def name_of(module: str, opener: str, arguments: Sequence[object], named: Mapping[str, object]) -> str:
    """Return a call of an opener with what tells its clients apart; a config, which may hold secrets, is left out."""
    shown = [repr(each) for each in arguments[:1]]
    shown += [f"{key}={named[key]!r}" for key in ("name_servers", "group") if key in named]
    return f"{module}.{opener}({', '.join(shown)})"
