"""The JSON header of a send: the fields of the form that clients write, read by comparison with the header before it.

    {"code":310,"extFields":{"a":"GROUP","b":"TOPIC","c":"TBW102","d":"4","e":"0","f":"0","g":"1700000000123","h":"0",
                                                                          ~~~              ~~~~~~~~~~~~~
     "i":"UNIQ_KEY\\u00017F00...0000\\u0002WAIT\\u0001true","j":"0","k":"false","m":"false"},"flag":0,"language":"JAVA",
                        ~~~~~~~~~~~
     "opaque":7,"serializeTypeCurrentRPC":"JSON","version":407}
              ~

Two headers of one producer differ in what is underlined: queue id, time of birth, values of properties, opaque, and the
signature if it signs. The last header is kept with the positions of these. The next one is compared with it piece by
piece, and only what differs is read. A header that differs elsewhere is read whole, and kept in turn.

The form: no white space; members and fields in any order, each at most once; numbers without sign or leading zero;
ASCII without escapes, but for the two separators of properties, which are escaped as above. Properties are plain: each
has a name of its own and a value, WAIT is ``true``, and none has a name that changes what a send means. Any other
header is declined, also one that is wrong: the general path reads or refuses it.

Compatibility: ``SendMessageRequestHeaderV2`` and ``MessageDecoder.messageProperties2String`` (4.9.8), as fastjson
writes them, and the C++ and Go clients.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from rocketpy.protocol.kernels.ascii_text import copy_text, digits_end, is_same, number_of, text_end

READ_HEADER_MAX: Final = 16_384
"""Bytes of the longest header that is read. The store takes no more than 32767 bytes of properties."""
KEPT_HEADER_MAX: Final = 1024
"""Bytes of the longest header that is kept for comparison; each connection has one."""
READ_PROPERTIES_MAX: Final = 32
"""Properties of a message; each name is compared with those before it."""
_TAGS_MAX: Final[i64] = 200
_INDEX_KEYS_MAX: Final = 128

_QUEUE_ID: Final[i64] = 0
_BORN_TIMESTAMP: Final[i64] = 1
_OPAQUE: Final[i64] = 2
_SIGNATURE: Final[i64] = 3
_PROPERTY: Final[i64] = 4  # and those after it
_UNIQ_KEY: Final[i64] = 5
_KEYS: Final[i64] = 6
_TAGS: Final[i64] = 7

_INT32_MAX: Final[i64] = 0x7FFFFFFF
_REQUIRED: Final = (b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h")
_SIGNED_HEAD: Final = (b"AccessKey", b"SecurityToken", b"a", b"b", b"c", b"d")
_SIGNED_TAIL: Final = (b"j", b"k", b"l", b"m", b"n")
_KNOWN: Final = frozenset((*_REQUIRED, b"i", *_SIGNED_HEAD, *_SIGNED_TAIL, b"Signature"))
_KINDS: Final[dict[bytes, int]] = {b"UNIQ_KEY": 5, b"KEYS": 6, b"TAGS": 7}


@final
class _Varying:
    """A value that differs between the headers of one producer: where it is in the kept one, and in the one at hand."""

    def __init__(self, kind: i64, begin: i64, end: i64, stored: bytes = b"", sent: bytes = b"") -> None:
        self.kind = kind
        self.kept_begin = begin
        self.kept_end = end
        self.begin = begin
        self.end = end
        self.stored = stored
        """Of a property: what a record has from the value before it up to this one."""
        self.sent = sent
        """The same of the text as it was sent, which has WAIT."""


@final
class SendHeader:
    """The fields of one send after the other; see :meth:`read`. One for each connection."""

    def __init__(self, not_plain: frozenset[bytes], suffix: bytes, writer: BytesWriter) -> None:
        """Take the names of properties that are not plain, the text that follows stored properties, and a writer.

        All connections may share the writer, which is used within a call only.
        """
        self.header = b""
        """The header that was read."""
        self.topic = ""
        self.producer_group = ""
        self.queue_id: i64 = 0
        self.sys_flag: i64 = 0
        self.born_timestamp: i64 = 0
        self.flag: i64 = 0
        self.reconsume_times: i64 = 0
        self.command_flag: i64 = 0
        self.opaque: i64 = 0
        self.properties = b""
        """The text of properties as it is stored: without WAIT, with the suffix."""
        self.tags_code: i64 = 0
        self.index_keys: tuple[bytes, ...] = ()
        self.access_key = b""
        """Empty if the header is not signed."""
        self.signature = b""
        self._not_plain = not_plain
        self._suffix = suffix
        self._kept = b""
        self._varying: list[_Varying] = []
        self._fields: dict[bytes, bytes] = {}
        self._signed_texts: tuple[bytes, bytes, bytes, bytes, bytes] = b"", b"", b"", b"", b""
        self._writer = writer

    def read(self, header: bytes) -> bool:
        """Read a header; return False, and leave the fields undefined, if it has another form."""
        self.header = b""
        if not self._is_like_kept(header):
            self._varying = []
            self._kept = b""
            try:
                if not self._read_whole(header):
                    return False
            except IndexError:  # it ends too early
                return False
            if len(header) <= KEPT_HEADER_MAX:
                self._kept = header
        if not self._read_varying(header):
            return False
        self.header = header
        return True

    def signed_content(self, body: bytes) -> bytes:
        """Return what the signature of the header that was read signs: all values in the order of their names, body."""
        writer, header = self._writer, self.header
        before_queue_id, before_born, before_properties, after_properties, after = self._signed_texts
        writer.truncate(0)
        writer.write(before_queue_id)
        for value in self._varying:
            if value.kind == _QUEUE_ID:
                copy_text(writer, header, value.begin, value.end)
        writer.write(before_born)
        for value in self._varying:
            if value.kind == _BORN_TIMESTAMP:
                copy_text(writer, header, value.begin, value.end)
        writer.write(before_properties)
        for value in self._varying:
            if value.kind >= _PROPERTY:
                writer.write(value.sent)
                copy_text(writer, header, value.begin, value.end)
        writer.write(after_properties)
        writer.write(after)
        writer.write(body)
        return writer.getvalue()

    # ---- the next header of a producer ----------------------------------------------------------------------------

    def _is_like_kept(self, header: bytes) -> bool:
        """Compare with the kept header, and find the values that may differ."""
        kept = self._kept
        kept_at: i64 = 0
        moved: i64 = 0  # where a byte is in this header, less where it is in the kept one
        for value in self._varying:
            begin = value.kept_begin + moved
            if not is_same(header, kept_at + moved, kept, kept_at, value.kept_begin - kept_at):
                return False
            end = digits_end(header, begin) if value.kind <= _OPAQUE else text_end(header, begin)
            if end == begin:
                return False
            value.begin = begin
            value.end = end
            kept_at = value.kept_end
            moved = end - kept_at
        size = i64(len(kept)) - kept_at
        return (
            size > 0
            and i64(len(header)) == kept_at + moved + size
            and is_same(header, kept_at + moved, kept, kept_at, size)
        )

    def _read_varying(self, header: bytes) -> bool:
        """Read the values that were found; False if one is none that a plain send has."""
        writer = self._writer
        writer.truncate(0)
        unique_key, keys = b"", b""
        self.tags_code = 0
        for value in self._varying:
            kind, begin, end = value.kind, value.begin, value.end
            if kind <= _OPAQUE:
                number = number_of(header, begin, end)
                if number < 0 or (number > _INT32_MAX and kind != _BORN_TIMESTAMP):
                    return False
                if kind == _OPAQUE:
                    self.opaque = number
                elif kind == _QUEUE_ID:
                    self.queue_id = number
                else:
                    self.born_timestamp = number
                continue
            if kind == _SIGNATURE:
                self.signature = header[begin:end]
                continue
            writer.write(value.stored)
            copy_text(writer, header, begin, end)
            if kind == _UNIQ_KEY:
                unique_key = header[begin:end]
            elif kind == _KEYS:
                keys = header[begin:end]
            elif kind == _TAGS:
                if end - begin > _TAGS_MAX:
                    return False
                self.tags_code = _java_hash(header, begin, end)
        writer.write(self._suffix)
        self.properties = writer.getvalue()
        self.index_keys = _index_keys(unique_key, keys) if keys or not unique_key else (unique_key,)
        return True

    # ---- a header of its own --------------------------------------------------------------------------------------

    def _read_whole(self, header: bytes) -> bool:
        """Find the fields and the values that may differ; IndexError or False for another form."""
        if len(header) > READ_HEADER_MAX or header[0] != 0x7B:
            return False
        self._fields = {}
        seen: set[bytes] = set()
        self.command_flag = 0
        at: i64 = 1
        while True:
            name_end = _name_end(header, at)
            if name_end < 0:
                return False
            name = header[at + 1 : name_end]
            at = name_end + 2
            if name in seen:
                return False
            seen.add(name)
            if name == b"extFields":
                at = self._read_fields(header, at)
            elif name == b"language" or name == b"serializeTypeCurrentRPC":
                at = _text_value_end(header, at)
            elif name == b"code" or name == b"flag" or name == b"opaque" or name == b"version":
                begin = at
                at = digits_end(header, at)
                number = number_of(header, begin, at)
                if number < 0 or number > _INT32_MAX:
                    return False
                if name == b"flag":
                    self.command_flag = number
                elif name == b"opaque":
                    self._varying.append(_Varying(_OPAQUE, begin, at))
            else:
                return False
            if at < 0:
                return False
            after = header[at]
            at += 1
            if after != 0x2C:
                break
        is_whole = at == len(header) or (at + 1 == len(header) and header[at] == 0x0A)  # jsoncpp ends with a newline
        return after == 0x7D and is_whole and b"opaque" in seen and b"extFields" in seen and self._take_fields()

    def _read_fields(self, header: bytes, at: i64) -> i64:
        """Find the ext fields; return where they end, -1 for another form."""
        fields = self._fields
        if header[at] != 0x7B:
            return -1
        at += 1
        while True:
            name_end = _name_end(header, at)
            if name_end < 0:
                return -1
            name = header[at + 1 : name_end]
            begin = name_end + 3
            if name not in _KNOWN or name in fields or header[begin - 1] != 0x22:
                return -1
            if name == b"i":
                end = self._read_properties(header, begin)
            else:
                end = text_end(header, begin)
                if name == b"e":
                    self._varying.append(_Varying(_QUEUE_ID, begin, end))
                elif name == b"g":
                    self._varying.append(_Varying(_BORN_TIMESTAMP, begin, end))
                elif name == b"Signature":
                    self._varying.append(_Varying(_SIGNATURE, begin, end))
            if end < 0 or header[end] != 0x22:
                return -1
            fields[name] = header[begin:end]
            at = end + 2
            if header[end + 1] != 0x2C:
                return at if header[end + 1] == 0x7D else -1

    def _read_properties(self, header: bytes, at: i64) -> i64:
        """Find the values of properties; return where they end, -1 if they are not plain."""
        names: list[bytes] = []
        stored, sent = b"", b""
        while header[at] != 0x22:
            end = text_end(header, at)
            name = header[at:end]
            if not name or name in names or name in self._not_plain or len(names) == READ_PROPERTIES_MAX:
                return -1
            if not is_same(header, end, b"\\u0001", 0, 6):
                return -1
            names.append(name)
            begin = end + 6
            end = text_end(header, begin)
            sent += name + b"\x01"
            if name == b"WAIT":
                if header[begin:end] != b"true":
                    return -1
                sent += b"true"
            elif end == begin:
                return -1
            else:
                kind = i64(_KINDS.get(name, 4))
                self._varying.append(_Varying(kind, begin, end, stored + name + b"\x01", sent))
                stored, sent = b"\x02", b""
            at = end
            if is_same(header, at, b"\\u0002", 0, 6):
                sent += b"\x02"
                at += 6
                # Older clients also end the last entry.
            elif header[at] != 0x22:
                return -1
        self._fields[b"i "] = sent
        return at if stored else -1

    def _take_fields(self) -> bool:
        """Take the values that do not vary; False if a field is missing, or none that a plain send has."""
        fields = self._fields
        for name in _REQUIRED:
            if name not in fields:
                return False
        if b"i" not in fields or fields.get(b"m", b"false") != b"false":
            return False
        if fields.get(b"k", b"false") not in (b"false", b"true"):
            return False
        self.sys_flag = _int32(fields[b"f"])
        self.flag = _int32(fields[b"h"])
        self.reconsume_times = _int32(fields.get(b"j", b"0"))
        others = min(_int32(fields[b"d"]), _int32(fields.get(b"l", b"0")))
        if min(self.sys_flag, self.flag, self.reconsume_times, others) < 0:
            return False
        self.producer_group = fields[b"a"].decode("ascii")
        self.topic = fields[b"b"].decode("ascii")
        self.access_key = fields.get(b"AccessKey", b"")
        self.signature = b""
        self._signed_texts = (
            b"".join([fields.get(name, b"") for name in _SIGNED_HEAD]),
            fields[b"f"],
            fields[b"h"],
            fields[b"i "],
            b"".join([fields.get(name, b"") for name in _SIGNED_TAIL]),
        )
        self._fields = {}
        return True


def _name_end(header: bytes, at: i64) -> i64:
    """Return where the name of a member ends that begins at a position with its quote; -1 if there is none."""
    if header[at] != 0x22:
        return -1
    end = text_end(header, at + 1)
    return end if is_same(header, end, b'":', 0, 2) else -1


def _text_value_end(header: bytes, at: i64) -> i64:
    if header[at] != 0x22:
        return -1
    end = text_end(header, at + 1)
    return end + 1 if header[end] == 0x22 else -1


def _int32(text: bytes) -> i64:
    number = number_of(text, 0, i64(len(text)))
    return -1 if number > _INT32_MAX else number


def _java_hash(text: bytes, begin: i64, end: i64) -> i64:
    """Return Java's hash of a part of a text."""
    value: i64 = 0
    at = begin
    while at < end:
        value = (value * 31 + i64(text[at])) & 0xFFFFFFFF
        at += 1
    return value - 0x100000000 if value > _INT32_MAX else value


def _index_keys(unique_key: bytes, keys: bytes) -> tuple[bytes, ...]:
    """Return the unique key, if there is one, and the parts of KEYS; see ``index_keys`` of ``protocol.properties``."""
    parts = [unique_key] if unique_key else []
    for part in keys.split(b" "):
        if part and len(parts) < _INDEX_KEYS_MAX:
            parts.append(part)
    return tuple(parts)
