"""What dispatch reads from the properties of many records at once: the codes of their tags and their index keys.

Most producers set a unique key, some set keys and tags, and nothing else matters to queues and index. So the texts are
searched for these three names only, and no property is decoded. What a text means is defined by
:func:`~rocketpy.protocol.properties.decode_properties`, which is asked where a name is repeated or has no value.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.properties import (
    INDEX_KEYS_MAX,
    KEY_SEPARATOR,
    NAME_VALUE_SEPARATOR,
    PROPERTY_KEYS,
    PROPERTY_SEPARATOR,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
    decode_properties,
)

_NAME_END, _ENTRY_END = NAME_VALUE_SEPARATOR.encode(), PROPERTY_SEPARATOR.encode()
_TEXT_END = b"\0"
_BETWEEN_TEXTS = _TEXT_END + _ENTRY_END
_BETWEEN_KEYS = KEY_SEPARATOR.encode()
_CODES_MAX = 4096
_CACHED_TAGS_MAX = 64
"""Bytes of tags whose code is kept: long ones could fill the memory."""


class PropertyColumns:
    """The properties of some records, at least one, as they are stored, without NUL."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._texts = texts
        # An entry follows a separator, the first one of a text too.
        self._joined = _ENTRY_END + _BETWEEN_TEXTS.join(texts)
        self._entries: list[bytes] = []  # each text after a separator, once they are needed

    def tags_codes(self) -> list[int]:
        """Return the hash of each record's tags, 0 without tags."""
        tags = self._values(PROPERTY_TAGS)
        return [0] * len(self._texts) if tags is None else list(map(_CODES.__getitem__, tags))

    def index_keys(self) -> list[tuple[bytes, ...]]:
        """Return the keys under which the index has each record."""
        unique_keys, keys = self._values(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX), self._values(PROPERTY_KEYS)
        if keys is not None:
            return list(map(_all_keys, unique_keys or [b""] * len(keys), keys))
        if unique_keys is None:
            return [()] * len(self._texts)
        return list(zip(unique_keys)) if all(unique_keys) else [(key,) if key else () for key in unique_keys]

    def _values(self, name: str) -> list[bytes] | None:
        """Return the value of a property in each text in valid UTF-8, empty where it has none; None if none has one."""
        mark = _ENTRY_END + name.encode() + _NAME_END
        count = self._joined.count(mark)
        if not count:
            return None
        if not self._entries:
            self._entries = self._joined.split(_TEXT_END)
        values = [entries.partition(mark)[2].partition(_ENTRY_END)[0] for entries in self._entries]
        if len(values) - values.count(b"") != count:  # a name is repeated, or has no value
            return [_decoded(text).get(name, "").encode() for text in self._texts]
        if self._joined.isascii():
            return values
        return [value.decode("utf-8", "replace").encode() for value in values]


class TagsCodes(dict[bytes, int]):
    """Codes by tags, computed when they are first asked for; forgets everything when it is full."""

    def __missing__(self, tags: bytes) -> int:
        code = tags_code(tags.decode("utf-8", "replace"))
        if len(tags) <= _CACHED_TAGS_MAX:
            if len(self) >= _CODES_MAX:
                self.clear()
            self[tags] = code
        return code


_CODES = TagsCodes()


def _all_keys(unique_key: bytes, keys: bytes) -> tuple[bytes, ...]:
    if not keys:
        return (unique_key,) if unique_key else ()
    return tuple([part for part in (unique_key, *keys.split(_BETWEEN_KEYS)) if part][:INDEX_KEYS_MAX])


def _decoded(text: bytes) -> dict[str, str]:
    return decode_properties(text.decode("utf-8", "replace"))
