"""The JSON header of a pull, read by comparison with one before it.

    {"code":11,"extFields":{"commitOffset":"0","consumerGroup":"GROUP","expressionType":"TAG","maxMsgNums":"32",
                                            ~
     "queueId":"3","queueOffset":"96","subVersion":"0","subscription":"*","suspendTimeoutMillis":"15000",
                ~                 ~~
     "sysFlag":"6","topic":"TOPIC"},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON",...}
                                                                        ~

Two headers of one consumer differ in what is underlined, and in the signature if it signs. A header that was decoded is
kept with the positions of these values. The next one is compared with it piece by piece, and only these are read. If
nothing else differs, it means what the kept one means, but for them.

That holds only if they are the values of those members, so a header is kept only if it has each of the four names once,
``Signature`` once if at all, and no backslash: then a name cannot be written another way, and is no part of a text. A
number is written without sign or leading zero, with or without quotes. Any other header is left to the decoder.

Compatibility: ``PullMessageRequestHeader`` (4.9.8) as fastjson writes it, and the C++ and Go clients. What is signed is
that of :mod:`rocketpy.protocol.signature`.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from rocketpy.protocol.fast_path_headers import FAST_HEADER_ERRORS, FastPullFields, decode_texts
from rocketpy.protocol.kernels.ascii_text import digits_end, is_same, number_of, text_end

KEPT_HEADER_MAX: Final = 1024
"""Bytes of the longest header that is kept."""
KEPT_HEADERS_MAX: Final = 4
"""Headers that a connection keeps: of pulls from different topics, say."""
_NEW_MAX: Final[i64] = 16
"""Headers in a row that are tried, though none is like one before; then one in as many."""
_INT32_MAX: Final[i64] = 0x7FFFFFFF

_COMMIT_OFFSET: Final[i64] = 0
_QUEUE_ID: Final[i64] = 1
_QUEUE_OFFSET: Final[i64] = 2
_OPAQUE: Final[i64] = 3
_SIGNATURE: Final[i64] = 4
_NAMES: Final = (b'"commitOffset":', b'"queueId":', b'"queueOffset":', b'"opaque":')
_SIGNED_NUMBERS: Final = ("commitOffset", "queueId", "queueOffset")
"""In the order in which they are signed, which is that of their kinds."""
_SIGNATURE_NAME: Final = b'"Signature":'


@final
class _Value:
    """A value that differs between the headers of one consumer: where it is in the kept one, and in the one at hand."""

    def __init__(self, kind: i64, begin: i64, end: i64) -> None:
        self.kind = kind
        self.kept_begin = begin
        self.kept_end = end
        self.begin = begin
        self.end = end


@final
class PullForm:
    """A header that was decoded: its fields, and the values of the header that was last found to be like it."""

    def __init__(self, header: bytes, fields: FastPullFields, flag: int) -> None:
        self.fields = fields
        """The fields of the kept header: all but queue id and offsets are those of every header like it."""
        self.consumer_group = fields.consumer_group
        self.topic = fields.topic
        self.max_msg_nums = fields.max_msg_nums
        self.sys_flag = fields.sys_flag
        self.flag = flag
        self.access_key = ""
        """Empty if the header is not signed, or has another form than clients sign."""
        self.queue_id: i64 = 0
        self.queue_offset: i64 = 0
        self.commit_offset: i64 = 0
        self.opaque: i64 = 0
        self.signature = b""
        self._header = header
        self._values: list[_Value] = []  # in the order of the header
        self._signed_values: list[_Value] = []  # in the order in which they are signed
        self._signed_before: list[bytes] = []  # what is signed before each of them, and after the last one

    def find_values(self) -> bool:
        """Find the values that may differ in the kept header; False if it cannot be kept."""
        header = self._header
        if b"\\" in header:
            return False
        values: list[_Value] = []
        for kind, name in enumerate(_NAMES):
            value = self._number(i64(kind), name)
            if value is None:
                return False
            values.append(value)
        self._signed_values = values[: len(_SIGNED_NUMBERS)]
        if _SIGNATURE_NAME in header:
            value = self._signature()
            if value is None:
                return False
            values.append(value)
            self._read_signed()
        values.sort(key=_begin_of)
        self._values = values
        return self.is_like(header)

    def is_like(self, header: bytes) -> bool:
        """Compare with another header, and read its values, which are undefined if it differs elsewhere."""
        kept = self._header
        kept_at: i64 = 0
        moved: i64 = 0  # where a byte is in this header, less where it is in the kept one
        for value in self._values:
            begin = value.kept_begin + moved
            if not is_same(header, kept_at + moved, kept, kept_at, value.kept_begin - kept_at):
                return False
            kind = value.kind
            if kind == _SIGNATURE:
                end = text_end(header, begin)
                self.signature = header[begin:end]
            else:
                end = digits_end(header, begin)
                number = number_of(header, begin, end)
                if number < 0:
                    return False
                if kind == _QUEUE_OFFSET:
                    self.queue_offset = number
                elif kind == _COMMIT_OFFSET:
                    self.commit_offset = number
                elif number > _INT32_MAX:
                    return False
                elif kind == _QUEUE_ID:
                    self.queue_id = number
                else:
                    self.opaque = number
            value.begin = begin
            value.end = end
            kept_at = value.kept_end
            moved = end - kept_at
        size = i64(len(kept)) - kept_at
        return i64(len(header)) == kept_at + moved + size and is_same(header, kept_at + moved, kept, kept_at, size)

    def signed_content(self, header: bytes, body: bytes) -> bytes:
        """Return what the signature of a header signs, the last one that was found to be like this; see access_key."""
        parts: list[bytes] = []
        for at, value in enumerate(self._signed_values):
            parts.append(self._signed_before[at])
            parts.append(header[value.begin : value.end])
        parts.append(self._signed_before[-1])
        parts.append(body)
        return b"".join(parts)

    def _number(self, kind: i64, name: bytes) -> _Value | None:
        """Return where the number of a name is; None if it is not there once, as a whole value."""
        header = self._header
        found = i64(header.find(name))
        if found < 0 or header.count(name[:-1]) != 1:
            return None
        begin = found + i64(len(name))
        is_quoted = begin < i64(len(header)) and header[begin] == 0x22
        if is_quoted:
            begin += 1
        end = digits_end(header, begin)
        after = header[end : end + 1]
        if (after != b'"') if is_quoted else (after not in (b",", b"}")):
            return None
        return _Value(kind, begin, end)

    def _signature(self) -> _Value | None:
        """Return where the signature is; None if its name is there twice, or its value is no text."""
        header = self._header
        begin = i64(header.find(_SIGNATURE_NAME)) + i64(len(_SIGNATURE_NAME))
        if header.count(_SIGNATURE_NAME[:-1]) != 1 or header[begin : begin + 1] != b'"':
            return None
        end = text_end(header, begin + 1)
        return _Value(_SIGNATURE, begin + 1, end) if header[end : end + 1] == b'"' else None

    def _read_signed(self) -> None:
        """Read whose the signature is, and what it signs between the numbers, if all that is signed is ASCII text."""
        if not self._header.isascii():
            return
        try:
            fields = decode_texts(self._header).ext_fields
        except FAST_HEADER_ERRORS:
            return
        before = [b""]
        for name in sorted(fields):
            if name in _SIGNED_NUMBERS:
                before.append(b"")
            elif name != "Signature":
                before[-1] += fields[name].encode("ascii")
        self._signed_before = before
        self.access_key = fields.get("AccessKey", "")


@final
class PullForms:
    """The headers that are kept of one connection."""

    def __init__(self) -> None:
        self._kept: list[PullForm] = []
        self._new_count: i64 = 0  # since the last header that was like a kept one
        self._found: PullForm | None = None  # what this header is like: a guard asks for it before the fast path
        self._found_header = b""

    def find(self, header: bytes) -> PullForm | None:
        """Return the kept header that this one is like, with the values of this one; None if there is none."""
        if header is self._found_header:
            return self._found
        if len(header) > KEPT_HEADER_MAX:
            return None
        self._found = None
        self._found_header = header
        for form in self._kept:
            if form.is_like(header):
                self._new_count = 0
                self._found = form
                break
        return self._found

    def keep(self, header: bytes, fields: FastPullFields, flag: int) -> None:
        """Keep a header that was decoded, if it can be, instead of the one that was kept first."""
        # Where few are alike, keeping them costs more than it saves: then few are kept.
        self._new_count += 1
        if len(header) > KEPT_HEADER_MAX or (self._new_count > _NEW_MAX and self._new_count % _NEW_MAX != 0):
            return
        form = PullForm(header, fields, flag)
        if form.find_values():
            if len(self._kept) == KEPT_HEADERS_MAX:
                del self._kept[0]
            self._kept.append(form)
            self._found = form
            self._found_header = header


def _begin_of(value: _Value) -> int:
    return int(value.kept_begin)
