"""Keys that an object of a JSON text has twice. Of these the last value counts, in fastjson as in every reader here.

For files that people edit: whoever adds a key that is there already should be told which of the two counts.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Final

SHOWN_MAX: Final = 10
"""Keys that are returned; a text may repeat a hundred thousand."""

_LOOKED_AT_MAX: Final = 1 << 20
"""Characters of a text that is looked at: a longer one takes a start half as long again, and is not edited by hand."""

_INTEGER_KEY = re.compile(r"([{,]\s*)(-?[0-9]{1,20})(?=\s*:)")
_SHOWN_CHARACTERS_MAX = 100


def repeated_keys(text: str) -> list[str]:
    """Return keys that come twice in one object, the first ones of many.

    Bare integers may be keys. Nothing is found in a text with other extensions of fastjson, which no program writes
    into such files, nor in one of more than 1 MiB.
    """
    if len(text) > _LOOKED_AT_MAX:
        return []
    for candidate in (text, _INTEGER_KEY.sub(r'\1"\2"', text)):
        found: dict[str, None] = {}
        try:
            json.loads(candidate, strict=False, object_pairs_hook=partial(_note, found))
        except (ValueError, RecursionError):
            continue
        return list(found)
    return []


def _note(found: dict[str, None], pairs: list[tuple[str, object]]) -> None:
    if len({key for key, _ in pairs}) == len(pairs):
        return
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen and len(found) < SHOWN_MAX:
            found[key[:_SHOWN_CHARACTERS_MAX]] = None
        seen.add(key)
