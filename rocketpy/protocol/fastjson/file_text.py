"""The JSON text of a file that people edit: its value, and which keys an object has twice.

Of equal keys the last value counts, in fastjson as in every reader here. Whoever adds a key that is there already
should be told which of the two counts.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Final

from rocketpy.protocol.fastjson.codec import DEPTH_MAX, is_deeper, loads
from rocketpy.protocol.fastjson.file_notes import FileNotes

_LOOKED_AT_MAX: Final = 1 << 20
"""Characters of a text whose keys are looked at: a longer one takes a start half as long again, and is not edited by
hand."""

_INTEGER_KEY = re.compile(r"([{,]\s*)(-?[0-9]{1,20})(?=\s*:)")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def loads_file(text: str, notes: FileNotes) -> object:
    """Return the value of a text, as :func:`~rocketpy.protocol.fastjson.loads` without references; note repeated keys.

    Bare integers may be keys, which are text in the value. The text is parsed once. Nothing is noted of a text with
    other extensions of fastjson, which no program writes into files that people edit, nor of one above 1 MiB.
    Raises :class:`~rocketpy.errors.RemoteProtocolError` for a text that is malformed.
    """
    # The halves of a pair that are written as escapes are joined by the other reader alone.
    if text.strip() and not _SURROGATE.search(text):
        for candidate in (text, _INTEGER_KEY.sub(r'\1"\2"', text)):
            repeated: dict[str, None] = {}
            hook = partial(_object, repeated) if len(text) <= _LOOKED_AT_MAX else None
            try:
                value = json.loads(candidate, strict=False, object_pairs_hook=hook, parse_constant=_refuse)
            except (ValueError, RecursionError):
                continue
            if is_deeper(value, DEPTH_MAX):
                break
            for key in repeated:
                notes.repeated_key(key)
            return value
    return loads(text, references=False)


def _object(repeated: dict[str, None], pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                repeated[key] = None
            seen.add(key)
    return members


def _refuse(constant: str) -> object:
    raise ValueError(constant)
