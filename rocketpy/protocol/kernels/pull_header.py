"""The JSON header of a pull, read by comparison with one before it.

    {"code":11,"extFields":{"commitOffset":"0","consumerGroup":"GROUP","expressionType":"TAG","maxMsgNums":"32",
                                            ~
     "queueId":"3","queueOffset":"96","subVersion":"0","subscription":"*","suspendTimeoutMillis":"15000",
                ~                 ~~
     "sysFlag":"6","topic":"TOPIC"},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON",...}
                                                                        ~

Two headers of one consumer differ in what is underlined. A header that was decoded is kept with the positions of these
numbers. The next one is compared with it piece by piece, and only the numbers are read. If nothing else differs, it
means what the kept one means, but for the numbers.

That holds only if the numbers are the values of those members, so a header is kept only if it has each of the four
names once, and no backslash: then a name cannot be written another way, and is no part of a text. A number is written
without sign or leading zero, with or without quotes. Any other header is left to the decoder.

Compatibility: ``PullMessageRequestHeader`` (4.9.8) as fastjson writes it, and the C++ and Go clients.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from rocketpy.protocol.fast_path_headers import FastPullFields
from rocketpy.protocol.kernels.ascii_text import digits_end, is_same, number_of

KEPT_HEADER_MAX: Final = 1024
"""Bytes of the longest header that is kept."""
KEPT_HEADERS_MAX: Final = 4
"""Headers that a connection keeps: of pulls from different topics, say."""
_NEW_MAX: Final[i64] = 16
"""Headers in a row that are tried, though none is like one before; then one in as many."""
_INT32_MAX: Final[i64] = 0x7FFFFFFF

_QUEUE_ID: Final[i64] = 0
_QUEUE_OFFSET: Final[i64] = 1
_COMMIT_OFFSET: Final[i64] = 2
_OPAQUE: Final[i64] = 3
_NAMES: Final = (b'"queueId":', b'"queueOffset":', b'"commitOffset":', b'"opaque":')


@final
class _Number:
    """A number that differs between the headers of one consumer, and where it is in the kept one."""

    def __init__(self, kind: i64, begin: i64, end: i64) -> None:
        self.kind = kind
        self.begin = begin
        self.end = end


@final
class PullForm:
    """A header that was decoded: its fields, and the numbers of the header that was last found to be like it."""

    def __init__(self, header: bytes, fields: FastPullFields, flag: int) -> None:
        self.fields = fields
        """The fields of the kept header: all but queue id and offsets are those of every header like it."""
        self.consumer_group = fields.consumer_group
        self.topic = fields.topic
        self.max_msg_nums = fields.max_msg_nums
        self.sys_flag = fields.sys_flag
        self.flag = flag
        self.queue_id: i64 = 0
        self.queue_offset: i64 = 0
        self.commit_offset: i64 = 0
        self.opaque: i64 = 0
        self._header = header
        self._numbers: list[_Number] = []  # in the order of the header

    def find_numbers(self) -> bool:
        """Find the numbers of the kept header; False if it cannot be kept."""
        header = self._header
        if b"\\" in header:
            return False
        numbers: list[_Number] = []
        for kind, name in enumerate(_NAMES):
            found = i64(header.find(name))
            if found < 0 or header.count(name[:-1]) != 1:
                return False
            begin = found + i64(len(name))
            is_quoted = begin < i64(len(header)) and header[begin] == 0x22
            if is_quoted:
                begin += 1
            end = digits_end(header, begin)
            after = header[end : end + 1]
            if (after != b'"') if is_quoted else (after not in (b",", b"}")):
                return False  # not the whole value
            numbers.append(_Number(i64(kind), begin, end))
        numbers.sort(key=_begin_of)
        self._numbers = numbers
        return self.is_like(header)

    def is_like(self, header: bytes) -> bool:
        """Compare with another header, and read its numbers, which are undefined if it differs elsewhere."""
        kept = self._header
        kept_at: i64 = 0
        moved: i64 = 0  # where a byte is in this header, less where it is in the kept one
        for number in self._numbers:
            begin = number.begin + moved
            if not is_same(header, kept_at + moved, kept, kept_at, number.begin - kept_at):
                return False
            end = digits_end(header, begin)
            value = number_of(header, begin, end)
            if value < 0:
                return False
            kind = number.kind
            if kind == _QUEUE_OFFSET:
                self.queue_offset = value
            elif kind == _COMMIT_OFFSET:
                self.commit_offset = value
            elif value > _INT32_MAX:
                return False
            elif kind == _QUEUE_ID:
                self.queue_id = value
            else:
                self.opaque = value
            kept_at = number.end
            moved = end - kept_at
        size = i64(len(kept)) - kept_at
        return i64(len(header)) == kept_at + moved + size and is_same(header, kept_at + moved, kept, kept_at, size)


@final
class PullForms:
    """The headers that are kept of one connection."""

    def __init__(self) -> None:
        self._kept: list[PullForm] = []
        self._new_count: i64 = 0  # since the last header that was like a kept one

    def find(self, header: bytes) -> PullForm | None:
        """Return the kept header that this one is like, with the numbers of this one; None if there is none."""
        for form in self._kept:
            if form.is_like(header):
                self._new_count = 0
                return form
        return None

    def keep(self, header: bytes, fields: FastPullFields, flag: int) -> None:
        """Keep a header that was decoded, if it can be, instead of the one that was kept first."""
        # Where few are alike, keeping them costs more than it saves: then few are kept.
        self._new_count += 1
        if len(header) > KEPT_HEADER_MAX or (self._new_count > _NEW_MAX and self._new_count % _NEW_MAX != 0):
            return
        form = PullForm(header, fields, flag)
        if form.find_numbers():
            if len(self._kept) == KEPT_HEADERS_MAX:
                del self._kept[0]
            self._kept.append(form)


def _begin_of(number: _Number) -> int:
    return int(number.begin)
