"""Forms of the headers of sends: what does not differ between the sends of one producer, and where the rest is.

A header is read whole once, as :mod:`.send_header` describes its form. The next one is compared with it piece by piece,
up to each value that may differ.

Compatibility: ``SendMessageRequestHeaderV2`` and ``MessageDecoder.messageProperties2String`` (4.9.8).
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from rocketpy.protocol.kernels.ascii_text import digits_end, is_same, number_of, text_end

READ_HEADER_MAX: Final = 4096
"""Bytes of the longest header that is read: what was read of the last one stays with its connection."""
READ_PROPERTIES_MAX: Final = 32
"""Properties of a message; each name is compared with those before it."""

QUEUE_ID: Final[i64] = 0
BORN_TIMESTAMP: Final[i64] = 1
OPAQUE: Final[i64] = 2
SIGNATURE: Final[i64] = 3
PROPERTY: Final[i64] = 4
UNIQ_KEY: Final[i64] = 5
KEYS: Final[i64] = 6
TAGS: Final[i64] = 7
"""Kinds of values that may differ: numbers, the signature, properties."""

_ONEWAY: Final[i64] = 2
"""The flag of a request that is not answered; that of any other is 0."""
INT32_MAX: Final[i64] = 0x7FFFFFFF
_SEND: Final[i64] = 310
_BATCH_BEGIN: Final = b'{"code":320,'
_REQUIRED: Final = (b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i")
_SIGNED_HEAD: Final = (b"#signedFor", b"AccessKey", b"SecurityToken", b"a", b"b", b"c", b"d")
_SIGNED_TAIL: Final = (b"j", b"k", b"l", b"m", b"n")
_KNOWN: Final = frozenset((*_REQUIRED, *_SIGNED_HEAD, *_SIGNED_TAIL, b"Signature"))
_KINDS: Final[dict[bytes, int]] = {b"UNIQ_KEY": 5, b"KEYS": 6, b"TAGS": 7}


@final
class VaryingValue:
    """A value that differs between the headers of one producer: where it is in the kept one, and in the one at hand."""

    def __init__(self, kind: i64, begin: i64, end: i64, stored: bytes = b"", sent: bytes = b"") -> None:
        self.kind = kind
        self.kept_begin = begin
        self.kept_end = end
        self.begin = begin
        self.end = end
        self.number: i64 = 0
        """The value of one that is a number; -1 if it has another form."""
        self.stored = stored
        """Of a property: what a record has from the value before it up to this one."""
        self.sent = sent
        """The same of the text as it was sent, which has WAIT."""
        self.signed = b""
        """What is signed between the value before it, in the order of names, and this one."""

    def find(self, header: bytes, begin: i64) -> i64:
        """Find the value that begins at a position of the header at hand; return where it ends."""
        if self.kind <= OPAQUE:
            end = digits_end(header, begin)
            self.number = number_of(header, begin, end)
        else:
            end = text_end(header, begin)
        self.begin = begin
        self.end = end
        return end


@final
class SendForm:
    """A header that was read whole: the values that do not differ in those like it, and where the others are."""

    def __init__(self) -> None:
        self.header = b""
        self.varying: list[VaryingValue] = []
        self.names = ("", "")
        self.access_key = ""
        self.is_batch = False
        self.batch_properties = ""
        """The text of the properties of a batch, which do not differ between batches."""
        self.sys_flag: i64 = 0
        self.flag: i64 = 0
        self.reconsume_times: i64 = 0
        self.command_flag: i64 = 0
        self.signed_values: list[VaryingValue] = []
        """The values that differ and are signed, in the order in which they are."""
        self.signed_end = b""
        """What is signed after the last of them."""
        self._fields: dict[bytes, bytes] = {}
        self._sent_end = b""  # of the properties' text, after the last value

    def is_like(self, header: bytes) -> bool:
        """Compare with another header, and find the values that may differ."""
        kept = self.header
        kept_at: i64 = 0
        moved: i64 = 0  # where a byte is in this header, less where it is in the kept one
        for value in self.varying:
            begin = value.kept_begin + moved
            if not is_same(header, kept_at + moved, kept, kept_at, value.kept_begin - kept_at):
                return False
            end = value.find(header, begin)
            if end == begin:
                return False
            kept_at = value.kept_end
            moved = end - kept_at
        size = i64(len(kept)) - kept_at
        if size == 0 or i64(len(header)) != kept_at + moved + size:
            return False
        return is_same(header, kept_at + moved, kept, kept_at, size)

    def read_whole(self, header: bytes, not_plain: frozenset[bytes]) -> bool:
        """Find the fields and the values that may differ; IndexError or False for another form."""
        self.header = header
        self.is_batch = is_same(header, 0, _BATCH_BEGIN, 0, i64(len(_BATCH_BEGIN)))
        code: i64 = 0
        if len(header) > READ_HEADER_MAX or header[0] != 0x7B:
            return False
        seen: set[bytes] = set()
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
                at = self._read_fields(at, not_plain)
            elif name == b"language" or name == b"serializeTypeCurrentRPC":
                at = _text_value_end(header, at)
            elif name == b"code" or name == b"flag" or name == b"opaque" or name == b"version":
                begin = at
                at = digits_end(header, at)
                number = _int32(header, begin, at)
                if number < 0:
                    return False
                if name == b"code":
                    code = number
                elif name == b"flag":
                    if number != 0 and number != _ONEWAY:  # a response, for example
                        return False
                    self.command_flag = number
                elif name == b"opaque":
                    self._add(OPAQUE, begin)
            else:
                return False
            if at < 0:
                return False
            after = header[at]
            at += 1
            if after != 0x2C:
                break
        is_whole = at == len(header) or (at + 1 == len(header) and header[at] == 0x0A)  # jsoncpp ends with a newline
        if after != 0x7D or not is_whole or not (self.is_batch or code == _SEND):
            return False
        return b"opaque" in seen and b"extFields" in seen and self._take_fields()

    def _add(self, kind: i64, begin: i64) -> i64:
        """Note a value that may differ; return where it ends."""
        value = VaryingValue(kind, begin, begin)
        self.varying.append(value)
        value.kept_end = value.find(self.header, begin)
        return value.kept_end

    def _read_fields(self, at: i64, not_plain: frozenset[bytes]) -> i64:
        """Find the ext fields; return where they end, -1 for another form."""
        header, fields = self.header, self._fields
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
            if name == b"i" and self.is_batch:
                end = self._read_batch_properties(begin)
            elif name == b"i":
                end = self._read_properties(begin, not_plain)
            elif name == b"e":
                end = self._add(QUEUE_ID, begin)
            elif name == b"g":
                end = self._add(BORN_TIMESTAMP, begin)
            elif name == b"Signature":
                end = self._add(SIGNATURE, begin)
            else:
                end = text_end(header, begin)
            if end < 0 or header[end] != 0x22:
                return -1
            fields[name] = header[begin:end]
            at = end + 2
            if header[end + 1] != 0x2C:
                return at if header[end + 1] == 0x7D else -1

    def _read_properties(self, at: i64, not_plain: frozenset[bytes]) -> i64:
        """Find the values of properties; return where they end, -1 if they are not plain."""
        header = self.header
        names: list[bytes] = []
        stored, sent = b"", b""
        while header[at] != 0x22:
            end = text_end(header, at)
            name = header[at:end]
            if not name or name in names or name in not_plain or len(names) == READ_PROPERTIES_MAX:
                return -1
            if not is_same(header, end, b"\\u0001", 0, 6):
                return -1
            names.append(name)
            at = end + 6
            sent += name + b"\x01"
            if name == b"WAIT":
                if not is_same(header, at, b"true", 0, 4):
                    return -1
                sent += b"true"
                at += 4
            else:
                begin = at
                at = self._add(i64(_KINDS.get(name, 4)), begin)
                if at == begin:
                    return -1
                value = self.varying[-1]
                value.stored = stored + name + b"\x01"
                value.sent = sent
                stored, sent = b"\x02", b""
            if is_same(header, at, b"\\u0002", 0, 6):  # older clients also end the last entry
                sent += b"\x02"
                at += 6
            elif header[at] != 0x22:
                return -1
        self._sent_end = sent
        return at if stored else -1

    def _read_batch_properties(self, at: i64) -> i64:
        """Read the text of a batch's properties; return where it ends, -1 for another form."""
        header = self.header
        text = b""
        while True:
            end = text_end(header, at)
            text += header[at:end]
            if header[end] == 0x22:
                break
            if is_same(header, end, b"\\u0001", 0, 6):
                text += b"\x01"
            elif is_same(header, end, b"\\u0002", 0, 6):
                text += b"\x02"
            else:
                return -1
            at = end + 6
        self.batch_properties = text.decode("ascii")
        self._sent_end = text
        return end

    def _take_fields(self) -> bool:
        """Take the values that do not differ; False if a field is missing, or none that a plain send or batch has."""
        fields = self._fields
        for name in _REQUIRED:
            if name not in fields:
                return False
        if fields.get(b"m", b"false") != (b"true" if self.is_batch else b"false"):
            return False
        if fields.get(b"k", b"false") not in (b"false", b"true"):
            return False
        self.sys_flag = _int32_of(fields[b"f"])
        self.flag = _int32_of(fields[b"h"])
        self.reconsume_times = _int32_of(fields.get(b"j", b"0"))
        others = min(_int32_of(fields[b"d"]), _int32_of(fields.get(b"l", b"0")))
        if min(self.sys_flag, self.flag, self.reconsume_times, others) < 0:
            return False
        self.names = fields[b"b"].decode("ascii"), fields[b"a"].decode("ascii")
        self.access_key = fields.get(b"AccessKey", b"").decode("ascii")
        self._order_signed()
        self._fields = {}
        return True

    def _order_signed(self) -> None:
        """Put the values that are signed in order, with what is signed between them."""
        fields = self._fields
        before = b"".join([fields.get(name, b"") for name in _SIGNED_HEAD])
        for kind, after in ((QUEUE_ID, fields[b"f"]), (BORN_TIMESTAMP, fields[b"h"])):
            for value in self.varying:
                if value.kind == kind:
                    value.signed = before
                    self.signed_values.append(value)
            before = after
        for value in self.varying:
            if value.kind >= PROPERTY:
                value.signed = before + value.sent
                self.signed_values.append(value)
                before = b""
        self.signed_end = b"".join([before, self._sent_end, *[fields.get(name, b"") for name in _SIGNED_TAIL]])


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


def _int32(text: bytes, begin: i64, end: i64) -> i64:
    number = number_of(text, begin, end)
    return -1 if number > INT32_MAX else number


def _int32_of(text: bytes) -> i64:
    return _int32(text, 0, i64(len(text)))
