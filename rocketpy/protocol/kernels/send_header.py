"""The JSON header of a send: the fields of the form that clients write, read by comparison with the header before it.

    {"code":310,"extFields":{"a":"GROUP","b":"TOPIC","c":"TBW102","d":"4","e":"0","f":"0","g":"1700000000123","h":"0",
                                                                          ~~~              ~~~~~~~~~~~~~
     "i":"UNIQ_KEY\\u00017F00...0000\\u0002WAIT\\u0001true","j":"0","k":"false","m":"false"},"flag":0,"language":"JAVA",
                        ~~~~~~~~~~~
     "opaque":7,"serializeTypeCurrentRPC":"JSON","version":407}
              ~

Two headers of one producer differ in what is underlined: queue id, time of birth, values of properties, opaque, and the
signature if it signs. The last header is kept with the positions of these. The next one is compared with it piece by
piece, and only what differs is read. A header that differs elsewhere is read whole, and kept in turn; some are kept.

The form: no white space; members and fields in any order, each at most once; numbers without sign or leading zero;
ASCII without escapes, but for the two separators of properties, which are escaped as above. Properties are plain: each
has a name of its own and a value, WAIT is ``true``, and none has a name that changes what a send means. Any other
header is declined, also one that is wrong: the general path reads or refuses it.

The header of a batch has the same form, with code 320 as its first member and ``"m":"true"``. Its properties are those
of the whole batch, the same in all batches of one producer (``WAIT\\u0001true``): their text is kept, not taken apart.

Compatibility: ``SendMessageRequestHeaderV2`` and ``MessageDecoder.messageProperties2String`` (4.9.8), as fastjson
writes them, and the C++ and Go clients.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from rocketpy.protocol.kernels.ascii_text import copy_text, java_hash
from rocketpy.protocol.kernels.send_form import (
    BORN_TIMESTAMP,
    INT32_MAX,
    KEYS,
    OPAQUE,
    QUEUE_ID,
    SIGNATURE,
    TAGS,
    UNIQ_KEY,
    SendForm,
)

KEPT_HEADER_MAX: Final = 1024
"""Bytes of the longest header that is kept for comparison."""
KEPT_HEADERS_MAX: Final = 4
"""Headers that a connection keeps: of sends to different topics, say."""
KEPT_VALUES_MAX: Final = 48
"""Values that differ, in all headers that a connection keeps: each takes some 200 bytes, as much as a short header."""
_NEW_MAX: Final[i64] = 16
"""Headers in a row that are read whole, though none is like one before; then one in as many."""
_TAGS_MAX: Final[i64] = 200
_INDEX_KEYS_MAX: Final = 128


@final
class SendHeader:
    """The fields of one send after the other; see :meth:`read`. One for each connection."""

    def __init__(self, not_plain: frozenset[bytes], suffix: bytes, writer: BytesWriter) -> None:
        """Take the names of properties that are not plain, the text that follows stored properties, and a writer.

        All connections may share the writer, which is used within a call only.
        """
        self.header = b""
        """The header that was read; empty if the last one was declined."""
        self.topic = ""
        self.producer_group = ""
        self.names = ("", "")
        """Topic and producer group."""
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
        self.access_key = ""
        """Empty if the header is not signed."""
        self.is_batch = False
        self.batch_properties = ""
        """The text of a batch's properties as sent. What is stored and indexed, above, is of single sends only."""
        self.signature = b""
        self._not_plain = not_plain
        self._suffix = suffix
        self._writer = writer
        self._form = SendForm()  # of the header that was read
        self.kept: list[SendForm] = []  # read only; with the form of the last header at its end, unless it is too long
        self._new_count: i64 = 0  # since the last header that was like a kept one

    def read(self, header: bytes) -> bool:
        """Read a header; return False, and leave the fields undefined, if it has another form."""
        self.header = b""
        if self._form.is_like(header):
            self._new_count = 0
        elif not self._find_form(header):
            return False
        if not self._read_varying(header):
            return False
        self.header = header
        return True

    def signed_content(self, body: bytes) -> bytes:
        """Return what the signature of the header that was read signs: all values in the order of their names, body.

        The caller may hash a long body on its own instead, after this without a body.
        """
        writer, header, form = self._writer, self.header, self._form
        writer.truncate(0)
        for value in form.signed_values:
            writer.write(value.signed)
            copy_text(writer, header, value.begin, value.end)
        writer.write(form.signed_end)
        writer.write(body)
        return writer.getvalue()

    def _find_form(self, header: bytes) -> bool:
        """Find another kept header that this one is like, or read it whole; False if it is declined."""
        form: SendForm | None = None
        for kept in self.kept:
            if kept.is_like(header):
                form = kept
                break
        if form is None:
            # Where few are alike, keeping them costs more than it saves: then few are read whole.
            self._new_count += 1
            if self._new_count > _NEW_MAX and self._new_count % _NEW_MAX != 0:
                return False
            form = SendForm()
            try:
                if not form.read_whole(header, self._not_plain):
                    return False
            except IndexError:  # it ends too early
                return False
            if len(header) <= KEPT_HEADER_MAX:
                self._keep(form)
        else:
            self._new_count = 0
        self._form = form
        self.names = form.names
        self.topic, self.producer_group = form.names
        self.access_key = form.access_key
        self.is_batch = form.is_batch
        self.batch_properties = form.batch_properties
        self.signature = b""
        self.sys_flag = form.sys_flag
        self.flag = form.flag
        self.reconsume_times = form.reconsume_times
        self.command_flag = form.command_flag
        return True

    def _keep(self, form: SendForm) -> None:
        kept = self.kept
        count = len(form.varying)
        for each in kept:
            count += len(each.varying)
        while kept and (len(kept) == KEPT_HEADERS_MAX or count > KEPT_VALUES_MAX):
            count -= len(kept[0].varying)
            del kept[0]
        kept.append(form)

    def _read_varying(self, header: bytes) -> bool:
        """Read the values that were found; False if one is none that a plain send has."""
        writer = self._writer
        writer.truncate(0)
        unique_key, keys = b"", b""
        self.tags_code = 0
        for value in self._form.varying:
            kind, begin, end = value.kind, value.begin, value.end
            if kind <= OPAQUE:
                number = value.number
                if number < 0 or (number > INT32_MAX and kind != BORN_TIMESTAMP):
                    return False
                if kind == OPAQUE:
                    self.opaque = number
                elif kind == QUEUE_ID:
                    self.queue_id = number
                else:
                    self.born_timestamp = number
            elif kind == SIGNATURE:
                self.signature = header[begin:end]
            else:
                writer.write(value.stored)
                copy_text(writer, header, begin, end)
                if kind == UNIQ_KEY:
                    unique_key = header[begin:end]
                elif kind == KEYS:
                    keys = header[begin:end]
                elif kind == TAGS:
                    if end - begin > _TAGS_MAX:
                        return False
                    self.tags_code = java_hash(header, begin, end)
        if self.is_batch:
            return True
        writer.write(self._suffix)
        self.properties = writer.getvalue()
        self.index_keys = _index_keys(unique_key, keys) if keys or not unique_key else (unique_key,)
        return True


def _index_keys(unique_key: bytes, keys: bytes) -> tuple[bytes, ...]:
    """Return the unique key, if there is one, and the parts of KEYS; see ``index_keys`` of ``protocol.properties``."""
    parts = [unique_key] if unique_key else []
    for part in keys.split(b" "):
        if part and len(parts) < _INDEX_KEYS_MAX:
            parts.append(part)
    return tuple(parts)
